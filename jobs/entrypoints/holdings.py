"""What the processes of a sandbox hold, as /proc shows it to who watches them. Standard library only.

They may not want it to be seen. The first task of a process may end while others run on: then /proc shows nothing at the
process, and all at its other tasks. A descriptor may be on its way through a socket: then no process has it, and the socket
says only that there is one. A filter of system calls sees to it that all tasks of a process share one table of descriptors.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Read = TypeVar("Read")

_TRIES, _REST_S = 20, 0.005
"""Tasks that are ending are waited for; who has new ones all the time hides something."""
_ENDED = frozenset("ZX")


class HiddenError(Exception):
    """What a process holds cannot be seen, although it runs."""


def read_living(process: str, read: Callable[[str], Read]) -> Read:
    """Return what is read at a process, or at one of its tasks that runs where the first one has ended.

    Args:
        process: its number.
        read: gets a folder of /proc; nothing is known where what it returns is empty.

    Raises:
        HiddenError: there are tasks, and none of them can be read.

    """
    value = read(f"/proc/{process}")
    if value or not _has_ended(f"/proc/{process}"):
        return value
    for _ in range(_TRIES):
        others = [task for task in _list(f"/proc/{process}/task") if task != process]
        if not others:
            return value
        for task in others:
            folder = f"/proc/{process}/task/{task}"
            value = read(folder)
            if value or not _has_ended(folder):
                return value
        time.sleep(_REST_S)
    raise HiddenError


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a process has open."""

    file: os.stat_result
    passed: int = 0
    """Of a socket: descriptors that are on their way to it, which no process has."""


def list_descriptors(process: str) -> list[Descriptor]:
    """Return what a process has open. Raises HiddenError."""
    return read_living(process, lambda folder: list(_read_descriptors(folder)))


def _read_descriptors(folder: str) -> Iterator[Descriptor]:
    for name in _list(f"{folder}/fd"):
        with suppress(OSError):
            file = os.stat(f"{folder}/fd/{name}")
            passed = _read_passed(f"{folder}/fdinfo/{name}") if stat.S_ISSOCK(file.st_mode) else 0
            yield Descriptor(file, passed)


def _read_passed(place: str) -> int:
    with suppress(OSError, ValueError):
        for line in Path(place).read_text().splitlines():
            if line.startswith("scm_fds:"):
                return int(line.partition(":")[2])
    return 0


def _list(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []


def _has_ended(folder: str) -> bool:
    """Return whether a task holds nothing any more: it has ended, or is not there."""
    with suppress(OSError):
        return Path(f"{folder}/stat").read_text().rpartition(")")[2].split()[0] in _ENDED
    return True
