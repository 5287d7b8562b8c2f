"""All rows of both ends measured by Spark: it sends back one row of each end, and counts by bin and by value.

What this process finds out of its own rows it finds out of these: texts are written, ranks counted and bins chosen by the
same SQL. Quantiles are exact: a sketch says between which values each must lie, and those are counted one by one.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import grpc
from pyspark.errors import PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from jobs.engine.axes import axis_kind
from jobs.engine.columns import text
from jobs.engine.fields import Primitive, duckdb_type
from jobs.engine.measured import (
    QUANTILES,
    TOP_VALUES,
    Frequent,
    MeasuringError,
    Spread,
    has_extremes,
    is_float,
    rank,
)
from jobs.engine.spark import groupable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.connect.column import Column as SparkColumn
    from pyspark.sql.connect.dataframe import DataFrame

    from jobs.engine.axes import Bins, Scale
    from jobs.engine.columns import Pair
    from jobs.engine.duckdb import Embedded
    from jobs.engine.fields import Field
    from jobs.engine.scan import Column

    Fetch = Callable[[DataFrame], Iterable[pa.Table]]

_DAY = 86_400_000_000
_MOST = 2**63 - 1
_ACCURACY = 10_000
"""The sketch of quantiles is wrong by no more than the rows divided by this."""
_DISTINCT_AT_ONCE = 16
"""Spark reads the rows once more for each column whose values it counts in one query."""
_ERROR = 0.02
_BATCH = "measured_batch"
_AS_TEXT = {"string", "uuid", "boolean"}


class SparkMeasured:
    """Rows that Spark reads, kept there until they are closed."""

    row_limit = 20_000_000

    def __init__(self, diff: Embedded, rows: Callable[[str], DataFrame], fetch: Fetch) -> None:
        self._diff = diff
        self._rows = rows
        self._fetch = fetch
        self._kept: dict[str, DataFrame] = {}
        self._counts: dict[str, int] = {}

    def close(self) -> None:
        """Have Spark forget the rows."""
        while self._kept:
            with suppress(PySparkException, grpc.RpcError):
                self._kept.popitem()[1].unpersist()

    def _frame(self, side: str) -> DataFrame:
        """All rows of one end, read once: they are asked several questions."""
        if side not in self._kept:
            self._kept[side] = self._rows(side).persist()
        return self._kept[side]

    # --- what statistics ask ---

    def count(self, side: str) -> int:
        if side not in self._counts:
            with _measuring():
                self._counts[side] = int(self._frame(side).count())
        return self._counts[side]

    def summarize(self, side: str, columns: Sequence[Column], *, is_exact: bool) -> str:
        tests, outputs = [], []
        distinct = self._distinct(side, columns) if is_exact else {}
        for column in columns:
            name, found, value = column.alias, column.field, F.col(column.alias)
            tests.append(F.count(value).alias(f"{name}_count"))
            outputs.append(f"{name}_count")
            if is_exact:
                outputs.append(f"{distinct[name]} AS {name}_distinct")
            else:
                tests.append(F.approx_count_distinct(groupable(found.type, value), _ERROR).alias(f"{name}_distinct"))
                outputs.append(f"{name}_distinct")
            if has_extremes(found):
                for end, least in (("min", F.min), ("max", F.max)):
                    tests.append(least(_plain(found, value)).alias(f"{name}_{end}"))
                    outputs.append(f"CAST({name}_{end} AS {duckdb_type(found.type)}) AS {name}_{end}")
            if is_float(found):
                tests.append(F.count(_plain(found, value)).alias(f"{name}_finite"))
                outputs.append(f"{name}_finite")
        self._store(f"summary_{side}", outputs, self._frame(side).agg(*tests))
        return f"SELECT * FROM summary_{side}"

    def totals(self, side: str, scales: Mapping[str, Scale | None]) -> dict[str, int]:
        fields = self._fields(side)
        tests = []
        for name, scale in scales.items():
            value = _axis(fields[name], F.col(name))
            if scale is not None:
                value = F.floor(reduce(lambda one, factor: one * F.lit(factor), scale.factors, value))
            # a sum of longs could overflow
            tests.append(F.sum(value.cast("decimal(20,0)")).alias(name))
        found = self._one(self._frame(side).agg(*tests)) if tests else {}
        return {name: int(found[name] or 0) for name in scales}

    def spread(self, side: str, bins: Mapping[str, Bins]) -> dict[str, Spread]:
        if not bins:
            return {}
        fields = self._fields(side)
        axes = [_axis(fields[name], F.col(name)).alias(name) for name in bins]
        frame = self._frame(side).select(*axes)
        near = self._one(
            frame.agg(
                *(F.percentile_approx(F.col(name).cast("double"), _SHARES, _ACCURACY).alias(name) for name in bins)
            )
        )
        parts = [
            _placed(place, name, found, _windows(near[name], is_whole=_is_whole(fields[name])), fields[name])
            for place, (name, found) in enumerate(bins.items())
        ]
        counted = (
            frame.select(F.inline(F.array(*parts)))
            .where("bin IS NOT NULL")
            .groupBy("place", "bin", "slot", "whole", "fraction")
            .agg(F.count(F.lit(1)).alias("n"))
        )
        self._store(f"spread_{side}", counted.columns, counted)
        return {
            name: Spread(self._quantiles(side, place, is_whole=_is_whole(fields[name])), self._histogram(side, place))
            for place, name in enumerate(bins)
        }

    def _histogram(self, side: str, place: int) -> dict[int, int]:
        return dict(
            self._diff.connection.execute(
                f"SELECT bin, sum(n)::BIGINT FROM spread_{side} WHERE place = {place} GROUP BY bin"
            ).fetchall()
        )

    def _quantiles(self, side: str, place: int, *, is_whole: bool) -> list[Any] | None:
        """The values at the ranks, out of counted ones and of the numbers of those between them."""
        value = "whole" if is_whole else "fraction"
        rows = self._diff.connection.execute(
            f"SELECT {value}, sum(n)::BIGINT, slot FROM spread_{side} WHERE place = {place} "
            f"GROUP BY slot, {value} ORDER BY slot, {value}"
        ).fetchall()
        count = sum(number for _, number, _ in rows)
        found: list[Any] = []
        reached = 0
        for known, number, slot in rows:
            reached += number
            while len(found) < len(QUANTILES) and reached >= _rank(QUANTILES[len(found)], count):
                if slot % 2 == 0:
                    raise MeasuringError("Spark's sketch of quantiles is not as exact as it says")
                found.append(known)
        return found or None

    def frequent(self, pairs: Sequence[Pair]) -> dict[int, Frequent]:
        if not pairs:
            return {}
        one, other = (self._valued(side, pairs) for side in "ba")
        sums = (
            one.unionAll(other).groupBy("place", "value").agg(*(F.sum(end).alias(end) for end in ("before", "after")))
        )
        whole = Window.partitionBy("place")
        order = whole.orderBy((F.col("before") + F.col("after")).desc(), "value")
        ranked = sums.select(
            "*",
            F.row_number().over(order).alias("rank"),
            F.count_if(F.col("before") > 0).over(whole).alias("values_b"),
            F.count_if(F.col("after") > 0).over(whole).alias("values_a"),
        )
        wanted = F.col("rank") <= TOP_VALUES
        if others := [pair.index for pair in pairs if not _is_text(pair)]:
            wanted = wanted | F.col("place").isin(others)
        self._store("valued", ["place", "value", "before", "after", "values_b", "values_a"], ranked.where(wanted))
        return {pair.index: self._ranked(pair) for pair in pairs}

    def _valued(self, side: str, pairs: Sequence[Pair]) -> DataFrame:
        """The values of one end with their numbers, as text."""
        values = [
            F.struct(F.lit(pair.index).alias("place"), _text(end, F.col(f"{side}{pair.index}")).alias("value"))
            for pair in pairs
            if (end := pair.end(side)) is not None
        ]
        nothing = F.struct(F.lit(-1).alias("place"), F.lit(None).cast("string").alias("value"))
        rows = self._frame(side).select(F.inline(F.array(*values, nothing))).where("value IS NOT NULL")
        number = F.count(F.lit(1))
        ends = [number.alias("before"), F.lit(0).cast("long").alias("after")]
        if side == "a":
            ends = [F.lit(0).cast("long").alias("before"), number.alias("after")]
        return rows.groupBy("place", "value").agg(*ends)

    def _ranked(self, pair: Pair) -> Frequent:
        parts = []
        for side, end in (("b", pair.before), ("a", pair.after)):
            if end is not None:
                numbers = "before, 0 AS after" if side == "b" else "0 AS before, after"
                rows = f"FROM valued WHERE place = {pair.index} AND {'before' if side == 'b' else 'after'} > 0"
                parts.append(f"SELECT {_written(end)} AS value, {numbers} {rows}")
        found = rank(self._diff, " UNION ALL ".join(parts))
        if not _is_text(pair):
            return found
        # only the first ones are here
        distinct = self._diff.one(
            f"SELECT coalesce(max(values_b), 0), coalesce(max(values_a), 0) FROM valued WHERE place = {pair.index}"
        )
        return replace(found, distinct=dict(zip("ba", distinct, strict=True)))

    # --- Spark's answers ---

    def _distinct(self, side: str, columns: Sequence[Column]) -> dict[str, int]:
        found: dict[str, int] = {}
        for start in range(0, len(columns), _DISTINCT_AT_ONCE):
            tests = [
                F.count_distinct(groupable(column.field.type, F.col(column.alias))).alias(column.alias)
                for column in columns[start : start + _DISTINCT_AT_ONCE]
            ]
            found |= self._one(self._frame(side).agg(*tests))
        return found

    def _one(self, frame: DataFrame) -> dict[str, Any]:
        with _measuring():
            rows = [row for batch in self._fetch(frame) for row in batch.to_pylist()]
        return dict(rows[0])

    def _store(self, table: str, columns: Sequence[str], frame: DataFrame) -> None:
        """Put an answer into a table of this process, which spills what memory does not hold."""
        connection = self._diff.connection
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        verb = f"CREATE TEMP TABLE {table} AS"
        with _measuring():
            for batch in self._fetch(frame):
                connection.register(_BATCH, batch)
                connection.execute(f"{verb} SELECT {', '.join(columns)} FROM {_BATCH}")
                connection.unregister(_BATCH)
                verb = f"INSERT INTO {table}"

    def _fields(self, side: str) -> dict[str, Field]:
        return {column.alias: column.field for column in self._diff.columns(side)}


@contextmanager
def _measuring() -> Iterator[None]:
    try:
        yield
    except (PySparkException, grpc.RpcError) as error:
        raise MeasuringError(" ".join(str(error).split())) from error


# --- columns of Spark -----------------------------------------------------------------------------


def _plain(found: Field, value: SparkColumn) -> SparkColumn:
    """As `axes.plain`: a float that is NaN or infinite is NULL."""
    return F.when(F.abs(value) < float("inf"), value) if is_float(found) else value


def _is_whole(found: Field) -> bool:
    return axis_kind(found.type) == "time" or (isinstance(found.type, Primitive) and found.type.is_integer)


def _axis(found: Field, value: SparkColumn) -> SparkColumn:
    """As `axes.plain_axis`: a whole number, microseconds, or a double."""
    assert isinstance(found.type, Primitive)  # noqa: S101 - the caller has asked for the axis's kind
    if found.type.name == "date":
        return F.unix_date(value).cast("long") * F.lit(_DAY)
    if axis_kind(found.type) == "time":
        return F.unix_micros(value.cast("timestamp"))
    return value.cast("long") if found.type.is_integer else _plain(found, value).cast("double")


_MARGIN = 2 / _ACCURACY
_SHARES = [min(1.0, max(0.0, percent / 100 + margin)) for percent in QUANTILES for margin in (-_MARGIN, _MARGIN)]


def _rank(percent: int, count: int) -> int:
    return max(1, -(-percent * count // 100))


def _windows(near: Sequence[float] | None, *, is_whole: bool) -> list[tuple[float, float]]:
    """Between which values the quantiles lie, in their order and apart."""

    def _widened(value: float, direction: int) -> int:
        # the sketch makes doubles of whole numbers
        return min(_MOST, max(-_MOST - 1, int(value) + direction * (abs(int(value)) >> 50)))

    windows: list[tuple[float, float]] = []
    for low, high in zip((near or [])[::2], (near or [])[1::2], strict=True):
        ends = (_widened(low, -1), _widened(high, 1)) if is_whole else (low, high)
        if windows and ends[0] <= windows[-1][1]:
            windows[-1] = windows[-1][0], max(ends[1], windows[-1][1])
        else:
            windows.append(ends)
    return windows


def _placed(place: int, name: str, bins: Bins, windows: Sequence[tuple[float, float]], found: Field) -> SparkColumn:
    """Where a value lies: its bin, and the even number of a gap between windows or the odd number of its window."""
    value = F.col(name)
    slot = F.lit(2 * len(windows))
    for number, (low, high) in reversed(list(enumerate(windows))):
        slot = F.when(value < F.lit(low), 2 * number).when(value <= F.lit(high), 2 * number + 1).otherwise(slot)
    shown = F.when(slot % 2 == 1, value)
    none = F.lit(None)
    whole, fraction = (shown, none) if _is_whole(found) else (none, shown)
    return F.struct(
        F.lit(place).alias("place"),
        F.when(value.isNotNull(), _bin(bins, value)).cast("int").alias("bin"),
        slot.cast("int").alias("slot"),
        whole.cast("long").alias("whole"),
        fraction.cast("double").alias("fraction"),
    )


def _bin(bins: Bins, value: SparkColumn) -> SparkColumn:
    """As `Bins.index`."""
    if bins.is_whole:
        kind = "long" if bins.fits_bigint else "decimal(20,0)"
        low, width = (F.lit(str(number)).cast(kind) for number in (bins.low, bins.width))
        return F.call_function("div", value.cast(kind) - low, width)
    scaled = F.floor((value.cast("double") - F.lit(bins.low)) / F.lit(bins.width))
    return F.least(F.lit(bins.count - 1), F.greatest(F.lit(0), scaled))


# --- values as text -------------------------------------------------------------------------------


def _is_text(pair: Pair) -> bool:
    """Whether Spark writes the values of both ends as this process does."""
    ends = (end.type for end in (pair.before, pair.after) if end is not None)
    return all(isinstance(type_, Primitive) and (type_.name in _AS_TEXT or type_.is_bytes) for type_ in ends)


def _text(found: Field, value: SparkColumn) -> SparkColumn:
    """A value as text which `_written` reads."""
    if isinstance(found.type, Primitive) and found.type.is_bytes:
        return F.base64(value)
    return (_axis(found, value) if axis_kind(found.type) == "time" else value).cast("string")


def _written(found: Field) -> str:
    """SQL of the text that this process writes of such a value."""
    assert isinstance(found.type, Primitive)  # noqa: S101 - others have no frequent values
    if found.type.name in _AS_TEXT or found.type.is_bytes:
        return "value"
    type_ = duckdb_type(found.type)
    if axis_kind(found.type) == "time":
        return text(found.type, f"CAST(make_timestamp(CAST(value AS BIGINT)) AS {type_})")
    return text(found.type, f"CAST(value AS {type_})")
