"""Uploads that a build repeats: which files make the rows of a branch, and how they are loaded once more."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Self

from webapp.datasets.rules.transactions import APPEND, SNAPSHOT

REPLACE, ADD = "snapshot", "append"
MODES = {REPLACE: SNAPSHOT, ADD: APPEND}
"""What an upload does with the rows that are there, and the type of its transaction."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The file of an upload that was kept, with all that its upload was told."""

    job: str
    """The upload's, by which the file is found."""
    name: str
    """What its sender calls it."""
    sha256: str
    format: str
    mode: str
    delimiter: str = ""
    has_header: bool = True
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Load:
    """The files that a build loads into one dataset, one after the other."""

    path: str
    key: str
    """What it belongs to: with the same key the same files are loaded once, however often the build is tried."""
    files: tuple[LoadedFile, ...]

    @property
    def digest(self) -> str:
        """What names it; made of all that it is."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def type(self) -> str:
        """The type of its transaction: the first file says whether rows of before stay."""
        return MODES[self.files[0].mode]

    @property
    def names(self) -> tuple[str, ...]:
        """What the senders call the files."""
        return tuple(file.name for file in self.files)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, equal to what a column of the database gives back."""
        return {**asdict(self), "files": [asdict(file) for file in self.files]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `as_json` wrote."""
        return cls(data["path"], data["key"], tuple(LoadedFile(**fields) for fields in data["files"]))


class Obstacle(Enum):
    """Why the rows of a branch cannot be made again of files; words that go on from the dataset."""

    WRITTEN = "has rows on {branch} that {by} wrote otherwise than by loading a file"
    GONE = "was loaded on {branch} by {by}, and the file {name} is not kept any more"

    def explain(self, written: BranchWrite, branch: str) -> str:
        """Return the sentence."""
        words = self.value.format(branch=branch, by=written.by or "somebody", name=written.name)
        return f"{words}: load the file on {branch} again."


@dataclass(frozen=True, slots=True)
class BranchWrite:
    """One committed transaction of a branch, as far as it matters here."""

    by: str
    replaces: bool
    """Whether nothing is left of what was there before."""
    is_upload: bool = False
    name: str = ""
    """Of its file."""
    file: LoadedFile | None = None
    """None where it was not kept, or where it is no upload."""


@dataclass(frozen=True, slots=True)
class RepeatedUploads:
    """What makes the rows of a branch again: files in their order, or why that cannot be."""

    files: tuple[LoadedFile, ...]
    problem: str = ""
    counting: int = 0
    """How many of the newest transactions have left rows there."""


def find_repeat(line: Sequence[BranchWrite], *, branch: str) -> RepeatedUploads:
    """Return the files that make what a branch has, from its transactions, the oldest first.

    What was written before all rows were replaced leaves nothing, so that nothing of it is repeated.
    """
    counting = _take_counting(line)
    if not counting:
        return RepeatedUploads((), f"has no rows of its own on {branch}.")
    for written in counting:
        if not written.is_upload:
            return RepeatedUploads((), Obstacle.WRITTEN.explain(written, branch), len(counting))
        if written.file is None:
            return RepeatedUploads((), Obstacle.GONE.explain(written, branch), len(counting))
    files = tuple(written.file for written in counting if written.file is not None)
    return RepeatedUploads(files, counting=len(counting))


def _take_counting(line: Sequence[BranchWrite]) -> Sequence[BranchWrite]:
    return line[max((place for place, written in enumerate(line) if written.replaces), default=0) :]


def explain_maker(function: str) -> str:
    """Say why a dataset that a transform makes is not loaded, in words that go on from its name."""
    return f"is made by {function}: change its code."
