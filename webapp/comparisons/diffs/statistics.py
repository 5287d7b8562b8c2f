"""Column statistics of a stored row diff, ready for pages and the API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from webapp.comparisons.diffs.artifact import open_artifact, read_json
from webapp.comparisons.diffs.reader import naming_damage
from webapp.core.errors import Gone

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from webapp.accounts.rules.sight import RowSight
    from webapp.comparisons.diffs.artifact import Artifact, DiffColumn

Scope = Literal["table", "changed"]
_NAMING = ("index", "name")
_COUNTED = ("rows", "nulls", "distinct", "distinct_exact")
"""What is said of a column whose values are hidden."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SideStatistics:
    """One column at one end."""

    rows: int
    nulls: int
    distinct: int
    distinct_exact: bool
    min: Any
    max: Any
    mean: Any
    quantiles: dict[str, Any]
    quantiles_exact: bool


@dataclass(frozen=True)
class MeasuredEnds:
    """The column that has one name at each end, over all rows; None where nothing was measured, or nothing has the name."""

    before: SideStatistics | None = None
    after: SideStatistics | None = None


@dataclass(frozen=True)
class Bucket:
    """One bar of a paired histogram, or one of the most frequent values."""

    label: str
    before: int
    after: int


@dataclass(frozen=True)
class ColumnStatistics:
    """One column at both ends."""

    column: DiffColumn
    before: SideStatistics | None
    after: SideStatistics | None
    kind: Literal["number", "time", "values", "none"]
    buckets: tuple[Bucket, ...]
    """Bins of equal width for numbers and times, the most frequent values otherwise."""

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def is_changed(self) -> bool:
        return bool(self.column.changed) or self.column.state != "same"


@dataclass(frozen=True)
class Statistics:
    """All columns, over one set of rows."""

    scope: Scope
    """`table`: all rows of both ends; `changed`: only the rows that the diff lists."""
    rows_before: int
    rows_after: int
    columns: tuple[ColumnStatistics, ...]
    table_is_measured: bool
    """Whether the tables were small enough to be measured whole."""
    raw: dict[str, Any]
    masked: tuple[str, ...] = ()
    """Columns of which only counts are shown."""

    @property
    def changed(self) -> tuple[ColumnStatistics, ...]:
        """The columns that differ, most changed first."""
        columns = [column for column in self.columns if column.is_changed]
        return tuple(sorted(columns, key=lambda entry: -(entry.column.changed or 0)))

    @property
    def measures(self) -> list[dict[str, Any]]:
        """What was measured of each column, as it is stored, and how far it is the same at both ends."""
        return [
            {**raw, "match_rate": entry.column.match_rate, "changed": entry.column.changed}
            for raw, entry in zip(self.raw["columns"], self.columns, strict=True)
        ]


def load_statistics(folder: str | Path, sight: RowSight, *, scope: Scope | None = None) -> Statistics:
    """Load one scope; without a wish the whole table where it was measured, else the changed rows."""
    artifact = open_artifact(folder, sight)
    stored = _read(artifact)
    with naming_damage():
        return _choose(artifact, stored, scope)


def load_ends(folder: str | Path, sight: RowSight, *, column: str) -> MeasuredEnds:
    """Load what was measured of the column that has this name, at each end the one that has it there."""
    artifact = open_artifact(folder, sight)
    stored = _read(artifact)
    with naming_damage():
        entries = {entry["index"]: entry for entry in stored["scopes"].get("table", {}).get("columns", ())}
        ends: dict[str, SideStatistics | None] = {}
        for described in artifact.columns:
            names = {"before": described.before_name, "after": described.after_name}
            for side in [side for side, name in names.items() if name == column and described.index in entries]:
                entry = entries[described.index]
                ends[side] = _side((_mask(entry) if described.is_hidden else entry)[side])
        return MeasuredEnds(**ends)


def _read(artifact: Artifact) -> Mapping[str, Any]:
    try:
        stored: Mapping[str, Any] = read_json(artifact.folder, "statistics.json")
    except (OSError, ValueError) as error:
        raise Gone("The statistics of this comparison have been removed. Compute it again.", code="expired") from error
    return stored


def _choose(artifact: Artifact, stored: Mapping[str, Any], scope: Scope | None) -> Statistics:
    scopes = stored["scopes"]
    chosen: Scope = scope if scope in scopes and scope is not None else "table" if "table" in scopes else "changed"
    by_index = {column.index: column for column in artifact.columns}
    measured = scopes[chosen]["columns"]
    raw = {
        **scopes[chosen],
        "columns": [_mask(entry) if by_index[entry["index"]].is_hidden else entry for entry in measured],
    }
    return Statistics(
        scope=chosen,
        rows_before=raw["rows"]["before"],
        rows_after=raw["rows"]["after"],
        columns=tuple(_column(by_index[entry["index"]], entry) for entry in raw["columns"]),
        table_is_measured=stored["table_is_measured"],
        raw=raw,
        masked=tuple(artifact.masked),
    )


def _mask(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was counted of a column, without values or what they add up to."""
    sides = {side: _mask_side(raw[side]) for side in ("before", "after")}
    return {**{name: raw[name] for name in _NAMING if name in raw}, **sides}


def _mask_side(raw: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if raw is None:
        return None
    return {**{name: raw[name] for name in _COUNTED if name in raw}, "min": None, "max": None, "mean": None}


def _column(column: DiffColumn, raw: Mapping[str, Any]) -> ColumnStatistics:
    bins, top = raw.get("bins"), raw.get("top")
    kind: Literal["number", "time", "values", "none"] = "none"
    buckets: tuple[Bucket, ...] = ()
    if bins is not None:
        kind, buckets = bins["kind"], _histogram(raw, bins)
    elif top:
        kind, buckets = "values", _buckets([(entry["value"], entry["before"], entry["after"]) for entry in top])
    return ColumnStatistics(column, _side(raw["before"]), _side(raw["after"]), kind, buckets)


def _side(raw: Mapping[str, Any] | None) -> SideStatistics | None:
    if raw is None:
        return None
    quantiles = raw.get("quantiles") or {}
    least, most = raw["min"], raw["max"]
    if raw.get("quantiles_unit") == "us":
        least, most = _moment(least), _moment(most)
        quantiles = {name: value if value is None else _time(int(value)) for name, value in quantiles.items()}
    return SideStatistics(
        rows=raw["rows"],
        nulls=raw["nulls"],
        distinct=raw["distinct"],
        distinct_exact=raw["distinct_exact"],
        min=least,
        max=most,
        mean=raw["mean"],
        quantiles=quantiles,
        quantiles_exact=raw.get("quantiles_exact", True),
    )


def _histogram(raw: Mapping[str, Any], bins: Mapping[str, Any]) -> tuple[Bucket, ...]:
    edges, is_time = bins["edges"], bins["kind"] == "time"
    write = (lambda value: _time(int(value))) if is_time else _number
    counts = [((raw[side] or {}).get("histogram") or [0] * (len(edges) - 1)) for side in ("before", "after")]
    labels = [f"{write(low)} – {write(high)}" for low, high in pairwise(edges)]
    return _buckets(list(zip(labels, *counts, strict=True)))


def _buckets(entries: list[tuple[Any, int, int]]) -> tuple[Bucket, ...]:
    return tuple(Bucket(str(label), before, after) for label, before, after in entries)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _time(microseconds: int) -> str:
    """Write microseconds since 1970 as text; times beyond Python's years as they are."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} µs"
    return _write(moment, "minutes")


def _moment(value: Any) -> Any:
    """Write a value of a time column as its quantiles are, but exactly; what is beyond Python's years as it is."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value
    is_whole = not (moment.second or moment.microsecond)
    return _write(moment.astimezone(UTC) if moment.tzinfo else moment, "minutes" if is_whole else "auto")


def _write(moment: datetime, precision: str) -> str:
    return moment.replace(tzinfo=None).isoformat(sep=" ", timespec=precision).removesuffix(" 00:00")
