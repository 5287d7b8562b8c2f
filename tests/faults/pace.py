"""Time as a machine of one's own would have given it: limits stay honest where others use the same processors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.factories.supervised import list_descendants

_TICK = os.sysconf("SC_CLK_TCK")
MOST = 6
"""However busy the others are: no limit grows beyond this many times itself."""


class OwnTime:
    """Seconds since it was made, without the share of the processors that strangers used.

    Strangers are all processes but these roots, what runs below them, and what is idle: on a machine with nothing else
    these are the seconds of the wall.
    """

    def __init__(self, roots: Sequence[int]) -> None:
        self._roots = roots
        self._at = time.monotonic()
        self._used = self._read()
        self.seconds = 0.0
        self.wall = 0.0

    def update(self) -> float:
        """Add what has passed since the last time; the seconds so far."""
        now, used = time.monotonic(), self._read()
        total, idle, own = (after - before for after, before in zip(used, self._used, strict=True))
        strange = min(max((total - idle - max(own, 0)) / total, 0.0), 1.0) if total > 0 else 0.0
        self.seconds += (now - self._at) * (1 - strange)
        self.wall += now - self._at
        self._at, self._used = now, used
        return self.seconds

    def _read(self) -> tuple[float, float, float]:
        """Processor seconds of the machine: all, idle, and those of our own processes."""
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        pids = {*self._roots, *(process.pid for root in self._roots for process in list_descendants(root))}
        own = sum(_processor_ticks(pid) for pid in pids)
        return sum(fields) / _TICK, (fields[3] + fields[4]) / _TICK, own / _TICK


def _processor_ticks(pid: int) -> int:
    """What a process and its children that ended have used."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15])
    return 0


def wait_at_own_pace(is_true: Callable[[], bool], *, spent: OwnTime, seconds: float, every: float = 0.5) -> None:
    """Wait until something holds; fail when these seconds of our own have been spent before it does."""
    while not is_true():
        if spent.update() > seconds or spent.wall > MOST * seconds:
            raise AssertionError(f"waited {spent.seconds:.0f} s of our own in vain, {spent.wall:.0f} s by the clock")
        time.sleep(every)
