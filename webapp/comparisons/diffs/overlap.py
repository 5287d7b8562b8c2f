"""Rows that stored diffs have in common: what the target has changed, too, since a branch left it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from webapp.accounts.rules.sight import EVERYTHING
from webapp.comparisons.diffs import reader
from webapp.comparisons.diffs.artifact import Artifact, DiffColumn, open_artifact
from webapp.comparisons.diffs.rows import Row, read_rows_of
from webapp.core.errors import AppError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from webapp.accounts.rules.sight import RowSight


def count_common(folder: Path, others: Sequence[Path]) -> int | None:
    """Return how many rows of one diff are in all others, by key; None where nobody can tell. No value is shown."""
    try:
        artifacts = _open_all(folder, others, EVERYTHING)
        if artifacts is None:
            return None
        files = tuple((artifact.rows, artifact.rows_stamp) for artifact in artifacts)
        return _count(files, len(artifacts[0].key_columns))
    except AppError:
        return None


def find_common(folder: Path, others: Sequence[Path], numbers: Iterable[int]) -> set[int]:
    """Return which of these rows of one diff, by their numbers, are in all others. No value is shown."""
    chosen = sorted(set(numbers))
    try:
        artifacts = _open_all(folder, others, EVERYTHING) if chosen else None
        if artifacts is None:
            return set()
        shown, *rest = artifacts
        rows = [artifact.rows for artifact in rest]
        return reader.find_common(shown.rows, rows, keys=len(shown.key_columns), numbers=chosen)
    except AppError:
        return set()


@dataclass(frozen=True)
class RowPairs:
    """Rows that two diffs have in common, by key."""

    key: tuple[str, ...]
    columns: tuple[tuple[DiffColumn, ...], tuple[DiffColumn, ...]]
    """Of each diff."""
    rows: list[tuple[Row, Row]]
    after: int | None
    """Behind which number of the first diff there are more."""


def read_pairs(folder: Path, other: Path, sight: RowSight, *, after: int, most: int) -> RowPairs | None:
    """Read rows that two diffs have in common, the first ones behind a number; None where nobody can tell."""
    artifacts = _open_all(folder, [other], sight)
    if artifacts is None:
        return None
    first, second = artifacts
    numbers = reader.pair_common(first.rows, second.rows, keys=len(first.key_columns), after=after, most=most + 1)
    if numbers is None:
        return None
    shown = numbers[:most]
    lefts = read_rows_of(first, [left for left, _ in shown])
    rights = read_rows_of(second, [right for _, right in shown])
    return RowPairs(
        key=tuple(column.name for column in first.key_columns),
        columns=(first.shown, second.shown),
        rows=list(zip(lefts, rights, strict=True)),
        after=shown[-1][0] if len(numbers) > most else None,
    )


def _open_all(folder: Path, others: Sequence[Path], sight: RowSight) -> list[Artifact] | None:
    """Open all; None where rows have no key, keys differ in kind, or not all rows are stored."""
    artifacts = [open_artifact(path, sight) for path in (folder, *others)]
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
