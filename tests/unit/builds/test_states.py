"""Every state is explained, every end is an end, and a build ends when its jobs have."""

import pytest

from webapp.builds.rules import states
from webapp.builds.rules.states import BuildState, JobState
from webapp.core.errors import Conflict


def test_every_state_has_a_sentence_and_a_row_in_its_table() -> None:
    assert set(states.BUILD_SENTENCES) == set(states.BUILD_TRANSITIONS) == set(BuildState)
    assert set(states.JOB_SENTENCES) == set(states.JOB_TRANSITIONS) == set(JobState)


def test_ends_lead_nowhere() -> None:
    assert {
        BuildState.COMPLETED,
        BuildState.FAILED,
        BuildState.ABORTED,
    } == states.BUILD_ENDS
    assert {JobState.COMPLETED, JobState.FAILED, JobState.ABORTED} == states.JOB_ENDS


@pytest.mark.parametrize(("before", "after"), [("COMPLETED", "RUNNING"), ("RUNNING", "RESOLVING")])
def test_build_transition_outside_the_table_is_refused(before: str, after: str) -> None:
    with pytest.raises(Conflict):
        states.check_build_transition(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [("COMPLETED", "RUNNING"), ("WAITING", "RUNNING"), ("FAILED", "ABORTED")],
)
def test_job_transition_outside_the_table_is_refused(before: str, after: str) -> None:
    with pytest.raises(Conflict):
        states.check_job_transition(before, after)


def test_states_before_is_the_table_read_backwards() -> None:
    for before in JobState:
        for after in JobState:
            assert (before in states.states_before(after)) == (after in states.JOB_TRANSITIONS[before])


@pytest.mark.parametrize(
    ("jobs", "cancelled", "expected"),
    [
        (["COMPLETED", "RUNNING"], False, None),
        (["COMPLETED", "COMPLETED"], False, BuildState.COMPLETED),
        (["COMPLETED", "FAILED", "ABORTED"], False, BuildState.FAILED),
        (["COMPLETED", "ABORTED"], True, BuildState.ABORTED),
        (["COMPLETED", "COMPLETED"], True, BuildState.COMPLETED),
        (["FAILED", "COMPLETED"], True, BuildState.FAILED),
    ],
)
def test_summary_of_jobs(jobs: list[str], cancelled: bool, expected: BuildState | None) -> None:
    assert states.summarise_build(jobs, cancelled=cancelled) == expected
