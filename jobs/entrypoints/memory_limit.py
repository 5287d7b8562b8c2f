"""How much memory a confined process and all that it has started hold together: a limit of the kernel is per process only."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from jobs.entrypoints.disk_quota import list_open_files

EXCEEDED = 123
"""The exit code of what held more than it may."""
LEAST_PAUSE_S, MOST_PAUSE_S = 0.1, 1.0
_SHARE = 10
"""Looking may take this part of a processor: a tenth, unless the pauses became too long."""
_PR_SET_CHILD_SUBREAPER = 36
_PAGE = os.sysconf("SC_PAGE_SIZE")

_libc = ctypes.CDLL(None, use_errno=True)


class MemoryLimit:
    """Bytes that the processes below this one may hold. What they share is counted once, divided among them.

    Made in the process that waits for them. What is in files of memory counts too where they have no name; the private
    /tmp and /dev/shm have limits of their own.
    """

    code = EXCEEDED

    def __init__(self, allowed: int) -> None:
        self._allowed = allowed
        self.pause_s = LEAST_PAUSE_S
        """So long to wait before the next look."""
        # without a process namespace, whose parent has ended comes to this process and not out of its sight
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        nameless = os.memfd_create("")
        self._memory_device = os.fstat(nameless).st_dev
        os.close(nameless)

    def is_exceeded(self, _child: int) -> bool:
        """Return whether all processes below this one hold more than is allowed."""
        started = time.process_time()
        processes = list(_list_below(os.getpid()))
        files = self._measure_files(processes)
        # every page counts as often as it is mapped: cheap, and never too little
        held = files + sum(map(_resident, processes))
        if held > self._allowed:
            held = files + sum(map(_proportional, processes))
        self.pause_s = min(MOST_PAUSE_S, max(LEAST_PAUSE_S, (time.process_time() - started) * _SHARE))
        return held > self._allowed

    def _measure_files(self, processes: list[str]) -> int:
        sizes = {
            file.st_ino: file.st_blocks * 512
            for process in processes
            for file in list_open_files(process)
            if file.st_dev == self._memory_device
        }
        return sum(sizes.values())


def _list_below(process: int | str) -> Iterator[str]:
    """Yield every process below one; they come and go meanwhile."""
    with suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):
            with suppress(OSError):
                for child in Path(f"/proc/{process}/task/{task}/children").read_text().split():
                    yield child
                    yield from _list_below(child)


def _resident(process: str) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    return 0


def _proportional(process: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(process)
