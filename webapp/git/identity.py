"""Whose copy a bare repository is, and how new: a line in a file of it that names the repository and counts its moves.

The count is written here before the database has it, so a copy that counts less than the database is an older one.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.regular_files import read_regular
from jobs.whole_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Identity", "advance_identity", "read_identity"]

_FILE = "tributary"
_LONGEST = 200
"""In bytes."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a copy says of itself."""

    uid: str
    generation: int


def read_identity(repository: Path) -> Identity | None:
    """Return what the copy says of itself; None where it says nothing that can be read."""
    try:
        uid, generation = read_regular(repository / _FILE, at_most=_LONGEST).decode().split()
        return Identity(uid, int(generation))
    except (OSError, ValueError):
        return None


def advance_identity(repository: Path, *, uid: str, at_least: int) -> int:
    """Count one move more and return the number; when this returns, it survives a power cut."""
    with _locked(repository):
        before = read_identity(repository)
        generation = 1 + max(at_least, before.generation if before is not None and before.uid == uid else 0)
        write_whole(repository / _FILE, f"{uid} {generation}\n", is_durable=True)
    return generation


@contextmanager
def _locked(repository: Path) -> Iterator[None]:
    folder = os.open(repository, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
