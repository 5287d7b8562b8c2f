"""Commits take turns, among the threads of a process and the processes of a machine: at their table, and at the database.

Who loses a race for a table has written and synchronised a file for nothing, and with many writers each commit would make a
loser. Who finds SQLite's one place for a writer taken sleeps, longer each time, while others come and go. Turns save that and
decide nothing: the compare-and-swap and the database do. So nobody waits long for a process that stands still in its turn, and
where the file of turns cannot be had there are none among processes.
"""

import fcntl
import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from django.conf import settings

from webapp.catalog.rules.refs import TableRef

WAIT_S = 0.25
"""Longer than a commit takes; then somebody goes on without the others."""
_PAUSE_S = 0.0003
_SLOTS = tuple(threading.RLock() for _ in range(64))
_taken: set[int] = set()
"""Slots whose turn this process has among the others; each is looked at by who holds its lock."""
_WRITING = threading.Lock()
_NEXT, _AT_IT = len(_SLOTS), len(_SLOTS) + 1
"""Who waits has the one and takes the other: so a process that has written is behind the one that waits."""


@contextmanager
def take_turn(ref: TableRef) -> Iterator[None]:
    """Commit to a table while nobody else here does; in a turn there may be another to the same one."""
    slot = zlib.crc32(repr((ref.namespace, ref.name)).encode()) % len(_SLOTS)
    with _SLOTS[slot]:
        if slot in _taken or not _lock(slot, until=time.monotonic() + WAIT_S):
            yield
            return
        _taken.add(slot)
        try:
            yield
        finally:
            _taken.remove(slot)
            _unlock(slot)


@contextmanager
def take_writers_turn() -> Iterator[None]:
    """Write to a database that has one writer at a time while no other commit of this machine does."""
    with _WRITING:
        until = time.monotonic() + WAIT_S
        is_next = _lock(_NEXT, until=until)
        is_at_it = _lock(_AT_IT, until=until)
        if is_next:
            _unlock(_NEXT)
        try:
            yield
        finally:
            if is_at_it:
                _unlock(_AT_IT)


def _unlock(slot: int) -> None:
    fcntl.lockf(_open(_path()), fcntl.LOCK_UN, 1, slot)


def _lock(slot: int, *, until: float) -> bool:
    """Return whether the turn was had: not where the file cannot be had, or where somebody keeps the turn."""
    try:
        file = _open(_path())
    except OSError:
        return False
    while time.monotonic() < until:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        except OSError:  # a file system without locks
            return False
        else:
            return True
    return False


def _path() -> str:
    return os.path.join(settings.TRIBUTARY_HOME, "commits.lock")


@cache
def _open(path: str) -> int:
    """Open a file once and never close it: to close any descriptor of it would let all of its locks go."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
