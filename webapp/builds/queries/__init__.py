"""Everything that reads builds. Functions that take a principal decide what it may see."""

from webapp.builds.queries.builds import (
    BuildFilter,
    dump_plan,
    find_build,
    find_repository_by_name,
    get_build,
    get_job,
    is_job_over,
    list_builds,
    list_failed_jobs,
    list_jobs,
    list_tries,
    load_jobs,
    log_file,
    read_log,
    read_progress,
)
from webapp.builds.queries.chains import default_chain, find_repository
from webapp.builds.queries.costs import Cost, read_costs
from webapp.builds.queries.planning import (
    describe_published,
    describe_transactions,
    find_digest,
    find_loaded,
    list_read,
)
from webapp.builds.queries.queue import read_reasons
from webapp.builds.queries.specs import Lineage, list_jobspecs, read_lineage

__all__ = [
    "BuildFilter",
    "Cost",
    "Lineage",
    "default_chain",
    "describe_published",
    "describe_transactions",
    "dump_plan",
    "find_build",
    "find_digest",
    "find_loaded",
    "find_repository",
    "find_repository_by_name",
    "get_build",
    "get_job",
    "is_job_over",
    "list_builds",
    "list_failed_jobs",
    "list_jobs",
    "list_jobspecs",
    "list_read",
    "list_tries",
    "load_jobs",
    "log_file",
    "read_costs",
    "read_lineage",
    "read_log",
    "read_progress",
    "read_reasons",
]
