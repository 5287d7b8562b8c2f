"""Everything that changes builds; keyword-only, `by` is the actor.

Modules:
    orders: what is ordered of a build.
    builds: the life of a build, from order to end.
    publication: from a commit to published JobSpecs.
    uploads: a staged file becomes one transaction.
    keeping: files of uploads that merges may repeat.
    queue: who takes a turn, and whose bell is rung.
    running: one job, from its claim to the commit of its outputs.
    pins: inputs of a job whose transaction is gone.
    needs: transactions that unfinished builds read.
    leftovers: files of attempts that are not committed, and who ends when a disk is nearly full.
    interrupts: the Spark session of a job that is gone, ended.
    trees: exported commits that job processes share.
    seals: what jobs left in their tables' folders, as recorded.
    quotas: how much data a repository's datasets may hold.
    deletions: what goes with a deleted branch, and what comes back.
    sweeping: what is repeated every few seconds.
    checking: what `manage.py fsck` asks of builds.
    health: what `/readyz` says of the backlog.
"""

from webapp.builds.services.builds import (
    advance_build,
    call_off_build,
    cancel_build,
    end_build,
    plan_build,
    resolve_build,
    retry_build,
    start_build,
)
from webapp.builds.services.deletions import RestoredData, restore_branch
from webapp.builds.services.keeping import register_keeper
from webapp.builds.services.orders import BuildOrder
from webapp.builds.services.publication import import_aside, publish, request_publication, unpublish
from webapp.builds.services.running import run_job
from webapp.builds.services.sweeping import sweep_builds
from webapp.builds.services.uploads import check_upload, keep_draft, load_draft, start_upload, wait_for_build

__all__ = [
    "BuildOrder",
    "RestoredData",
    "advance_build",
    "call_off_build",
    "cancel_build",
    "check_upload",
    "end_build",
    "import_aside",
    "keep_draft",
    "load_draft",
    "plan_build",
    "publish",
    "register_keeper",
    "request_publication",
    "resolve_build",
    "restore_branch",
    "retry_build",
    "run_job",
    "start_build",
    "start_upload",
    "sweep_builds",
    "unpublish",
    "wait_for_build",
]
