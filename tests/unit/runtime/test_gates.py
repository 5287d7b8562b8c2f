"""Threads behind a queue of bounded length."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.factories.loops import run_loop
from webapp.core.problems import list_headers
from webapp.runtime.web.gates import Gate, Overloaded, TookTooLong


def run(*, calls: int, gate: Gate, held: threading.Event) -> list[Any]:
    """What calls that wait for an event come to, all made at once."""

    async def make_all() -> list[Any]:
        tasks = [asyncio.ensure_future(gate.run(held.wait, 30)) for _ in range(calls)]
        await asyncio.sleep(0.1)
        held.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    return run_loop(make_all())


def test_who_finds_the_queue_full_is_refused_at_once() -> None:
    outcomes = run(calls=8, gate=Gate("test", threads=2, waiting=3), held=threading.Event())
    assert outcomes[:5] == [True] * 5
    assert [type(outcome) for outcome in outcomes[5:]] == [Overloaded] * 3


def test_who_has_waited_too_long_is_not_run() -> None:
    outcomes = run(calls=2, gate=Gate("test", threads=1, waiting=3, patience_s=0.01), held=threading.Event())
    assert outcomes[0] is True
    assert isinstance(outcomes[1], Overloaded)


def test_who_waits_is_refused_in_time_even_while_every_thread_hangs() -> None:
    gate, freed, ran = Gate("test", threads=2, waiting=20, patience_s=0.3), threading.Event(), []

    async def ask() -> list[Any]:
        hanging = [asyncio.ensure_future(gate.run(freed.wait)) for _ in range(2)]
        await asyncio.sleep(0.1)
        first = [asyncio.ensure_future(gate.run(ran.append, n)) for n in range(10)]
        await asyncio.sleep(0.1)
        second = [asyncio.ensure_future(gate.run(ran.append, n)) for n in range(10)]
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*first, *second, return_exceptions=True)
        assert not any(task.done() for task in hanging), "what runs is left to its end"
        freed.set()
        await asyncio.gather(*hanging)
        return outcomes

    outcomes = run_loop(ask())
    assert [type(outcome) for outcome in outcomes] == [Overloaded] * 20
    assert ("Retry-After", "2") in list_headers(outcomes[0])
    assert run_loop(gate.run(len, "four")) == 4, "and the threads serve on"
    assert ran == [], "who was told that nothing was done is not served after that"


def test_whose_call_does_not_end_is_told_so_and_what_it_does_is_left_to_its_end() -> None:
    gate, freed, ended = Gate("test", threads=2, waiting=5, patience_s=0.2, deadline_s=0.2), threading.Event(), []
    both_ended = threading.Barrier(3, timeout=20)

    def hang(name: str) -> None:
        freed.wait()
        ended.append(name)
        both_ended.wait()

    async def ask() -> None:
        async with asyncio.timeout(20):
            hanging = [asyncio.ensure_future(gate.run(hang, name)) for name in "ab"]
            assert [type(error) for error in await asyncio.gather(*hanging, return_exceptions=True)] == [
                TookTooLong
            ] * 2
            with pytest.raises(Overloaded):
                await gate.run(len, "nobody is there to run it")
            freed.set()
            await asyncio.to_thread(both_ended.wait)
            assert await gate.run(len, "four") == 4

    run_loop(ask())
    assert sorted(ended) == ["a", "b"]


def test_who_has_gone_while_it_waited_is_not_served() -> None:
    gate, freed, ran = Gate("test", threads=1, waiting=5), threading.Event(), []

    async def ask() -> None:
        hanging = asyncio.ensure_future(gate.run(freed.wait))
        leaving = asyncio.ensure_future(gate.run(ran.append, 1))
        await asyncio.sleep(0.1)
        leaving.cancel()
        await asyncio.wait([leaving])
        freed.set()
        await hanging
        await gate.run(len, "four")

    run_loop(ask())
    assert ran == []


def test_what_a_call_raises_is_raised_and_the_thread_goes_on() -> None:
    gate = Gate("test", threads=1, waiting=1)

    async def ask() -> int:
        with pytest.raises(ZeroDivisionError):
            await gate.run(divmod, 1, 0)
        return await gate.run(len, "four")

    assert run_loop(ask()) == 4


def test_an_owner_holds_their_share_and_others_are_served() -> None:
    gate, freed = Gate("test", threads=4, waiting=20, share=2), threading.Event()

    async def ask() -> list[Any]:
        hanging = [asyncio.ensure_future(gate.run(freed.wait, 30, owner="one")) for _ in range(24)]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(5):
            assert await gate.run(len, "four", owner="other") == 4
            assert await gate.run(len, "four") == 4
        freed.set()
        return await asyncio.gather(*hanging, return_exceptions=True)

    outcomes = run_loop(ask())
    assert outcomes[:12] == [True] * 12, "two run, and ten wait"
    assert [type(outcome) for outcome in outcomes[12:]] == [Overloaded] * 12
    assert gate._turns == {}


def test_an_owner_who_waits_too_long_or_goes_leaves_their_places() -> None:
    gate, freed = Gate("test", threads=4, waiting=20, share=1, patience_s=0.2), threading.Event()

    async def ask() -> None:
        hanging = asyncio.ensure_future(gate.run(freed.wait, 30, owner="one"))
        await asyncio.sleep(0.05)
        gone = asyncio.ensure_future(gate.run(len, "a", owner="one"))
        await asyncio.sleep(0.05)
        gone.cancel()
        with pytest.raises(Overloaded):
            await gate.run(len, "a", owner="one")
        freed.set()
        assert await hanging
        assert await gate.run(len, "abc", owner="one") == 3

    run_loop(ask())
    assert gate._turns == {}
