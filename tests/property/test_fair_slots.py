"""Shares of slots: for any order of starts and ends, nobody holds more than half, and newcomers find a free slot."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from webapp.dispatch.fair_slots import may_start

EVENTS = st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=60)
"""Starts (True) and ends of users' work."""


def play(slots: int, events: list[tuple[bool, int]]) -> Counter[int]:
    """Return what each user holds in the end."""
    held: Counter[int] = Counter()
    for is_start, user in events:
        if is_start and may_start(user, held, slots=slots):
            held[user] += 1
        elif not is_start and held[user]:
            held[user] -= 1
        held = +held
        assert held.total() <= slots
        assert not held or max(held.values()) <= max(1, slots // 2)
    return held


@given(st.integers(1, 12), EVENTS)
def test_newcomer_gets_any_free_slot(slots: int, events: list[tuple[bool, int]]) -> None:
    held = play(slots, events)
    assert may_start("newcomer", held, slots=slots) == (held.total() < slots)


@given(st.integers(3, 12), EVENTS)
def test_two_users_leave_a_slot_to_others(slots: int, events: list[tuple[bool, int]]) -> None:
    held = play(slots, [(is_start, user % 2) for is_start, user in events])
    assert may_start("newcomer", held, slots=slots)


@given(st.integers(1, 12), EVENTS)
def test_slot_stays_empty_only_for_a_newcomer_or_above_half(slots: int, events: list[tuple[bool, int]]) -> None:
    held = play(slots, events)
    refused = [user for user in range(5) if not may_start(user, held, slots=slots)]
    free = slots - held.total()
    assert all(free <= 1 or held[user] >= max(1, slots // 2) for user in refused)


@given(st.integers(1, 12), st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_everything_that_waits_is_started(slots: int, waiting: list[int]) -> None:
    held: Counter[int] = Counter()
    running: list[int] = []
    while waiting or running:
        startable = [user for user in waiting if may_start(user, held, slots=slots)]
        assert startable or running
        if startable:
            waiting.remove(startable[0])
            running.append(startable[0])
            held[startable[0]] += 1
        else:
            held = +(held - Counter([running.pop(0)]))
