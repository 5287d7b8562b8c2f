"""Whether a repository's branches may have moved since a look at them, by a few calls of `stat`: no ref is read.

Git and libgit2 move a branch by renaming a file into its folder, or by putting another `packed-refs` in place, and a
restored backup has other inodes: all of these change the time at which a folder or file last changed. What somebody writes
into the file of a ref by hand does not, so nobody relies on a fingerprint for ever.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Fingerprint", "read_fingerprint"]

TICK_NS = 2_000_000_000
"""Two changes within one tick of the file system's clock have the same time; the coarsest ticks are so long."""
_FILES = ("packed-refs", "tributary")
"""Packed branches, and whose copy it is."""

_Mark = tuple[int, int]
"""Inode and time of the last change, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a look at a repository began with."""

    marks: Mapping[Path, _Mark | None]
    """Per folder of branches and file; None where it is missing."""
    read_at_ns: int

    @property
    def is_settled(self) -> bool:
        """Whether a change after it was read is sure to show: nothing had changed just before."""
        return all(mark is None or abs(self.read_at_ns - mark[1]) > TICK_NS for mark in self.marks.values())

    def holds(self) -> bool:
        """Return whether nothing has changed since."""
        return all(_read_mark(path) == mark for path, mark in self.marks.items())


def read_fingerprint(repository: Path) -> Fingerprint:
    """Return the fingerprint of a bare repository; read it before its branches."""
    read_at_ns = time.time_ns()
    folders = [Path(folder) for folder, _, _ in os.walk(repository / "refs" / "heads")]
    files = [repository / name for name in _FILES]
    return Fingerprint({path: _read_mark(path) for path in (*folders, *files)}, read_at_ns)


def _read_mark(path: Path) -> _Mark | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
