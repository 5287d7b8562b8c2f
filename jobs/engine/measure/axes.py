"""Where the values of a column stand on an axis: bins of a histogram, and the whole numbers of which means are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.engine.read.fields import Primitive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.engine.read.fields import Field, Type

BINS = 24
_BEYOND_BIGINT = 2**63
_WHOLE_BITS = 62
_TIMES = {"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
# DuckDB makes a double of a decimal by dividing two doubles, which is exact up to these
_EXACT_PRECISION, _EXACT_INTEGER, _EXACT_SCALE = 15, 2**53, 22


@dataclass(frozen=True)
class Bins:
    """Equal bins from `low`: of whole numbers (and microseconds) or of doubles."""

    low: float
    width: float
    count: int
    is_whole: bool

    @property
    def fits_bigint(self) -> bool:
        """Whether the distance of any value from `low` is a BIGINT; the wider type costs ten times as much."""
        return self.width * self.count < _BEYOND_BIGINT

    def index(self, axis: str) -> str:
        """Return SQL of the bin of a value."""
        if self.is_whole:
            kind = "BIGINT" if self.fits_bigint else "HUGEINT"
            return f"CAST((CAST({axis} AS {kind}) - ({self.low})::{kind}) // ({self.width})::{kind} AS INTEGER)"
        scaled = f"CAST(floor(({axis} - ({self.low!r})::DOUBLE) / ({self.width!r})::DOUBLE) AS INTEGER)"
        return f"least({self.count - 1}, greatest(0, {scaled}))"

    @property
    def edges(self) -> list[float]:
        return [self.low + self.width * index for index in range(self.count + 1)]


def bins_between(ends: Sequence[float]) -> Bins | None:
    """Return the bins of values between the smallest and the largest; None where no double holds the distance."""
    low, high = min(ends), max(ends)
    if isinstance(low, int) and isinstance(high, int):
        span = high - low + 1
        whole = -(-span // BINS)
        return Bins(low, whole, -(-span // whole), is_whole=True)
    # zero has one sign
    low, high = float(low) + 0.0, float(high)
    width = (high - low) / BINS
    if not math.isfinite(width):
        return None
    if width > 0 and low + width > low:
        return Bins(low, width, BINS, is_whole=False)
    return Bins(low, 1.0, 1, is_whole=False)


@dataclass(frozen=True)
class Scale:
    """The power of two that makes whole numbers of 62 bits of doubles: their sum is the same in whatever order."""

    exponent: int

    @classmethod
    def of(cls, low: float, high: float) -> Scale:
        """Return the scale for doubles between two."""
        return cls(_WHOLE_BITS - math.frexp(max(abs(low), abs(high)))[1])

    @property
    def factors(self) -> tuple[float, float]:
        """Two doubles that make it, which alone would be too large for one."""
        half = self.exponent // 2
        return 2.0**half, 2.0 ** (self.exponent - half)

    def whole(self, axis: str) -> str:
        """Return SQL of the whole number of a double."""
        first, second = self.factors
        return f"CAST(floor({axis} * ({first!r})::DOUBLE * ({second!r})::DOUBLE) AS BIGINT)"

    def mean(self, total: int, count: int) -> float:
        """Return the mean of so many doubles out of the sum of their whole numbers."""
        return math.ldexp(total / count, -self.exponent)


def axis_kind(type_: Type) -> str | None:
    """Return what an axis of such values shows; None where they have no place on one."""
    if not isinstance(type_, Primitive):
        return None
    if type_.is_number:
        return "number"
    return "time" if type_.name in _TIMES else None


def plain(field: Field, value: str) -> str:
    """Return SQL of a value where it has a place on an axis: for floats neither NaN nor infinite, else NULL."""
    is_float = isinstance(field.type, Primitive) and field.type.is_float
    return f"CASE WHEN isfinite({value}) THEN {value} END" if is_float else value


def axis(field: Field, value: str) -> str:
    """Return SQL of the place of a value on its axis: a whole number, microseconds, or a double."""
    assert isinstance(field.type, Primitive)  # noqa: S101 - the caller has asked for the axis's kind
    if field.type.is_integer:
        return value
    if field.type.decimal is not None:
        return _decimal_axis(*field.type.decimal, value)
    if field.type.is_number:
        return f"CAST({value} AS DOUBLE)"
    if field.type.name == "date":
        return f"epoch_us(CAST({value} AS TIMESTAMP))"
    return f"epoch_us({value})"


def plain_axis(field: Field, value: str) -> str:
    """Return SQL of the place of a value on its axis, NULL where it has none."""
    return axis(field, plain(field, value))


def _decimal_axis(precision: int, scale: int, value: str) -> str:
    """Return SQL of the nearest double, as every other engine has it."""
    divided, read = f"CAST({value} AS DOUBLE)", f"CAST(CAST({value} AS VARCHAR) AS DOUBLE)"
    if precision <= _EXACT_PRECISION:
        return divided
    if scale > _EXACT_SCALE:
        return read
    return f"CASE WHEN abs({value}) < {_EXACT_INTEGER // 10**scale} THEN {divided} ELSE {read} END"
