"""How the changed rows of a stored diff spread over the values of a column: over days, or carriers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from webapp.comparisons.diffs import reader
from webapp.comparisons.diffs.artifact import open_artifact
from webapp.comparisons.rules.states import ROW_CHANGES
from webapp.core.errors import BadRequest

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.accounts.rules.sight import RowSight
    from webapp.comparisons.diffs.artifact import Artifact, DiffColumn

VALUES = 60
"""That are told apart."""
_UNITS = ("day", "month", "year")
"""Of times, the first that has few enough."""


@dataclass(frozen=True)
class SpreadValue:
    """How many rows changed that have one value."""

    value: Any
    inserted: int
    deleted: int
    updated: int

    @property
    def total(self) -> int:
        """In all."""
        return self.inserted + self.deleted + self.updated


@dataclass(frozen=True)
class RowSpread:
    """How changed rows spread over the values of a column: that which a row has now, of a removed one that which it had."""

    column: str
    unit: str
    """Of times; else empty."""
    values: tuple[SpreadValue, ...]
    """Times in their order, other values by how many rows have them."""
    others: int
    """Rows that have other values than these."""
    total: int


def read_spread(folder: Path, sight: RowSight, *, by: str) -> RowSpread:
    """Count the changed rows by the values of a column.

    Raises:
        BadRequest: there is no such column, or its values are not stored or cannot be counted.

    """
    artifact = open_artifact(folder, sight)
    if not artifact.summary.get("is_complete", True):
        message = f"Changed rows are counted by their values where all are stored; here the first {artifact.stored_rows:,} are."
        raise BadRequest(message)
    column = next((column for column in artifact.shown if column.name == by), None)
    if column is None or not is_countable(artifact, column):
        message = f"by: {by!r} is no column whose values can be counted."
        raise BadRequest(message, errors={"by": [message]})
    total = sum(int(artifact.summary.get(kind, 0)) for kind in ROW_CHANGES)
    return _read(artifact.rows, artifact.rows_stamp, _write_value(artifact, column), _is_time(column), by, total)


def is_countable(artifact: Artifact, column: DiffColumn) -> bool:
    """Return whether rows can be counted by the values of a column: those of lists and structs are too many, and none is shown that is hidden."""
    if column.is_hidden:
        return False
    kind = column.type.split("(")[0]
    is_plain = kind in ("int", "long", "string", "boolean", "date", "decimal", "uuid") or _is_time(column)
    return is_plain and any(column.stored(side) in artifact.types for side in ("a", "b"))


def _is_time(column: DiffColumn) -> bool:
    return column.type == "date" or column.type.startswith("timestamp")


def _write_value(artifact: Artifact, column: DiffColumn) -> str:
    before, after = (value if (value := column.stored(side)) in artifact.types else "NULL" for side in ("b", "a"))
    if before == "NULL" or after == "NULL" or artifact.types[before] == artifact.types[after]:
        return f"CASE WHEN change = 'deleted' THEN {before} ELSE {after} END"
    return f"CASE WHEN change = 'deleted' THEN CAST({before} AS VARCHAR) ELSE CAST({after} AS VARCHAR) END"


@lru_cache(maxsize=256)
def _read(rows: Path, _stamp: int, value: str, is_time: bool, column: str, total: int) -> RowSpread:
    """Count once; the file is named with its stamp, so that what is written anew is counted anew."""
    for unit in _UNITS if is_time else ("",):
        sql = f"CAST(date_trunc('{unit}', {value}) AS DATE)" if unit else value
        counts = reader.count_by(rows, value=sql, most=VALUES + 1)
        if len(counts) <= VALUES:
            break
    shown = counts[:VALUES]
    values = [SpreadValue(line["value"], line["inserted"], line["deleted"], line["updated"]) for line in shown]
    if is_time:
        values.sort(key=lambda value: (value.value is None, str(value.value)))
    return RowSpread(column, unit, tuple(values), total - sum(value.total for value in values), total)
