"""Rows of a dataset that both the source and the target of a pull request have changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.comparisons.diffs.overlap import read_pairs
from webapp.pulls.queries.named import find_shown
from webapp.pulls.rules import states
from webapp.pulls.rules.three_ways import ThreeWayRow, compare_three_ways

if TYPE_CHECKING:
    from webapp.accounts.rules.sight import RowSight
    from webapp.comparisons.diffs.overlap import RowPairs
    from webapp.comparisons.diffs.rows import Row
    from webapp.pulls.models import PullDataset

ROWS = 50
"""A page."""


@dataclass(frozen=True)
class ThreeWays:
    """A page of such rows."""

    key: tuple[str, ...]
    columns: tuple[str, ...]
    """Those that either side has changed in any row of the page."""
    rows: list[ThreeWayRow]
    after: int | None
    """What the next page begins behind."""
    masked: tuple[str, ...] = ()
    """Columns that are hidden from the reader: none of them is compared, and parts of the key are None."""


def read_three_ways(row: PullDataset, sight: RowSight, *, after: int = 0, most: int = ROWS) -> ThreeWays | None:
    """Read rows that both sides have changed since the branch left the target; None where nobody can tell.

    That takes both comparisons with what the branch stands on, with a key and all their rows.
    """
    source, target = find_shown(row, states.THIS_BRANCH), find_shown(row, states.TARGET_SINCE)
    if source.comparison is not None and source.before is not None and target.comparison is None:
        return ThreeWays((), (), [], None)  # the target has what the branch began with
    if source.folder is None or target.folder is None:
        return None
    pairs = read_pairs(source.folder, target.folder, sight, after=after, most=most)
    return None if pairs is None else _compare(pairs)


def _compare(pairs: RowPairs) -> ThreeWays:
    changed = {name for ours, theirs in pairs.rows for name in (*_list_changed(ours), *_list_changed(theirs))}
    every = [column for columns in pairs.columns for column in columns]
    # Whether two hidden values contradict each other would say something of them.
    masked = dict.fromkeys(column.name for column in every if column.is_hidden)
    names = dict.fromkeys(column.name for column in every if not column.is_key and column.name not in masked)
    columns = tuple(name for name in names if name in changed)
    rows = [
        compare_three_ways(
            key=ours.key,
            columns=columns,
            base=ours.before if ours.before is not None else theirs.before,
            source=ours.after,
            target=theirs.after,
            changed=(frozenset(ours.changed), frozenset(theirs.changed)),
        )
        for ours, theirs in pairs.rows
    ]
    return ThreeWays(pairs.key, columns, rows, pairs.after, tuple(masked))


def _list_changed(row: Row) -> list[str]:
    """Return the columns that a row of a diff is about."""
    return list(row.changed) if row.change == "updated" else [cell.column.name for cell in row.cells]
