"""Every state is explained, every end is an end, and a build ends when its jobs have."""

import pytest

from webapp.builds.rules import states
from webapp.builds.rules.states import BuildState, JobState


def test_ends_lead_nowhere() -> None:
    assert {BuildState.COMPLETED, BuildState.FAILED, BuildState.ABORTED} == states.BUILD_ENDS
    assert {BuildState.RESOLVING, BuildState.RUNNING} == states.BUILD_UNFINISHED
    assert {JobState.COMPLETED, JobState.FAILED, JobState.ABORTED} == states.JOB_ENDS


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
