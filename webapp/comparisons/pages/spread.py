"""How the changed rows spread over the values of a column that the reader chooses, as bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.comparisons.diffs.artifact import open_artifact
from webapp.comparisons.diffs.spread import is_countable, read_spread
from webapp.core.errors import AppError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from webapp.accounts.rules.sight import RowSight

WIDTH = 240
"""Of the longest bar, in pixels."""


@dataclass(frozen=True)
class SpreadPart:
    """One kind of change in a bar."""

    css: str
    x: float
    width: float


@dataclass(frozen=True)
class SpreadLine:
    """One value, with how many rows changed that have it."""

    value: Any
    inserted: int
    deleted: int
    updated: int
    parts: list[SpreadPart]


@dataclass(frozen=True)
class SpreadView:
    """How the changed rows spread over the values of a column."""

    columns: list[str]
    """Those to choose from, the key first."""
    by: str
    unit: str
    lines: list[SpreadLine]
    others: int
    total: int
    fields: list[tuple[str, str]]
    """What the form keeps of the address."""
    problem: str = ""


def read_spread_view(
    folder: Path, sight: RowSight, *, keeps: Mapping[str, str], parameters: Mapping[str, Any]
) -> SpreadView | None:
    """Return how the changed rows spread over the column that an address asks for; None where no column can be asked for.

    Nothing is counted before a column is chosen.
    """
    try:
        artifact = open_artifact(folder, sight)
        countable = [column for column in artifact.shown if is_countable(artifact, column)]
    except AppError:
        return None
    columns = [column.name for column in sorted(countable, key=lambda column: not column.is_key)]
    if not columns:
        return None
    by, fields = str(parameters.get("by", "")), list(keeps.items())
    if not by:
        return SpreadView(columns, "", "", [], 0, 0, fields)
    try:
        spread = read_spread(folder, sight, by=by)
    except AppError as error:
        return SpreadView(columns, by, "", [], 0, 0, fields, error.detail)
    longest = max((value.total for value in spread.values), default=1)
    lines = [
        SpreadLine(
            value.value,
            value.inserted,
            value.deleted,
            value.updated,
            _draw(value.inserted, value.deleted, value.updated, longest=longest),
        )
        for value in spread.values
    ]
    return SpreadView(columns, by, spread.unit, lines, spread.others, spread.total, fields)


def _draw(inserted: int, deleted: int, updated: int, *, longest: int) -> list[SpreadPart]:
    parts, x = [], 0.0
    for css, count in (("ins", inserted), ("rm", deleted), ("up", updated)):
        width = round(WIDTH * count / longest, 1)
        if width:
            parts.append(SpreadPart(css, x, width))
        x += width
    return parts
