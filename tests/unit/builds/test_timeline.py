"""The time line's geometry: inside the drawing, in order, readable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from webapp.builds.rules import timeline
from webapp.builds.rules.timeline import JobSpan

START = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_running_build_has_a_mark_of_now_and_waiting_rows_behind_it() -> None:
    spans = [
        JobSpan("Resolve and plan", "res", "4 s", START, at(4)),
        JobSpan("1 · a", "ok", "27 s", at(6), at(33)),
        JobSpan("2 · b", "run", "1 min 09 s, running", at(39), None),
        JobSpan("3 · c", "wait", "not before job 2", None, None),
    ]
    drawn = timeline.draw(spans, start=START, now=at(108), is_over=False)
    assert [tick.text for tick in drawn.ticks] == [
        "0:00",
        "0:15",
        "0:30",
        "0:45",
        "1:00",
        "1:15",
        "1:30",
        "1:45",
        "2:00",
    ]
    assert drawn.now_x is not None
    resolve, first, second, third = drawn.bars
    assert resolve.x == timeline.LEFT
    assert first.x > resolve.x + resolve.width
    assert (second.is_inside, second.x + second.width) == (True, drawn.now_x)
    assert third.x == drawn.now_x
    assert drawn.description.startswith("Resolve and plan: 4 s; 1 · a: 27 s;")


def test_finished_build_ends_with_its_last_bar() -> None:
    spans = [JobSpan("Resolve", "res", "1 s", START, at(1)), JobSpan("1", "ok", "2 s", at(1), at(3))]
    drawn = timeline.draw(spans, start=START, now=at(5000), is_over=True)
    assert (drawn.now_x, drawn.end) == (None, at(3))
    assert drawn.ticks[-1].text == "0:03"


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)), min_size=1, max_size=20))
def test_nothing_is_drawn_outside(pairs: list[tuple[float, float]]) -> None:
    spans = [JobSpan("x", "ok", "t", at(min(pair)), at(max(pair))) for pair in pairs]
    drawn = timeline.draw(spans, start=START, now=at(1e5), is_over=True)
    for bar in drawn.bars:
        assert timeline.LEFT <= bar.x
        assert bar.x + bar.width <= timeline.LEFT + timeline.WIDTH + 4
    assert len(drawn.ticks) <= timeline.TICKS + 1


def test_offsets_are_written_short() -> None:
    assert [timeline.format_offset(each) for each in (0, 75, 3600, 5025)] == ["0:00", "1:15", "1:00:00", "1:23:45"]
