"""What the page of a build says about all its jobs, however many, without loading them."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import BigIntegerField, Count, Q, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from webapp.builds.models import Build, JobInput, JobOutput
from webapp.builds.rules.states import JobState


@dataclass(frozen=True, slots=True)
class JobTotals:
    """All jobs of a build, added up."""

    states: tuple[tuple[int, JobState, bool], ...]
    """Number, state and whether it was skipped, in the order of the plan."""
    rows_written: int
    datasets_written: int
    fallback_inputs: int
    all_inputs: int

    @property
    def first_failed(self) -> int | None:
        """The number of the first job that failed."""
        return next(
            (number for number, state, skipped in self.states if state == JobState.FAILED and not skipped), None
        )

    def list_numbers(self, *states: JobState) -> list[int]:
        """Return the numbers of the jobs in these states that were not skipped."""
        return [number for number, state, skipped in self.states if state in states and not skipped]


def read_totals(build: Build) -> JobTotals:
    """Add up the jobs of a build."""
    states = build.jobs.order_by("number").values_list("number", "state", "skipped")
    written = JobOutput.objects.filter(job__build=build, job__state=JobState.COMPLETED, job__skipped=False).aggregate(
        datasets=Count("pk"), rows=Sum(Cast(KeyTextTransform("rows", "summary"), BigIntegerField()))
    )
    inputs = JobInput.objects.filter(job__build=build).aggregate(
        number=Count("pk"), fallback=Count("pk", filter=Q(fallback=True))
    )
    return JobTotals(
        states=tuple(states),
        rows_written=written["rows"] or 0,
        datasets_written=written["datasets"],
        fallback_inputs=inputs["fallback"],
        all_inputs=inputs["number"],
    )


def count_jobs(build: Build) -> tuple[int, int]:
    """Return how many jobs a build has, and how many of them are done."""
    counted = build.jobs.order_by().aggregate(all=Count("pk"), done=Count("pk", filter=Q(state=JobState.COMPLETED)))
    return counted["all"], counted["done"]
