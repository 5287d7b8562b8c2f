"""States of builds and jobs, what may follow what, and the sentence that explains each."""

from collections.abc import Iterable
from enum import StrEnum

from webapp.core.errors import Conflict


class BuildState(StrEnum):
    """Where a build stands."""

    RESOLVING = "RESOLVING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    ABORTED = "ABORTED"


class JobState(StrEnum):
    """Where a job stands."""

    WAITING = "WAITING"
    RUN_PENDING = "RUN_PENDING"
    RUNNING = "RUNNING"
    ABORT_PENDING = "ABORT_PENDING"
    ABORTED = "ABORTED"
    FAILED = "FAILED"
    COMPLETED = "COMPLETED"


BUILD_SENTENCES = {
    BuildState.RESOLVING: "The plan is being made: JobSpecs, inputs and output branches are looked up.",
    BuildState.RUNNING: "Jobs run or wait for their turn.",
    BuildState.COMPLETED: "Every job completed or was fresh.",
    BuildState.FAILED: "The plan could not be made, or a job failed.",
    BuildState.ABORTED: "Somebody cancelled the build.",
}
JOB_SENTENCES = {
    JobState.WAITING: "Waits for jobs that make its inputs.",
    JobState.RUN_PENDING: "Ready, waits for a worker.",
    JobState.RUNNING: "Its process runs.",
    JobState.ABORT_PENDING: "Cancelled, its process is being ended.",
    JobState.ABORTED: "Ended before its result, nothing of it is visible.",
    JobState.FAILED: "Ended with an error, nothing of it is visible.",
    JobState.COMPLETED: "All its outputs are committed, or were fresh already.",
}
BUILD_TRANSITIONS: dict[BuildState, frozenset[BuildState]] = {
    BuildState.RESOLVING: frozenset(
        {
            BuildState.RUNNING,
            BuildState.COMPLETED,
            BuildState.FAILED,
            BuildState.ABORTED,
        }
    ),
    BuildState.RUNNING: frozenset({BuildState.COMPLETED, BuildState.FAILED, BuildState.ABORTED}),
    BuildState.COMPLETED: frozenset(),
    BuildState.FAILED: frozenset(),
    BuildState.ABORTED: frozenset(),
}
JOB_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.WAITING: frozenset({JobState.RUN_PENDING, JobState.ABORTED}),
    JobState.RUN_PENDING: frozenset({JobState.RUNNING, JobState.ABORTED, JobState.FAILED}),
    # Back to RUN_PENDING is the one retry after the worker died under the job.
    JobState.RUNNING: frozenset(
        {
            JobState.COMPLETED,
            JobState.FAILED,
            JobState.ABORT_PENDING,
            JobState.RUN_PENDING,
        }
    ),
    JobState.ABORT_PENDING: frozenset({JobState.ABORTED}),
    JobState.ABORTED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.COMPLETED: frozenset(),
}
BUILD_ENDS = frozenset(state for state, after in BUILD_TRANSITIONS.items() if not after)
JOB_ENDS = frozenset(state for state, after in JOB_TRANSITIONS.items() if not after)


def check_build_transition(before: str, after: str) -> None:
    """Refuse a step that the table does not have."""
    if BuildState(after) not in BUILD_TRANSITIONS[BuildState(before)]:
        raise Conflict(f"A build that is {before} cannot become {after}.", code="wrong_state")


def check_job_transition(before: str, after: str) -> None:
    """Refuse a step that the table does not have."""
    if JobState(after) not in JOB_TRANSITIONS[JobState(before)]:
        raise Conflict(f"A job that is {before} cannot become {after}.", code="wrong_state")


def can_become(before: JobState) -> frozenset[JobState]:
    """Return what may follow a job state."""
    return JOB_TRANSITIONS[before]


def states_before(after: JobState) -> tuple[JobState, ...]:
    """Return the job states from which one step leads to this one: the guard of a compare-and-swap."""
    return tuple(state for state, following in JOB_TRANSITIONS.items() if after in following)


def summarise_build(jobs: Iterable[str], *, cancelled: bool) -> BuildState | None:
    """Return the end of a build whose jobs stand like this; None while one of them still moves."""
    states = {JobState(state) for state in jobs}
    if not states <= JOB_ENDS:
        return None
    if cancelled and JobState.ABORTED in states:
        return BuildState.ABORTED
    return BuildState.FAILED if states & {JobState.FAILED, JobState.ABORTED} else BuildState.COMPLETED
