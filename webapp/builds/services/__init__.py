"""Everything that changes builds; keyword-only, `by` is the actor."""

from webapp.builds.services.builds import (
    advance_build,
    cancel_build,
    end_build,
    plan_build,
    resolve_build,
    retry_build,
    start_build,
)
from webapp.builds.services.deletions import RestoredData, restore_data
from webapp.builds.services.orders import BuildOrder
from webapp.builds.services.publication import publish, request_publication, unpublish
from webapp.builds.services.running import run_job
from webapp.builds.services.sweeping import sweep_builds
from webapp.builds.services.uploads import check_upload, keep_draft, load_draft, start_upload, wait_for_build

__all__ = [
    "BuildOrder",
    "RestoredData",
    "advance_build",
    "cancel_build",
    "check_upload",
    "end_build",
    "keep_draft",
    "load_draft",
    "plan_build",
    "publish",
    "request_publication",
    "resolve_build",
    "restore_data",
    "retry_build",
    "run_job",
    "start_build",
    "start_upload",
    "sweep_builds",
    "unpublish",
    "wait_for_build",
]
