"""When something is old: a clock that somebody sets makes nothing older than it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webapp.core import clock

YEAR, SECOND = timedelta(days=365), timedelta(seconds=1)


@pytest.fixture
def shift(monkeypatch: pytest.MonkeyPatch) -> dict[str, timedelta]:
    """What the wall's clock is off by."""
    held = {"by": timedelta()}
    monkeypatch.setattr(clock, "now", lambda: datetime.now(UTC) + held["by"])
    monkeypatch.setattr(clock, "_cautious", clock._Cautious())
    return held


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
