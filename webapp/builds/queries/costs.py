"""What a rebuild took when it was last done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import OuterRef, Subquery

from webapp.builds.models import Job, JobOutput
from webapp.builds.rules.states import JobState
from webapp.datasets.models import Dataset

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


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


def read_costs(rebuilds: Sequence[Collection[str]], *, branches: Collection[str]) -> list[Cost]:
    """Add up for each rebuild what the newest jobs took that made its datasets on one of these branches.

    Args:
        rebuilds: the paths of the datasets of each; all of them are asked for at once.
        branches: of the builds.

    """
    newest = _read_newest(paths=set().union(*rebuilds), branches=branches)
    return [_add_up([newest[path] for path in paths if path in newest], total=len(paths)) for paths in rebuilds]


def _read_newest(*, paths: Collection[str], branches: Collection[str]) -> dict[str, JobOutput]:
    """Return path → what its newest job wrote, found without its history: the index leads to the newest of each first."""
    written = JobOutput.objects.filter(
        path=OuterRef("path"), job__state=JobState.COMPLETED, job__skipped=False, job__build__branch__in=branches
    )
    newest = Dataset.objects.filter(path__in=paths).values(newest=Subquery(written.order_by("-pk").values("pk")[:1]))
    outputs = JobOutput.objects.filter(pk__in=newest).select_related("job", "transaction")
    return {output.path: output for output in outputs}


def _add_up(outputs: Collection[JobOutput], *, total: int) -> Cost:
    jobs = {output.job_id: output.job for output in outputs}
    return Cost(
        jobs=len(jobs),
        seconds=sum(_read_seconds(job) for job in jobs.values()),
        rows=sum(int(output.summary.get("rows") or 0) for output in outputs),
        bytes=sum(int(output.transaction.summary.get("bytes") or 0) for output in outputs if output.transaction),
        unknown=total - len(outputs),
    )


def _read_seconds(job: Job) -> float:
    if job.started_at is None or job.finished_at is None:
        return 0.0
    return (job.finished_at - job.started_at).total_seconds()
