"""The pulse of a worker stops if its threads do no work, and goes on while they are busy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from webapp.runtime import pulses
from webapp.runtime.pulses import PROBE_SECONDS, SIGN_SECONDS, PoolCheck


class Clock:
    """A clock that a test moves."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_pool_that_takes_no_probe_stops_the_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, check, go_on = Clock(), PoolCheck(), Event()
    monkeypatch.setattr(pulses, "time", clock)
    assert check.works(), "no pool yet"
    busy: list[object] = []
    with ThreadPoolExecutor(2) as pool:
        check.begin(pool.submit, is_busy=lambda: len(busy) == 2)
        for _ in range(3):
            assert check.works()
            pool.submit(int).result(10)
            clock.now += PROBE_SECONDS - 1
        stuck = [pool.submit(go_on.wait) for _ in range(2)]
        check.works()
        clock.now += PROBE_SECONDS + 1
        assert not check.works(), "the threads are held by nothing that is known"
        busy += stuck
        assert check.works()
        clock.now += SIGN_SECONDS + 1
        assert not check.works(), "known work that gives no sign"
        check.note_work()
        assert check.works()
        go_on.set()
        busy.clear()
        pool.submit(int).result(10)
        clock.now += 1
        assert check.works()
