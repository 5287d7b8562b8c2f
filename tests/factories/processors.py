"""What processes take of the processor, which is the same on a machine that is busy with other things."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.factories.supervised import list_descendants

EVERY_S = 0.01


def read_with_ended(pid: int) -> float:
    """Seconds that a process has taken, with all below it that have ended and were waited for."""
    return sum(_read_ticks(pid)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def watching_below(pid: int) -> Iterator[dict[tuple[int, int], float]]:
    """Note the seconds that each process below one takes while something is done: of those that are killed nobody is told later."""
    before, taken = _read_below(pid), dict[tuple[int, int], float]()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(EVERY_S):
            taken.update({process: seconds - before.get(process, 0) for process, seconds in _read_below(pid).items()})

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def _read_below(pid: int) -> dict[tuple[int, int], float]:
    """Seconds of each process below one, by its number and its start."""
    seconds = {}
    for process in list_descendants(pid):
        with suppress(OSError):
            seconds[process.pid, process.started] = sum(_read_ticks(process.pid)[:2]) / os.sysconf("SC_CLK_TCK")
    return seconds


def _read_ticks(pid: int) -> list[int]:
    """Its own in user and system mode, and those of its children."""
    return [int(field) for field in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]]
