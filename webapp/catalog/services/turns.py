"""Commits to one table take turns, among the threads of a process and the processes of a machine.

Who loses a race has written and synchronised a file for nothing, and with many writers each commit would make a loser. Turns
save that work and decide nothing: the compare-and-swap does. So nobody waits long for a process that stands still in its
turn, and where the file of turns cannot be had there are none among processes.
"""

import fcntl
import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from django.conf import settings

from webapp.catalog.rules.refs import TableRef

WAIT_S = 0.25
"""Longer than a commit takes; then somebody goes on without the others."""
_PAUSE_S = 0.001
_SLOTS = tuple(threading.RLock() for _ in range(64))
_taken: set[int] = set()
"""Slots whose turn this process has among the others; each is looked at by who holds its lock."""


@contextmanager
def take_turn(ref: TableRef) -> Iterator[None]:
    """Commit to a table while nobody else here does; in a turn there may be another to the same one."""
    slot = zlib.crc32(repr((ref.namespace, ref.name)).encode()) % len(_SLOTS)
    with _SLOTS[slot]:
        if slot in _taken or not _lock(slot):
            yield
            return
        _taken.add(slot)
        try:
            yield
        finally:
            _taken.remove(slot)
            fcntl.lockf(_open(_path()), fcntl.LOCK_UN, 1, slot)


def _lock(slot: int) -> bool:
    """Return whether the turn was had: not where the file cannot be had, or where somebody keeps the turn."""
    try:
        file = _open(_path())
    except OSError:
        return False
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        except OSError:  # a file system without locks
            return False
        else:
            return True
    return False


def _path() -> Path:
    return Path(settings.TRIBUTARY_HOME) / "commits.lock"


@cache
def _open(path: Path) -> int:
    """Open a file once and never close it: to close any descriptor of it would let all of its locks go."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
