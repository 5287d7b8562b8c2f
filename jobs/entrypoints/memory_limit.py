"""How much memory a confined process and all that it has started hold together: a limit of the kernel is per process only."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from jobs.entrypoints.holdings import Descriptor, HiddenError, list_descriptors, read_living

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
        self._shared_before = _measure_shared()
        self._hides = False
        """Whether files of memory may have been where nobody sees their size at the last look."""

    def is_exceeded(self, _child: int) -> bool:
        """Return whether all processes below this one hold more than is allowed.

        One that hides what it holds does. Files that are on their way between processes have what the machine has more in
        such files and nothing else explains.
        """
        started = time.process_time()
        try:
            is_exceeded = self._is_held(list(_list_below(os.getpid())))
        except HiddenError:
            is_exceeded = True
        self.pause_s = min(MOST_PAUSE_S, max(LEAST_PAUSE_S, (time.process_time() - started) * _SHARE))
        return is_exceeded

    def _is_held(self, processes: list[str]) -> bool:
        descriptors = [descriptor for process in processes for descriptor in list_descriptors(process)]
        files = self._measure_files(descriptors)
        hid, self._hides = self._hides, any(descriptor.passed for descriptor in descriptors)
        if hid and self._hides and _measure_shared() - self._shared_before - files > self._allowed:
            return True
        # every page counts as often as it is mapped: cheap, and never too little
        held = files + sum(map(_resident, processes))
        return held > self._allowed and files + sum(map(_proportional, processes)) > self._allowed

    def _measure_files(self, descriptors: Iterable[Descriptor]) -> int:
        files = (descriptor.file for descriptor in descriptors)
        sizes = {file.st_ino: file.st_blocks * 512 for file in files if file.st_dev == self._memory_device}
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
    return read_living(process, _read_resident)


def _read_resident(folder: str) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"{folder}/statm").read_text().split()[1]) * _PAGE
    return 0


def _proportional(process: str) -> int:
    return read_living(process, _read_proportional)


def _read_proportional(folder: str) -> int:
    with suppress(OSError):
        for line in Path(f"{folder}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _read_resident(folder)


def _measure_shared() -> int:
    """Return how much all files of memory of this machine hold."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("Shmem:"):
                return int(line.split()[1]) * 1024
    return 0
