"""Threads that hang are told from threads that are busy."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.factories.loops import run_loop
from webapp.runtime import health as queries
from webapp.runtime.health import register_gate
from webapp.runtime.web import gates
from webapp.runtime.web.gates import Gate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


def test_a_gate_whose_threads_all_hang_is_seen_and_a_busy_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "STUCK_AFTER_S", 1.5)
    monkeypatch.setattr(queries, "_registered", [])
    gate, freed = Gate("catalog", threads=2, waiting=100), threading.Event()
    register_gate(gate)
    [check] = queries._registered

    async def hang() -> None:
        hanging = [asyncio.ensure_future(gate.run(freed.wait)) for _ in range(2)]
        await asyncio.sleep(2)
        assert (check().works, check().state, check().name) == (False, "stuck", "catalog")
        freed.set()
        await asyncio.gather(*hanging)
        assert check().state == "ok"

    async def be_busy() -> None:
        calls = [asyncio.ensure_future(gate.run(time.sleep, 0.05)) for _ in range(60)]
        for _ in range(16):
            await asyncio.sleep(0.1)
            assert check().state == "ok"
        await asyncio.gather(*calls)

    run_loop(hang())
    run_loop(be_busy())
