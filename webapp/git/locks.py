"""Whose lock it is that lies in a repository: of a writer at work, or of one that died and left it for ever.

Git and libgit2 guard a ref by making `<ref>.lock` and renaming it away. Who is killed in between leaves the file, and nobody
can move the ref again. So every writer of ours holds a lease while it writes: a file of its own in the folder `writers`,
locked by `flock` and inherited by the programs it starts, which the kernel lets go when the last of them is dead.

A lock is stale when no living lease is older than it, for its writer took a lease first; and when it was seen to lie there
unchanged for longer than anybody needs to rename a file, in case the clock was set back between the two.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from webapp.core import clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Lease", "find_locks", "hold_lease", "remove_leftovers", "remove_stale_locks"]

UNCHANGED_SECONDS = 2.0
LEFTOVER_SECONDS = 3600.0
_FOLDER = "writers"
_NEVER = 2**62
"""As the time since which a writer makes locks: so far it makes none."""
_LEFTOVERS = ("tmp_*", "pack/tmp_*", "pack/.tmp-*", "[0-9a-f][0-9a-f]/tmp_*")
"""Below `objects`: what a writer renames when it is whole, and folders in which a push arrives."""


class _Seen(NamedTuple):
    """A lock as this process saw it first."""

    inode: int
    changed_at: int
    since: float
    """By the clock that nobody sets."""


_sights: dict[str, dict[str, _Seen]] = {}
"""Of each repository its locks, by name."""
_guard = threading.Lock()


class Lease:
    """The sign of a living writer."""

    def __init__(self, repository: Path, *, is_writing: bool = True) -> None:
        """Take it, now or for a writer that says later by `begin` that it makes locks from now on."""
        folder = repository / _FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        while True:
            self._path = folder / uuid4().hex
            self.descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            """For `pass_fds`: whoever has it open holds the lease."""
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
            if not is_writing:
                os.utime(self.descriptor, ns=(_NEVER, _NEVER))
            if os.fstat(self.descriptor).st_nlink:
                return
            # Taken for that of a dead writer in the moment before it was locked.
            os.close(self.descriptor)

    def begin(self) -> None:
        """Say that there may be locks of this writer from now on."""
        os.utime(self.descriptor)

    def release(self) -> None:
        """Give it back; the programs that were started under it have ended."""
        self._path.unlink(missing_ok=True)
        os.close(self.descriptor)


@contextmanager
def hold_lease(repository: Path) -> Iterator[Lease]:
    """Hold a lease for the time of a write."""
    lease = Lease(repository)
    try:
        yield lease
    finally:
        lease.release()


def find_locks(repository: Path) -> list[str]:
    """Return the names of all locks, and remember having seen them."""
    return sorted(_sight(repository))


def remove_stale_locks(repository: Path) -> list[str]:
    """Remove the locks of dead writers; return their names. Call it again a moment later: it trusts no first sight."""
    now = time.monotonic()
    due = {name: seen for name, seen in _sight(repository).items() if now - seen.since >= UNCHANGED_SECONDS}
    if not due:
        return []
    oldest = _find_oldest_lease(repository)
    removed = []
    for name in [name for name, seen in due.items() if oldest is None or seen.changed_at < oldest]:
        with suppress(OSError):  # no file: nobody's lock, and in the way until somebody looks at it
            (repository / name).unlink(missing_ok=True)
            removed.append(name)
    return removed


def _sight(repository: Path) -> dict[str, _Seen]:
    """Look at all locks; those that lie there unchanged keep the moment of the first sight."""
    now = time.monotonic()
    with _guard:
        sights = _sights.pop(str(repository), {})
        seen: dict[str, _Seen] = {}
        for name, status in _list_locks(repository):
            sight = _Seen(status.st_ino, status.st_mtime_ns, now)
            before = sights.get(name)
            is_same = before is not None and before[:2] == sight[:2]
            seen[name] = before if before is not None and is_same else sight
        if seen:
            _sights[str(repository)] = seen
        return seen


def remove_leftovers(repository: Path) -> int:
    """Remove unfinished objects and pushes of dead writers; return how many."""
    oldest = _find_oldest_lease(repository)
    before = clock.cautious_now().timestamp() - LEFTOVER_SECONDS
    count = 0
    for pattern in _LEFTOVERS:
        for path in (repository / "objects").glob(pattern):
            with suppress(FileNotFoundError):
                changed_at = path.lstat()
                if changed_at.st_mtime > before or (oldest is not None and changed_at.st_mtime_ns >= oldest):
                    continue
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
                count += 1
    return count


def _list_locks(repository: Path) -> Iterator[tuple[str, os.stat_result]]:
    for pattern in ("*.lock", "refs/**/*.lock"):
        for path in repository.glob(pattern):
            with suppress(FileNotFoundError):
                yield str(path.relative_to(repository)), path.lstat()


def _find_oldest_lease(repository: Path) -> int | None:
    """Return since when the longest writing of the living writes, in nanoseconds; remove the leases of the dead."""
    taken = []
    for path in (repository / _FOLDER).glob("*"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            taken.append(os.fstat(descriptor).st_mtime_ns)
        else:
            path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return min(taken, default=None)
