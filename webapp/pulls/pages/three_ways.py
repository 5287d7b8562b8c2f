"""The rows that both sides of a pull request have changed, each as it was, on the branch, and on the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from webapp.comparisons.rules.row_keys import write_key
from webapp.core.errors import AppError
from webapp.core.numbers import read_count
from webapp.pulls.queries.three_ways import read_three_ways
from webapp.pulls.rules.three_ways import Changer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webapp.accounts.rules.sight import RowSight
    from webapp.pulls.models import PullDataset
    from webapp.pulls.rules.three_ways import ThreeWayRow, Values


COLUMNS = 50
"""Beside the key."""


@dataclass(frozen=True)
class ThreeWayCell:
    """One cell of a line."""

    value: Any
    css: str
    is_there: bool
    """Whether this end has the row."""
    other: Any = None
    """What another end has there, from which it must be told apart."""


@dataclass(frozen=True)
class ThreeWayLine:
    """A row at one end."""

    name: str
    word: str
    """What became of the whole row there."""
    cells: list[ThreeWayCell]


@dataclass(frozen=True)
class ThreeWayGroup:
    """A row at all ends, one line each."""

    key: list[tuple[Any, bool]]
    """Values with whether they are hidden."""
    name: str
    conflicts: list[str]
    lines: list[ThreeWayLine]


@dataclass(frozen=True)
class ThreeWaysView:
    """A page of rows that both sides have changed."""

    key: list[str]
    columns: list[str]
    hidden: int
    """Columns that are left out."""
    groups: list[ThreeWayGroup]
    conflicts: int
    """Rows of the page with conflicts."""
    next_url: str
    first_url: str
    """Where the first page is; empty on that."""
    masked: Sequence[str]
    """Columns that are hidden from the reader."""
    problem: str = ""
    """Why there are none."""


def read_three_ways_view(
    row: PullDataset, sight: RowSight, *, url: str, parameters: Mapping[str, Any]
) -> ThreeWaysView:
    """Return the page of these rows that an address asks for."""
    nothing = ThreeWaysView([], [], 0, [], 0, "", "", [])
    after = read_count(str(parameters.get("after", ""))) or 0
    try:
        ways = read_three_ways(row, sight, after=after)
    except AppError as error:
        return replace(nothing, problem=error.detail)
    if ways is None:
        problem = "That takes a key, and both comparisons with what the branch stands on, with all their rows."
        return replace(nothing, problem=problem)
    groups = [_draw(three, row, ways.masked) for three in ways.rows]
    return ThreeWaysView(
        key=list(ways.key),
        columns=list(ways.columns[:COLUMNS]),
        hidden=max(0, len(ways.columns) - COLUMNS),
        groups=groups,
        conflicts=sum(bool(group.conflicts) for group in groups),
        next_url=f"{url}&after={ways.after}" if ways.after is not None else "",
        first_url=url if after else "",
        masked=ways.masked,
    )


_MARKS = {
    Changer.NOBODY: ("same", "same"),
    Changer.SOURCE: ("chg", "same"),
    Changer.TARGET: ("same", "chg"),
    Changer.ALIKE: ("chg", "chg"),
    Changer.CONFLICT: ("conflict", "conflict"),
}
"""How the values of the source and of the target are marked."""


def _draw(three: ThreeWayRow, row: PullDataset, masked: Sequence[str]) -> ThreeWayGroup:
    base, source, target = [], [], []
    for value in three.values[:COLUMNS]:
        ours, theirs = _MARKS[value.side]
        changed = value.source if value.source != value.base else value.target
        source_other = value.base if value.base != value.source else value.target
        target_other = value.base if value.base != value.target else value.source
        base.append(ThreeWayCell(value.base, "same", three.base is not None, changed))
        source.append(ThreeWayCell(value.source, ours, three.source is not None, source_other))
        target.append(ThreeWayCell(value.target, theirs, three.target is not None, target_other))
    ends = (
        ("before", "", base),
        (row.pull.source, _say(three.source, three.base), source),
        (row.pull.target, _say(three.target, three.base), target),
    )
    key = [(value, name in masked) for name, value in three.key.items()]
    lines = [ThreeWayLine(name, word, cells) for name, word, cells in ends]
    return ThreeWayGroup(key, write_key(three.key.values()), three.conflicts, lines)


def _say(values: Values | None, base: Values | None) -> str:
    """Say what became of the whole row; nothing where it is there before and after."""
    if values is None:
        return "" if base is None else "removed"
    return "added" if base is None else ""
