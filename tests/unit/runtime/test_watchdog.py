"""A web process whose loop has stopped ends; one that is only busy does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from webapp.runtime.web.watchdog import EXIT_CODE

PROGRAM = """
import asyncio, sys, threading, time
from webapp.runtime.web import watchdog
watchdog.TICK_S = 0.05
dog = watchdog.Watchdog(stopped_s=3)

async def serve():
    dog.watch(asyncio.get_running_loop())
    {work}

asyncio.run(serve())
"""
BUSY = """def spin():
        end = time.monotonic() + 5
        while time.monotonic() < end:
            sum(range(1000))
    threads = [threading.Thread(target=spin) for _ in range(4)]
    [thread.start() for thread in threads]
    while any(thread.is_alive() for thread in threads):
        await asyncio.sleep(0.05)"""


HANGING = "import ctypes; ctypes.PyDLL(None).sleep(50)"
"""In C, and without letting any other thread go on."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("work", "code"), [("time.sleep(50)", EXIT_CODE), (BUSY, 0)])
def test_only_a_loop_that_has_stopped_ends_its_process(work: str, code: int) -> None:
    command = [sys.executable, "-c", PROGRAM.format(work=work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ("the event loop has stopped" in done.stderr) == (code == EXIT_CODE)


@pytest.mark.timeout(60)
def test_a_library_that_never_comes_back_ends_the_process() -> None:
    command = [sys.executable, "-c", PROGRAM.format(work=f"await asyncio.sleep(0.2); {HANGING}")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "Timeout (0:00:06)!" in done.stderr and "in serve" in done.stderr
