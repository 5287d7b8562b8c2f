"""Rows that stored diffs have in common: what the target has changed, too, since a branch left it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from webapp.comparisons.diffs import reader
from webapp.comparisons.diffs.artifact import Artifact, open_artifact
from webapp.core.errors import AppError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def count_common(folder: Path, others: Sequence[Path]) -> int | None:
    """Return how many rows of one diff are in all others, by key; None where nobody can tell."""
    try:
        artifacts = _open_all(folder, others)
        if artifacts is None:
            return None
        files = tuple((artifact.rows, artifact.rows_stamp) for artifact in artifacts)
        return _count(files, len(artifacts[0].key_columns))
    except AppError:
        return None


def find_common(folder: Path, others: Sequence[Path], numbers: Iterable[int]) -> set[int]:
    """Return which of these rows of one diff, by their numbers, are in all others."""
    chosen = sorted(set(numbers))
    try:
        artifacts = _open_all(folder, others) if chosen else None
        if artifacts is None:
            return set()
        shown, *rest = artifacts
        rows = [artifact.rows for artifact in rest]
        return reader.find_common(shown.rows, rows, keys=len(shown.key_columns), numbers=chosen)
    except AppError:
        return set()


def _open_all(folder: Path, others: Sequence[Path]) -> list[Artifact] | None:
    """Open all; None where rows have no key, keys differ in kind, or not all rows are stored."""
    artifacts = [open_artifact(path) for path in (folder, *others)]
    are_whole = all(artifact.summary.get("is_complete", True) for artifact in artifacts)
    kinds = [
        [(column.name, artifact.types.get(f"k{place}")) for place, column in enumerate(artifact.key_columns)]
        for artifact in artifacts
        if artifact.mode == "identifier"
    ]
    are_alike = len(kinds) == len(artifacts) and bool(kinds[0]) and all(kind == kinds[0] for kind in kinds)
    return artifacts if are_whole and are_alike else None


@lru_cache(maxsize=512)
def _count(files: tuple[tuple[Path, int], ...], keys: int) -> int | None:
    """Count once; the files are named with their stamps, so that what is written anew is counted anew."""
    (shown, _), *rest = files
    return reader.count_common(shown, [path for path, _ in rest], keys=keys)
