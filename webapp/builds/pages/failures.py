"""The failed jobs of a build: each with its own cause, and the jobs that were not run because of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from django.urls import reverse

from webapp.builds import queries
from webapp.builds.models import JobInput
from webapp.builds.rules.plan import join_words
from webapp.builds.rules.states import JobState
from webapp.core.errors import AppError
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webapp.builds.models import Build, Job
    from webapp.builds.queries.totals import JobTotals

MOST_JOBS = 10
"""Failed jobs that the page names."""
MOST_NUMBERS = 10
"""Other jobs that it names by number."""
LOG_LINES = 1000
"""Lines of each log in which the first error is looked for."""


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A job that failed."""

    number: int
    paths: tuple[str, ...]
    reason: str
    log_url: str
    """The first error in its log."""
    place: str
    """The line of code that failed; empty if that is not known."""
    code_url: str
    stopped: str
    """Which jobs were not run because of it."""


@dataclass(frozen=True, slots=True)
class BuildFailures:
    """All jobs of a build that failed."""

    jobs: tuple[JobFailure, ...]
    more: int
    """Failed jobs that are not named."""
    going: str
    """Which jobs go on."""


def read_failures(build: Build, total: JobTotals) -> BuildFailures | None:
    """Return what failed; None if nothing did."""
    failed = total.list_numbers(JobState.FAILED)
    if not failed:
        return None
    jobs = list(build.jobs.filter(number__in=failed[:MOST_JOBS]).order_by("number").prefetch_related("outputs"))
    stopped = _list_stopped(build, total)
    going = total.list_numbers(JobState.RUNNING, JobState.ABORT_PENDING, JobState.WAITING, JobState.RUN_PENDING)
    return BuildFailures(
        jobs=tuple(_describe(build, job, stopped.get(job.number, ())) for job in jobs),
        more=len(failed) - len(jobs),
        going=f"{_name_jobs(going)} {'go' if len(going) > 1 else 'goes'} on." if going else "",
    )


def _list_stopped(build: Build, total: JobTotals) -> Mapping[int, Sequence[int]]:
    """Return the number of each failed job → the aborted jobs that need what it did not make, over any number of steps."""
    ends = set(total.list_numbers(JobState.FAILED, JobState.ABORTED))
    readers: dict[int, list[int]] = {}
    edges = JobInput.objects.filter(job__build=build, from_job__isnull=False)
    for reader, maker in edges.values_list("job__number", "from_job__number"):
        if reader in ends and maker in ends:
            readers.setdefault(maker, []).append(reader)
    aborted = set(total.list_numbers(JobState.ABORTED))
    return {number: sorted(_reach(number, readers) & aborted) for number in total.list_numbers(JobState.FAILED)}


def _reach(start: int, readers: Mapping[int, Iterable[int]]) -> set[int]:
    reached: set[int] = set()
    waiting = [start]
    while waiting:
        new = set(readers.get(waiting.pop(), ())) - reached
        reached |= new
        waiting += new
    return reached


def _describe(build: Build, job: Job, stopped: Sequence[int]) -> JobFailure:
    line = next((line.n for line in queries.read_log(job, limit=LOG_LINES).lines if line.level == "error"), None)
    place, code_url = _find_code(job)
    verb = "were" if len(stopped) > 1 else "was"
    return JobFailure(
        number=job.number,
        paths=tuple(output.path for output in job.outputs.all()),
        reason=job.reason,
        log_url=f"{reverse('build', args=[build.pk])}?job={job.number}#{f'L{line}' if line else 'log-title'}",
        place=place,
        code_url=code_url,
        stopped=f"{_name_jobs(stopped)} {verb} not run because of it." if stopped else "",
    )


def _find_code(job: Job) -> tuple[str, str]:
    """Return the line of code that failed and its address; nothing if it is not in the repository."""
    error: Mapping[str, Any] = job.error or {}
    file, line = error.get("file"), error.get("line")
    if not file or not line or not job.repository or not job.sha:
        return "", ""
    try:
        repository = repositories.repository_by_name(job.repository)
        is_there = repositories.find_kind(repository, job.sha, str(file)) == "file"
    except AppError:
        return "", ""
    url = f"/r/{job.repository}/blob/{job.sha}/{quote(str(file))}#L{line}"
    return (f"{file}:{line}", url) if is_there else ("", "")


def _name_jobs(numbers: Sequence[int]) -> str:
    """Return the numbers in words, the first of many."""
    more = len(numbers) - MOST_NUMBERS
    named = [*numbers[:MOST_NUMBERS], f"{more:,} more"] if more > 1 else numbers
    return f"{'Jobs' if len(numbers) > 1 else 'Job'} {join_words(named)}"
