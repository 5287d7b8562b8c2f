"""Whether a data file can hold some values, from the bounds that its manifest keeps: files that cannot stay unread."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.engine.read.fields import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobs.engine.read.fields import Field
    from jobs.engine.read.metadata import LiveEntry

Bound = int | bytes
_WHOLE = {"int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}

_INSTANT_BYTES = 8


def ordered_sql(field: Field, value: str) -> str | None:
    """Return SQL that turns a column's value into what its bounds compare with; None for types whose bounds are not used.

    Floating point is left out: NaN is in no bound, and -0.0 and 0.0 are one value with two orders.
    """
    if not isinstance(field.type, Primitive):
        return None
    name = field.type.name
    if name in {"int", "long"}:
        return f"CAST({value} AS BIGINT)"
    if name == "date":
        return f"date_diff('day', DATE '1970-01-01', {value})"
    if name in {"timestamp", "timestamptz"}:
        return f"epoch_us({value})"
    if field.type.decimal is not None:
        return f"CAST({value} * 1{'0' * field.type.decimal[1]} AS HUGEINT)" if field.type.decimal[0] < 19 else None
    if name == "string":
        return f"encode({value})"
    return value if field.type.is_bytes else None


@dataclass(frozen=True)
class Range:
    """Values of a column, both ends included."""

    field: Field
    low: Bound
    high: Bound


@dataclass(frozen=True)
class Values:
    """Some values of a column, in ascending order."""

    field: Field
    ordered: tuple[Bound, ...]


def may_overlap(entry: LiveEntry, conditions: Iterable[Range | Values]) -> bool:
    """Return whether a file may hold a row that meets all conditions, as far as its bounds are known."""
    return all(
        _may_reach(entry, condition) if isinstance(condition, Range) else _may_have(entry, condition)
        for condition in conditions
    )


def _may_have(entry: LiveEntry, values: Values) -> bool:
    low = _read(entry.lower, values.field)
    above = bisect_left(values.ordered, True, key=lambda value: not is_less(value, low))
    return above < len(values.ordered) and _may_reach(entry, Range(values.field, *[values.ordered[above]] * 2))


def _may_reach(entry: LiveEntry, span: Range) -> bool:
    low, high = _read(entry.lower, span.field), _read(entry.upper, span.field)
    return not (is_less(span.high, low) or is_less(high, span.low))


def range_of(entry: LiveEntry, field: Field) -> tuple[Bound, Bound] | None:
    """Return the least and greatest value that a file may have in a column; None if some may be NULL or unknown."""
    low, high = _read(entry.lower, field), _read(entry.upper, field)
    if low is None or high is None or entry.null_counts.get(field.id) != 0:
        return None
    return low, high


def is_less(left: Bound | None, right: Bound | None) -> bool:
    """Return whether both are known, and the one is less."""
    if isinstance(left, int) and isinstance(right, int):
        return left < right
    return isinstance(left, bytes) and isinstance(right, bytes) and left < right


def _read(bounds: Mapping[int, bytes], field: Field) -> Bound | None:
    raw = bounds.get(field.id)
    if raw is None or not isinstance(field.type, Primitive):
        return None
    if field.type.name.startswith("timestamp") and len(raw) < _INSTANT_BYTES:
        return None  # of a file from when the column was a date
    if field.type.name in _WHOLE:
        # a column that was widened from int keeps bounds of four bytes in its older files
        return int.from_bytes(raw, "little", signed=True)
    if field.type.decimal is not None:
        return int.from_bytes(raw, "big", signed=True)
    return bytes(raw) if field.type.name == "string" or field.type.is_bytes else None
