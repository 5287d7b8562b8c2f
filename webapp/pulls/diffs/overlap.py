"""Rows that two stored diffs have in common: what the target has changed, too, since a branch left it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from webapp.core.errors import AppError
from webapp.pulls.diffs import reader
from webapp.pulls.diffs.artifact import Artifact, open_artifact

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def count_common(folder: Path, other: Path) -> int | None:
    """Return how many rows of one diff are in the other, by key; None where nobody can tell."""
    try:
        pair = _open_pair(folder, other)
        if pair is None:
            return None
        stamps = tuple(artifact.rows_stamp for artifact in pair)
        return _count(pair[0].rows, pair[1].rows, len(pair[0].key_columns), stamps)
    except AppError:
        return None


def find_common(folder: Path, other: Path, numbers: Iterable[int]) -> set[int]:
    """Return which of these rows of one diff, by their numbers, are in the other."""
    wanted = sorted(set(numbers))
    try:
        pair = _open_pair(folder, other) if wanted else None
        if pair is None:
            return set()
        return reader.find_common(pair[0].rows, pair[1].rows, keys=len(pair[0].key_columns), numbers=wanted)
    except AppError:
        return set()


def _open_pair(folder: Path, other: Path) -> tuple[Artifact, Artifact] | None:
    """Open both; None where rows have no key, keys differ in kind, or not all rows are stored."""
    pair = open_artifact(folder), open_artifact(other)
    are_whole = all(artifact.summary.get("is_complete", True) for artifact in pair)
    kinds = [
        [(column.name, artifact.types.get(f"k{place}")) for place, column in enumerate(artifact.key_columns)]
        for artifact in pair
        if artifact.mode == "identifier"
    ]
    return pair if are_whole and len(kinds) == len(pair) and kinds[0] == kinds[1] and kinds[0] else None


@lru_cache(maxsize=512)
def _count(rows: Path, other: Path, keys: int, _stamps: tuple[int, ...]) -> int | None:
    return reader.count_common(rows, other, keys=keys)
