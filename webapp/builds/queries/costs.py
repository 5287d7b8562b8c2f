"""What a rebuild took when it was last done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Max

from webapp.builds.models import Job, JobOutput
from webapp.builds.rules.states import JobState

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True)
class Cost:
    """The newest jobs that made some datasets, added up."""

    jobs: int
    seconds: float
    """Of all jobs; those that ran beside each other count one by one."""
    rows: int
    """That the datasets held then."""
    bytes: int
    """Of their files then."""
    unknown: int
    """Datasets that no job has made yet."""


def read_cost(*, paths: Collection[str], branches: Collection[str]) -> Cost:
    """Add up what the newest jobs took that made these datasets on one of these branches.

    Args:
        paths: of the datasets.
        branches: of the builds.

    """
    written = JobOutput.objects.filter(
        path__in=paths, job__state=JobState.COMPLETED, job__skipped=False, job__build__branch__in=branches
    )
    newest = written.order_by().values("path").annotate(newest=Max("pk")).values_list("newest", flat=True)
    outputs = list(JobOutput.objects.filter(pk__in=list(newest)).select_related("job", "transaction"))
    jobs = {output.job_id: output.job for output in outputs}
    return Cost(
        jobs=len(jobs),
        seconds=sum(_read_seconds(job) for job in jobs.values()),
        rows=sum(int(output.summary.get("rows") or 0) for output in outputs),
        bytes=sum(int(output.transaction.summary.get("bytes") or 0) for output in outputs if output.transaction),
        unknown=len(set(paths)) - len(outputs),
    )


def _read_seconds(job: Job) -> float:
    if job.started_at is None or job.finished_at is None:
        return 0.0
    return (job.finished_at - job.started_at).total_seconds()
