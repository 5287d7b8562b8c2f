"""Threads that several owners share."""

from __future__ import annotations

import threading

import pytest

from webapp.dispatch.fair_threads import FairThreads


def test_an_owner_with_calls_that_hang_leaves_threads_to_others() -> None:
    threads = FairThreads("test", threads=4, waiting=20, waiting_of_owner=10)
    ends, done = threading.Event(), threading.Event()
    taken = [threads.submit("slow", lambda: ends.wait(20)) for _ in range(8)]
    assert all(taken)
    assert threads.submit("other", done.set)
    assert done.wait(5)
    ends.set()


@pytest.mark.parametrize(("owners", "most"), [(1, 3), (9, 5)])
def test_calls_that_would_wait_too_long_are_dropped(owners: int, most: int) -> None:
    threads = FairThreads("test", threads=1, waiting=5, waiting_of_owner=3)
    begun, ends = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        ends.wait(20)

    assert threads.submit("first", hang)
    assert begun.wait(5)
    assert sum(threads.submit(number % owners, list) for number in range(20)) == most
    ends.set()


def test_a_call_that_fails_ends_no_thread() -> None:
    threads = FairThreads("test", threads=1, waiting=5, waiting_of_owner=5)
    done = threading.Event()
    assert threads.submit("one", lambda: 1 / 0)
    assert threads.submit("one", done.set)
    assert done.wait(5)
