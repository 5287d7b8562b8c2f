"""Everything that reads builds. Functions that take a principal decide what it may see.

Modules:
    builds: builds and jobs, looked up for somebody.
    specs: published JobSpecs, as a branch sees them and as a graph of datasets.
    planning: what a plan is made from.
    chains: a build's repository, its default chain, and whether its code is published.
    queue: who waits for whom before each dataset of a branch.
    totals: what a build's page says about all its jobs without loading them.
    readers: whose code reads a dataset, on any branch, and which columns of it.
    used_files: files that jobs used while they ran, and what they were at a commit.
    sources: what the columns of datasets are made of.
    costs: what a rebuild took when it was last done.
    loads: uploads on branches, as a merge may repeat them.
    drafts: files that wait for their sender to say where they go.
    backlog: what waits, and whether it moves, for `readyz`.
    trust: who could have written the code of a job.
"""

from webapp.builds.queries.builds import (
    BuildFilter,
    dump_plan,
    find_build,
    find_log_owner,
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
from webapp.builds.queries.loads import BranchUploads, Upload, read_uploads
from webapp.builds.queries.planning import (
    describe_published,
    describe_transactions,
    find_loaded,
    find_makers,
    find_token,
    list_below,
    list_read,
)
from webapp.builds.queries.queue import read_reasons
from webapp.builds.queries.readers import CodeReader, find_readers_on, list_made_by, list_readers, read_columns
from webapp.builds.queries.sources import ColumnSource, MadeColumn, read_made_columns
from webapp.builds.queries.specs import Lineage, describe_dependencies, list_jobspecs, read_lineage
from webapp.builds.queries.totals import count_jobs
from webapp.builds.queries.used_files import CodeAtCommit, read_code

__all__ = [
    "BranchUploads",
    "BuildFilter",
    "CodeAtCommit",
    "CodeReader",
    "ColumnSource",
    "Cost",
    "Lineage",
    "MadeColumn",
    "Upload",
    "count_jobs",
    "default_chain",
    "describe_dependencies",
    "describe_published",
    "describe_transactions",
    "dump_plan",
    "find_build",
    "find_loaded",
    "find_log_owner",
    "find_makers",
    "find_readers_on",
    "find_repository",
    "find_repository_by_name",
    "find_token",
    "get_build",
    "get_job",
    "is_job_over",
    "list_below",
    "list_builds",
    "list_failed_jobs",
    "list_jobs",
    "list_jobspecs",
    "list_made_by",
    "list_read",
    "list_readers",
    "list_tries",
    "load_jobs",
    "log_file",
    "read_code",
    "read_columns",
    "read_costs",
    "read_lineage",
    "read_log",
    "read_made_columns",
    "read_progress",
    "read_reasons",
    "read_uploads",
]
