"""The rebuild of a merge that failed: its jobs, and who may try it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.urls import reverse

from webapp.builds import queries as builds
from webapp.pulls.queries.pulls import is_rebuild_failed

if TYPE_CHECKING:
    from webapp.builds.models import Job
    from webapp.builds.rules.states import BuildState
    from webapp.pulls.models import Merge
    from webapp.pulls.pages.head import PullHead

JOBS = 5
"""So many are named; the build's page has them all."""


@dataclass(frozen=True)
class FailedJob:
    """A job of the rebuild that failed."""

    number: int
    paths: list[str]
    reason: str
    url: str


@dataclass(frozen=True)
class FailedRebuild:
    """A rebuild that did not make what the merge was to bring."""

    build: int
    url: str
    state: BuildState
    reason: str
    """Why it ended, where that is not what became of its jobs."""
    total: int
    """All its jobs."""
    failed: int
    jobs: list[FailedJob]
    """Those that failed, the first of many."""
    post_url: str
    """What tries it again; empty where the reader may not."""


def read_failed_rebuild(merge: Merge | None, head: PullHead) -> FailedRebuild | None:
    """Return the rebuild of a merge if it failed."""
    if merge is None or merge.build is None or not is_rebuild_failed(merge):
        return None
    build = merge.build
    url = reverse("build", args=[build.pk])
    jobs = builds.list_failed_jobs(build)
    return FailedRebuild(
        build=build.pk,
        url=url,
        state=build.state,
        reason="" if jobs else build.reason,
        total=build.jobs.count(),
        failed=len(jobs),
        jobs=[_describe(job, url) for job in jobs[:JOBS]],
        post_url=reverse("pull-retry", args=[head.repository, head.number]) if head.may_write else "",
    )


def _describe(job: Job, url: str) -> FailedJob:
    paths = [output.path for output in job.outputs.all()]
    return FailedJob(job.number, paths, job.reason, f"{url}?job={job.number}#log-title")
