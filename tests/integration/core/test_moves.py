"""The state of a build, job, merge or pull request changes in one way, by a step that its table has."""

from __future__ import annotations

import pytest

from webapp.accounts.models import User
from webapp.builds.models import Build, Job
from webapp.builds.rules.states import BuildState, JobState
from webapp.core import clock
from webapp.core.moves import list_nouns
from webapp.core.states import State
from webapp.core.templatetags.ui import TONES

pytestmark = pytest.mark.integration


@pytest.fixture
def build(db: None) -> Build:
    return Build.objects.create(
        branch="master", chain=["master"], targets=["/a/b"], by=User.objects.create(username="ada")
    )


@pytest.mark.parametrize("before", JobState)
@pytest.mark.parametrize("after", JobState)
def test_a_job_takes_the_steps_of_its_table_and_no_others(build: Build, before: JobState, after: JobState) -> None:
    job = Job.objects.create(build=build, number=1, state=before, lease_until=clock.now())
    moved = Job.objects.filter(pk=job.pk).move(to=after, reason="moved")
    job.refresh_from_db()
    is_step = after in JobState.transitions()[before]
    assert moved == is_step
    assert (job.state, job.reason) == ((after, "moved") if is_step else (before, ""))


@pytest.mark.parametrize("before", BuildState)
@pytest.mark.parametrize("after", BuildState)
def test_a_build_takes_the_steps_of_its_table_and_no_others(
    build: Build, before: BuildState, after: BuildState
) -> None:
    Build.objects.update(state=before)
    assert Build.objects.filter(pk=build.pk).move(to=after) == (after in BuildState.transitions()[before])


def test_a_step_may_be_of_one_state_only(build: Build) -> None:
    for number, state in enumerate((JobState.WAITING, JobState.RUNNING)):
        Job.objects.create(build=build, number=number, state=state, lease_until=clock.now())
    assert build.jobs.all().move(to=JobState.RUN_PENDING, was=JobState.WAITING) == 1
    assert list(build.jobs.values_list("state", flat=True)) == [JobState.RUN_PENDING, JobState.RUNNING]
    with pytest.raises(ValueError, match="Nothing that is FAILED becomes RUN_PENDING"):
        build.jobs.all().move(to=JobState.RUN_PENDING, was=JobState.FAILED)


@pytest.mark.parametrize("kind", list_nouns().values())
def test_every_state_has_its_words_and_says_what_follows(kind: type[State]) -> None:
    assert set(kind.transitions()) == set(kind)
    assert all(state.label and state.sentence and state.tone in TONES for state in kind)


@pytest.mark.parametrize("kind", list_nouns().values())
def test_earlier_states_are_the_table_read_backwards(kind: type[State]) -> None:
    for before in kind:
        for after in kind:
            assert (before in after.earlier) == (after in kind.transitions()[before])
