"""All rows of both ends measured by Spark: it sends back one row of each end, and counts by bin and by value.

What this process finds out of its own rows it finds out of these: texts are written, ranks counted and bins chosen by the
same SQL. Quantiles are exact: a sketch says between which values each must lie, and those are counted one by one.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from jobs.engine.measure.axes import axis_kind
from jobs.engine.measure.measured import (
    QUANTILES,
    TOP_VALUES,
    Frequent,
    MeasuringError,
    Spread,
    has_extremes,
    is_float,
    rank,
)
from jobs.engine.plan.columns import scan_columns, text
from jobs.engine.read.connections import first_row
from jobs.engine.read.fields import Primitive, duckdb_type
from jobs.engine.spark.reader import groupable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import duckdb
    import pyarrow as pa
    from pyspark.sql.connect.dataframe import DataFrame

    from jobs.engine.measure.axes import Bins, Scale
    from jobs.engine.plan.columns import Pair
    from jobs.engine.read.fields import Field
    from jobs.engine.read.scan import ScanColumn

    Fetch = Callable[[DataFrame], Iterable[pa.Table]]

_DAY = 86_400_000_000
_MOST = 2**63 - 1
_ACCURACY = 10_000
"""The sketch of quantiles is wrong by no more than the rows divided by this."""
_DISTINCT_AT_ONCE = 16
"""Spark reads the rows once more for each column whose values it counts in one query."""
_ERROR = 0.02
_MARGIN = 2 / _ACCURACY
_SHARES = "array({})".format(
    ", ".join(
        f"double('{min(1, max(0, share / 100 + margin))}')" for share in QUANTILES for margin in (-_MARGIN, _MARGIN)
    )
)
_BATCH = "measured_batch"
_AS_TEXT = {"string", "uuid", "boolean"}


class SparkMeasured:
    """Rows that Spark reads, kept there until they are closed."""

    row_limit = 20_000_000

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        pairs: Sequence[Pair],
        counts: Mapping[str, int],
        rows: Callable[[str], DataFrame],
        fetch: Fetch,
    ) -> None:
        self._connection = connection
        self._pairs = pairs
        self._counts = counts
        self._rows = rows
        self._fetch = fetch
        self._kept: dict[str, DataFrame] = {}

    def close(self) -> None:
        """Have Spark forget the rows."""
        while self._kept:
            with suppress(PySparkException, grpc.RpcError):
                self._kept.popitem()[1].unpersist()

    def _frame(self, side: str) -> DataFrame:
        """Return all rows of one end, read once: they are asked several questions."""
        if side not in self._kept:
            self._kept[side] = self._rows(side).persist()
        return self._kept[side]

    # --- what statistics ask ---

    def count(self, side: str) -> int:
        return self._counts[side]

    def summarize(self, side: str, columns: Sequence[ScanColumn], *, is_exact: bool) -> str:
        tests, outputs = [], []
        distinct = self._distinct(side, columns, is_exact=is_exact)
        for column in columns:
            name, field = column.alias, column.field
            tests.append(f"count({name}) AS {name}_count")
            outputs += [f"{name}_count", f"{distinct[name]} AS {name}_distinct"]
            if has_extremes(field):
                tests += [f"{end}({_plain(field, name)}) AS {name}_{end}" for end in ("min", "max")]
                outputs += [
                    f"CAST({name}_{end} AS {duckdb_type(field.type)}) AS {name}_{end}" for end in ("min", "max")
                ]
            if is_float(field):
                tests.append(f"count({_plain(field, name)}) AS {name}_finite")
                outputs.append(f"{name}_finite")
        self._store(f"summary_{side}", outputs, self._frame(side).selectExpr(*tests))
        return f"SELECT * FROM summary_{side}"

    def spread(
        self, side: str, bins: Mapping[str, Bins], scales: Mapping[str, Scale | None]
    ) -> tuple[dict[str, int], dict[str, Spread]]:
        fields = self._fields(side)
        tests = [f"{_total(scale, _axis(fields[name], name))} AS total_{name}" for name, scale in scales.items()]
        tests += [
            f"percentile_approx(CAST({_axis(fields[name], name)} AS DOUBLE), {_SHARES}, {_ACCURACY}) AS near_{name}"
            for name in bins
        ]
        row = self._single_row(self._frame(side).selectExpr(*tests)) if tests else {}
        if bins:
            windows = {name: _windows(row[f"near_{name}"], is_whole=_is_whole(fields[name])) for name in bins}
            self._store_placed(side, bins, windows)
        totals = {name: int(row[f"total_{name}"] or 0) for name in scales}
        return totals, {
            name: Spread(self._quantiles(side, place, is_whole=_is_whole(fields[name])), self._histogram(side, place))
            for place, name in enumerate(bins)
        }

    def _store_placed(
        self, side: str, bins: Mapping[str, Bins], windows: Mapping[str, Sequence[tuple[float, float]]]
    ) -> None:
        """Count values by where they lie, for all columns at once."""
        fields = self._fields(side)
        parts = [
            _placed(place, name, column_bins, windows[name], is_whole=_is_whole(fields[name]))
            for place, (name, column_bins) in enumerate(bins.items())
        ]
        counted = (
            self._frame(side)
            .selectExpr(*(f"{_axis(fields[name], name)} AS {name}" for name in bins))
            .selectExpr(f"inline(array({', '.join(parts)}))")
            .where("bin IS NOT NULL")
            .groupBy("place", "bin", "slot", "whole", "fraction")
            .agg(F.expr("count(*) AS n"))
        )
        self._store(f"spread_{side}", counted.columns, counted)

    def _histogram(self, side: str, place: int) -> dict[int, int]:
        return dict(
            self._connection.execute(
                f"SELECT bin, sum(n)::BIGINT FROM spread_{side} WHERE place = {place} GROUP BY bin"
            ).fetchall()
        )

    def _quantiles(self, side: str, place: int, *, is_whole: bool) -> list[Any] | None:
        """Return the values at the ranks, out of counted ones and of the numbers of those between them."""
        value = "whole" if is_whole else "fraction"
        rows = self._connection.execute(
            f"SELECT {value}, sum(n)::BIGINT, slot FROM spread_{side} WHERE place = {place} "
            f"GROUP BY slot, {value} ORDER BY slot, {value}"
        ).fetchall()
        count = sum(number for _, number, _ in rows)
        quantiles: list[Any] = []
        reached = 0
        for quantile, number, slot in rows:
            reached += number
            while len(quantiles) < len(QUANTILES) and reached >= _rank(QUANTILES[len(quantiles)], count):
                if slot % 2 == 0:
                    raise MeasuringError("Spark's sketch of quantiles is not as exact as it says")
                quantiles.append(quantile)
        return quantiles or None

    def frequent(self, pairs: Sequence[Pair]) -> dict[int, Frequent]:
        if not pairs:
            return {}
        before, after = (self._valued(side, pairs) for side in "ba")
        conditions = [f"rank <= {TOP_VALUES}", *(f"place = {pair.index}" for pair in pairs if not _is_text(pair))]
        ranked = (
            before.unionAll(after)
            .groupBy("place", "value")
            .agg(F.expr("sum(before) AS before"), F.expr("sum(after) AS after"))
            .selectExpr(
                "*",
                "row_number() OVER (PARTITION BY place ORDER BY before + after DESC, value) AS rank",
                "count_if(before > 0) OVER (PARTITION BY place) AS values_b",
                "count_if(after > 0) OVER (PARTITION BY place) AS values_a",
            )
            .where(" OR ".join(conditions))
        )
        self._store("valued", ["place", "value", "before", "after", "values_b", "values_a"], ranked)
        return {pair.index: self._ranked(pair) for pair in pairs}

    def _valued(self, side: str, pairs: Sequence[Pair]) -> DataFrame:
        """Return the values of one end with their numbers, as text."""
        values = [
            f"named_struct('place', {pair.index}, 'value', {_text(end, f'{side}{pair.index}')})"
            for pair in pairs
            if (end := pair.end(side)) is not None
        ]
        nothing = "named_struct('place', -1, 'value', CAST(NULL AS STRING))"
        rows = (
            self._frame(side).selectExpr(f"inline(array({', '.join([*values, nothing])}))").where("value IS NOT NULL")
        )
        before, after = (1, 0) if side == "b" else (0, 1)
        return rows.selectExpr("place", "value", f"{before}L AS before", f"{after}L AS after")

    def _ranked(self, pair: Pair) -> Frequent:
        parts = []
        for side, end in (("b", pair.before), ("a", pair.after)):
            if end is not None:
                numbers = "before, 0 AS after" if side == "b" else "0 AS before, after"
                rows = f"FROM valued WHERE place = {pair.index} AND {'before' if side == 'b' else 'after'} > 0"
                parts.append(f"SELECT {_written(end)} AS value, {numbers} {rows}")
        frequent = rank(self._connection, " UNION ALL ".join(parts))
        if not _is_text(pair):
            return frequent
        # only the first ones are here
        distinct = first_row(
            self._connection,
            f"SELECT coalesce(max(values_b), 0), coalesce(max(values_a), 0) FROM valued WHERE place = {pair.index}",
        )
        return replace(frequent, distinct=dict(zip("ba", distinct, strict=True)))

    # --- Spark's answers ---

    def _distinct(self, side: str, columns: Sequence[ScanColumn], *, is_exact: bool) -> dict[str, int]:
        counts: dict[str, int] = {}
        for start in range(0, len(columns), _DISTINCT_AT_ONCE):
            tests = []
            for column in columns[start : start + _DISTINCT_AT_ONCE]:
                value = groupable(column.field.type, F.col(column.alias))
                number = F.count_distinct(value) if is_exact else F.approx_count_distinct(value, _ERROR)
                tests.append(number.alias(column.alias))
            counts |= self._single_row(self._frame(side).agg(*tests))
        return counts

    def _single_row(self, frame: DataFrame) -> dict[str, Any]:
        with _measuring():
            rows = [row for batch in self._fetch(frame) for row in batch.to_pylist()]
        return dict(rows[0])

    def _store(self, table: str, columns: Sequence[str], frame: DataFrame) -> None:
        """Put an answer into a table of this process, which spills what memory does not hold."""
        connection = self._connection
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        verb = f"CREATE TEMP TABLE {table} AS"
        with _measuring():
            for batch in self._fetch(frame):
                connection.register(_BATCH, batch)
                connection.execute(f"{verb} SELECT {', '.join(columns)} FROM {_BATCH}")
                connection.unregister(_BATCH)
                verb = f"INSERT INTO {table}"

    def _fields(self, side: str) -> dict[str, Field]:
        return {column.alias: column.field for column in scan_columns(self._pairs, side)}


@contextmanager
def _measuring() -> Iterator[None]:
    try:
        yield
    except (PySparkException, grpc.RpcError) as error:
        raise MeasuringError(" ".join(str(error).split())) from error


# --- SQL of one column, for Spark ------------------------------------------------------------------


def _plain(field: Field, value: str) -> str:
    """Return SQL as `axes.plain` does: a float that is NaN or infinite is NULL."""
    return f"CASE WHEN abs({value}) < double('Infinity') THEN {value} END" if is_float(field) else value


def _is_whole(field: Field) -> bool:
    return axis_kind(field.type) == "time" or (isinstance(field.type, Primitive) and field.type.is_integer)


def _axis(field: Field, value: str) -> str:
    """Return SQL as `axes.plain_axis` does: a whole number, microseconds, or a double."""
    assert isinstance(field.type, Primitive)  # noqa: S101 - the caller has asked for the axis's kind
    if field.type.name == "date":
        return f"unix_date({value}) * {_DAY}L"
    if axis_kind(field.type) == "time":
        return f"unix_micros(CAST({value} AS TIMESTAMP))"
    return f"CAST({_plain(field, value)} AS {'BIGINT' if field.type.is_integer else 'DOUBLE'})"


def _total(scale: Scale | None, axis: str) -> str:
    """Return SQL of the sum as `HereMeasured.totals` has it; one of longs could overflow."""
    if scale is not None:
        first, second = scale.factors
        axis = f"floor({axis} * double('{first!r}') * double('{second!r}'))"
    return f"sum(CAST({axis} AS DECIMAL(20,0)))"


def _rank(percent: int, count: int) -> int:
    return max(1, -(-percent * count // 100))


def _windows(near: Sequence[float] | None, *, is_whole: bool) -> list[tuple[float, float]]:
    """Return between which values the quantiles lie, in their order and apart."""

    def widened(value: float, direction: int) -> int:
        # the sketch makes doubles of whole numbers
        return min(_MOST, max(-_MOST - 1, int(value) + direction * (abs(int(value)) >> 50)))

    windows: list[tuple[float, float]] = []
    for low, high in zip((near or [])[::2], (near or [])[1::2], strict=True):
        ends = (widened(low, -1), widened(high, 1)) if is_whole else (low, high)
        if windows and ends[0] <= windows[-1][1]:
            windows[-1] = windows[-1][0], max(ends[1], windows[-1][1])
        else:
            windows.append(ends)
    return windows


def _placed(place: int, name: str, bins: Bins, windows: Sequence[tuple[float, float]], *, is_whole: bool) -> str:
    """Return SQL of a value's place: its bin, and the even number of a gap between windows or the odd of its window."""
    kind = "bigint" if is_whole else "double"
    tests = "".join(
        f" WHEN {name} < {kind}('{low!r}') THEN {2 * number} WHEN {name} <= {kind}('{high!r}') THEN {2 * number + 1}"
        for number, (low, high) in enumerate(windows)
    )
    slot = f"CASE{tests} ELSE {2 * len(windows)} END" if tests else "0"
    whole, fraction = (name, "CAST(NULL AS DOUBLE)") if is_whole else ("CAST(NULL AS BIGINT)", name)
    return (
        f"named_struct('place', {place}, 'bin', CASE WHEN {name} IS NOT NULL THEN {_bin(bins, name)} END, 'slot', {slot}, "
        f"'whole', CASE WHEN ({slot}) % 2 = 1 THEN {whole} END, 'fraction', CASE WHEN ({slot}) % 2 = 1 THEN {fraction} END)"
    )


def _bin(bins: Bins, value: str) -> str:
    """Return SQL as `Bins.index` does."""
    if bins.is_whole:
        kind = "BIGINT" if bins.fits_bigint else "DECIMAL(20,0)"
        low, width = (f"CAST('{number}' AS {kind})" for number in (bins.low, bins.width))
        return f"CAST((CAST({value} AS {kind}) - {low}) div {width} AS INT)"
    scaled = f"floor((CAST({value} AS DOUBLE) - double('{bins.low!r}')) / double('{bins.width!r}'))"
    return f"CAST(least({bins.count - 1}, greatest(0, {scaled})) AS INT)"


# --- values as text -------------------------------------------------------------------------------


def _is_text(pair: Pair) -> bool:
    """Return whether Spark writes the values of both ends as this process does."""
    ends = (end.type for end in (pair.before, pair.after) if end is not None)
    return all(isinstance(type_, Primitive) and (type_.name in _AS_TEXT or type_.is_bytes) for type_ in ends)


def _text(field: Field, value: str) -> str:
    """Return SQL of a value as text which `_written` reads, for Spark."""
    if isinstance(field.type, Primitive) and field.type.is_bytes:
        # Spark breaks the lines of what is long
        return f"replace(base64({value}), '\\r\\n', '')"
    return f"CAST({_axis(field, value) if axis_kind(field.type) == 'time' else value} AS STRING)"


def _written(field: Field) -> str:
    """Return SQL of the text that this process writes of such a value."""
    assert isinstance(field.type, Primitive)  # noqa: S101 - others have no frequent values
    if field.type.name in _AS_TEXT or field.type.is_bytes:
        return "value"
    type_ = duckdb_type(field.type)
    if axis_kind(field.type) == "time":
        return text(field.type, f"CAST(make_timestamp(CAST(value AS BIGINT)) AS {type_})")
    return text(field.type, f"CAST(value AS {type_})")
