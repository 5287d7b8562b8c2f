"""Keys that a dataset without one could have, found in the changed rows that are stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from webapp.comparisons.diffs import reader
from webapp.comparisons.diffs.artifact import open_artifact
from webapp.core.errors import BadRequest

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.accounts.rules.sight import RowSight
    from webapp.comparisons.diffs.artifact import Artifact, DiffColumn

MOST_ROWS = 500_000
"""In which keys are looked for: each takes a pass over all of them."""
FIRST_COLUMNS = 8
"""Keys stand at the front of tables."""
PAIRED_COLUMNS = 6
MOST = 3
_KINDS = ("int", "long", "string", "date", "uuid", "timestamp", "timestamptz")


@dataclass(frozen=True)
class KeyProposal:
    """A key that tells all removed rows apart, and all added ones."""

    columns: tuple[str, ...]
    pairs: int
    """Removed rows that have the key of an added one: each would be one changed row."""


def propose_keys(folder: Path, sight: RowSight) -> list[KeyProposal]:
    """Return the keys that would pair the most rows, those of fewer columns first; the unchanged rows are not looked at.

    Raises:
        BadRequest: the rows have a key, or are too many, or not all stored.

    """
    artifact = open_artifact(folder, sight)
    if artifact.mode != "net":
        message = "The rows are compared by a key already."
        raise BadRequest(message)
    if artifact.stored_rows > MOST_ROWS or not artifact.summary.get("is_complete", True):
        message = f"Keys are looked for in at most {MOST_ROWS:,} changed rows, all of which are stored."
        raise BadRequest(message)
    return list(_find(artifact.rows, artifact.rows_stamp, _list_candidates(artifact)))


def _list_candidates(artifact: Artifact) -> tuple[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ...]:
    fit = [column for column in artifact.columns if _may_be_key(artifact, column)][:FIRST_COLUMNS]
    singles = [(column,) for column in fit]
    groups = [*singles, *combinations(fit[:PAIRED_COLUMNS], 2)]
    return tuple(
        (tuple(column.name for column in group), tuple((column.stored("b"), column.stored("a")) for column in group))
        for group in groups
    )


def _may_be_key(artifact: Artifact, column: DiffColumn) -> bool:
    types = {artifact.types.get(column.stored(side)) for side in ("b", "a")}
    is_fit = column.state == "same" and not column.is_ignored and not column.is_hidden
    return is_fit and column.type in _KINDS and len(types - {None}) == 1


@lru_cache(maxsize=128)
def _find(
    rows: Path, _stamp: int, candidates: tuple[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ...]
) -> tuple[KeyProposal, ...]:
    """Look once; the file is named with its stamp, so that what is written anew is looked at anew."""
    counts = reader.try_keys(rows, [sql for _, sql in candidates]) if candidates else []
    proposals = [
        KeyProposal(names, count["pairs"])
        for (names, _), count in zip(candidates, counts, strict=True)
        if count["pairs"] and not count["removed"] and not count["added"]
    ]
    keys = {proposal.columns for proposal in proposals}
    # Columns beside a key of their own add nothing to it.
    least = [
        proposal
        for proposal in proposals
        if len(proposal.columns) == 1 or not any((name,) in keys for name in proposal.columns)
    ]
    return tuple(sorted(least, key=lambda proposal: (-proposal.pairs, len(proposal.columns)))[:MOST])
