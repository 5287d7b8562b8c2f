"""States of builds and jobs, and the state of a build whose jobs stand somewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache

from webapp.core.states import State


class BuildState(State):
    """Where a build stands."""

    RESOLVING = (
        "RESOLVING",
        "Resolving",
        "wait",
        "The plan is being made: JobSpecs, inputs and output branches are looked up.",
    )
    RUNNING = "RUNNING", "Running", "run", "Jobs run or wait for their turn."
    COMPLETED = "COMPLETED", "Completed", "ok", "Every job completed or was fresh."
    FAILED = "FAILED", "Failed", "bad", "The plan could not be made, or a job failed."
    ABORTED = "ABORTED", "Aborted", "abort", "The build was cancelled."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[BuildState, AbstractSet[BuildState]]:
        """Return for each state those that may follow it."""
        ends = {cls.COMPLETED, cls.FAILED, cls.ABORTED}
        return {cls.RESOLVING: {cls.RUNNING, *ends}, cls.RUNNING: ends, **dict.fromkeys(ends, frozenset())}


class JobState(State):
    """Where a job stands."""

    WAITING = "WAITING", "Waiting", "wait", "Waits for jobs that make its inputs."
    RUN_PENDING = "RUN_PENDING", "Waiting", "wait", "Ready, waits for a worker."
    RUNNING = "RUNNING", "Running", "run", "Its process runs."
    ABORT_PENDING = "ABORT_PENDING", "Cancelling", "run", "Cancelled, its process is being ended."
    ABORTED = "ABORTED", "Aborted", "abort", "Ended before its result, nothing of it is visible."
    FAILED = "FAILED", "Failed", "bad", "Ended with an error, nothing of it is visible."
    COMPLETED = "COMPLETED", "Completed", "ok", "All its outputs are committed, or were fresh already."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[JobState, AbstractSet[JobState]]:
        """Return for each state those that may follow it."""
        return {
            cls.WAITING: {cls.RUN_PENDING, cls.ABORTED},
            cls.RUN_PENDING: {cls.RUNNING, cls.ABORTED, cls.FAILED},
            # Back to RUN_PENDING: its worker died under it, or what it needs is not there now.
            cls.RUNNING: {cls.COMPLETED, cls.FAILED, cls.ABORT_PENDING, cls.RUN_PENDING},
            cls.ABORT_PENDING: {cls.ABORTED},
            cls.ABORTED: set(),
            cls.FAILED: set(),
            cls.COMPLETED: set(),
        }


BUILD_ENDS = BuildState.ends()
BUILD_UNFINISHED = frozenset(BuildState) - BUILD_ENDS
JOB_ENDS = JobState.ends()


def summarise_build(jobs: Iterable[JobState], *, cancelled: bool) -> BuildState | None:
    """Return the end of a build whose jobs stand like this; None while one of them still moves."""
    states = set(jobs)
    if not states <= JOB_ENDS:
        return None
    if cancelled and JobState.ABORTED in states:
        return BuildState.ABORTED
    return BuildState.FAILED if states & {JobState.FAILED, JobState.ABORTED} else BuildState.COMPLETED
