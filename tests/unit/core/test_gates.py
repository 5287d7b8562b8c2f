"""Threads behind a queue of bounded length."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.factories.loops import run_loop
from webapp.core.web.gates import Gate, Overloaded


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


def test_what_a_call_raises_is_raised_and_the_thread_goes_on() -> None:
    gate = Gate("test", threads=1, waiting=1)

    async def ask() -> int:
        with pytest.raises(ZeroDivisionError):
            await gate.run(divmod, 1, 0)
        return await gate.run(len, "four")

    assert run_loop(ask()) == 4
