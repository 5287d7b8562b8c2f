"""Data files as an end of a table lists them: each with the delete files that apply to it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.engine.read.metadata import LiveEntry

POSITIONS, EQUALITY = 1, 2
"""What the specification calls the content of delete files; that of data files is 0."""


@dataclass(frozen=True)
class LiveFile:
    """A data file as one end lists it: with the delete files that apply to it there."""

    data: LiveEntry
    deletes: frozenset[LiveEntry]

    @property
    def positions(self) -> frozenset[LiveEntry]:
        return frozenset(entry for entry in self.deletes if entry.content == POSITIONS)

    @property
    def equality(self) -> frozenset[LiveEntry]:
        return frozenset(entry for entry in self.deletes if entry.content == EQUALITY)


@dataclass(frozen=True)
class ShiftedFile:
    """A data file that both ends list with different deletes: only rows deleted at one end can differ."""

    before: LiveFile
    after: LiveFile
