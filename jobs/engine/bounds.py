"""Whether a data file can hold a value, from the bounds that its manifest keeps: files that cannot stay unread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.engine.fields import Primitive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs.engine.fields import Field
    from jobs.engine.metadata import Entry

Bound = int | bytes
_WHOLE = {"int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}


def ordered_sql(field: Field, value: str) -> str | None:
    """SQL that turns a value of a column into what its bounds compare with; None for types whose bounds are not used.

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


def may_hold(entry: Entry, field: Field, value: Bound) -> bool:
    """Whether the value of a column lies within a file's bounds, as far as they are known."""
    low, high = _read(entry.lower, field), _read(entry.upper, field)
    if isinstance(value, bytes):
        return not ((isinstance(low, bytes) and value < low) or (isinstance(high, bytes) and value > high))
    return not ((isinstance(low, int) and value < low) or (isinstance(high, int) and value > high))


def _read(bounds: Mapping[int, bytes], field: Field) -> Bound | None:
    raw = bounds.get(field.id)
    if raw is None or not isinstance(field.type, Primitive):
        return None
    if field.type.name in _WHOLE:
        # a column that was widened from int keeps bounds of four bytes in its older files
        return int.from_bytes(raw, "little", signed=True)
    if field.type.decimal is not None:
        return int.from_bytes(raw, "big", signed=True)
    return bytes(raw) if field.type.name == "string" or field.type.is_bytes else None
