"""When something is old: a clock that somebody sets makes nothing older than it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from webapp.core import clock

YEAR, SECOND, STEP = timedelta(days=365), timedelta(seconds=1), timedelta(minutes=2)


@pytest.fixture
def shift(monkeypatch: pytest.MonkeyPatch) -> dict[str, timedelta]:
    """What the wall's clock is off by."""
    held = {"by": timedelta()}
    for name in ("now", "shared_now"):
        monkeypatch.setattr(clock, name, lambda: datetime.now(UTC) + held["by"])
    monkeypatch.setattr(clock, "_cautious", clock._Cautious())
    monkeypatch.setattr(clock, "_settled", clock._SettledClock())
    return held


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch, shift: dict[str, timedelta]) -> Callable[[float], None]:
    """Let seconds pass by all clocks."""
    passed = {"seconds": 0.0}
    since_boot = clock._since_boot
    monkeypatch.setattr(clock, "_since_boot", lambda: since_boot() + passed["seconds"])

    def wait(seconds: float) -> None:
        passed["seconds"] += seconds
        shift["by"] += timedelta(seconds=seconds)

    return wait


def test_a_clock_that_is_set_ahead_is_not_followed(shift: dict[str, timedelta]) -> None:
    assert abs(clock.cautious_now() - datetime.now(UTC)) < SECOND
    shift["by"] = YEAR
    assert abs(clock.cautious_now() - datetime.now(UTC)) < SECOND


def test_what_a_clock_wrote_that_was_behind_stays_young_when_it_is_right_again(shift: dict[str, timedelta]) -> None:
    shift["by"] = -YEAR
    written = clock.cautious_now()
    assert abs(written - clock.now()) < SECOND
    shift["by"] = timedelta()
    assert clock.cautious_now() - written < SECOND


def test_settled_clock_follows_a_step_ahead_after_a_while(
    shift: dict[str, timedelta], wait: Callable[[float], None]
) -> None:
    assert abs(clock.settled_now() - clock.now()) < SECOND
    shift["by"] += STEP
    for _ in range(8):
        wait(clock.SETTLES_S / 10)
        assert abs(clock.now() - clock.settled_now() - STEP) < SECOND
    wait(clock.SETTLES_S / 2)
    assert abs(clock.settled_now() - clock.now()) < SECOND


def test_settled_clock_follows_a_step_back_at_once(shift: dict[str, timedelta], wait: Callable[[float], None]) -> None:
    clock.settled_now()
    shift["by"] -= STEP
    assert abs(clock.settled_now() - clock.now()) < SECOND
    shift["by"] += STEP
    wait(1)
    assert abs(clock.now() - clock.settled_now() - STEP) < SECOND, "a step ahead, whatever was before"


@pytest.mark.parametrize("step", [STEP, -STEP])
def test_step_watch_remembers_a_step_that_was_taken_back(shift: dict[str, timedelta], step: timedelta) -> None:
    watch = clock.StepWatch()
    watch.look()
    assert not watch.saw_step
    shift["by"] = step
    watch.look()
    shift["by"] = timedelta(seconds=2)
    watch.look()
    assert watch.saw_step


def test_step_watch_ignores_what_time_servers_correct(shift: dict[str, timedelta]) -> None:
    watch = clock.StepWatch()
    shift["by"] = timedelta(seconds=5)
    watch.look()
    assert not watch.saw_step
