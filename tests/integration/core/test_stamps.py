"""A clock that was ahead and was set back: nothing waits for the times that it wrote."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.factories.build_rows import a_jobspec, a_world
from webapp.builds.models import Build, Job, JobRows
from webapp.core import clock
from webapp.core.models import Heartbeat
from webapp.dispatch.stamps import SKEW, set_back_stamps
from webapp.repositories.models import Publication
from webapp.repositories.rules.states import PublicationState

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
AHEAD = timedelta(days=1)


def test_only_times_that_no_clock_of_ours_can_have_written_are_set_back() -> None:
    soon, tomorrow = clock.now() + SKEW / 2, clock.now() + AHEAD
    Heartbeat.objects.create(part="a-host-beside-us", at=soon)
    Heartbeat.objects.create(part="a-dead-worker", at=tomorrow)

    counts = set_back_stamps()

    assert counts == {"Heartbeat.at": 1}
    assert Heartbeat.objects.get(part="a-dead-worker").at <= clock.now()
    assert Heartbeat.objects.get(part="a-host-beside-us").at == soon


def test_what_was_rung_for_tomorrow_and_leased_until_then_is_looked_after_today() -> None:
    world = a_world()
    world.publish(a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]))
    running = world.start("/shop/one")
    waiting = world.start("/shop/one", resolve=False)
    tomorrow = clock.now() + AHEAD
    Job.objects.filter(build=running).update(state="RUNNING", worker="gone", lease_until=tomorrow)
    Build.objects.filter(pk=waiting.pk).update(rung_at=tomorrow)
    Publication.objects.update(status=PublicationState.PENDING, rung_at=tomorrow)

    counts = set_back_stamps()

    assert counts == {"Job.lease_until": 1, "Build.rung_at": 1, "Publication.rung_at": Publication.objects.count()}
    job = Job.objects.get(build=running)
    assert job.lease_until <= clock.now() + JobRows.lease, "a worker that lives renews it, a dead one is noticed"
