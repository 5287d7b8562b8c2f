"""What statistics ask of the rows of both ends, and the answers of this process.

Queries are written for speed as measured: CASE inside an aggregate instead of FILTER (4 times), GROUP BY per column
instead of `histogram` (2 times).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from jobs.engine.measure.axes import plain, plain_axis
from jobs.engine.plan.columns import scan_columns, text
from jobs.engine.read.connections import first_row
from jobs.engine.read.fields import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import duckdb

    from jobs.engine.measure.axes import Bins, Scale
    from jobs.engine.plan.columns import Pair
    from jobs.engine.read.fields import Field
    from jobs.engine.read.scan import ScanColumn

EXACT_DISTINCT_CELLS = 20_000_000
"""Up to this many values of an end, in rows of up to `EXACT_DISTINCT_ROWS`, distinct ones are counted, else estimated."""
EXACT_DISTINCT_ROWS = 500_000
EXACT_QUANTILE_ROWS = 10_000_000
"""Up to this many rows of an end quantiles are those of all its values, else of about `SAMPLE` of them."""
SAMPLE = 20_000
TOP_VALUES = 10
QUANTILES = (5, 25, 50, 75, 95)
_QUANTILE_BYTES = 32
"""What a value takes while a quantile is found, at most."""
_CELLS_AT_ONCE = 2_000_000
"""Values that one query may hold in memory."""


@dataclass(frozen=True)
class Spread:
    """How the values of one column lie on its axis."""

    quantiles: Sequence[Any] | None
    histogram: Mapping[int, int]
    """The number of values by bin."""
    is_exact: bool = True
    """Whether the quantiles are those of all values."""


@dataclass(frozen=True)
class Frequent:
    """The most frequent values of one column, as text, with their numbers before and after."""

    top: Sequence[tuple[str, int, int]]
    distinct: Mapping[str, int]
    """How many values there are, by end."""


class MeasuringError(Exception):
    """The rows cannot be measured where that was tried."""


class Measured(Protocol):
    """The rows of both ends that are measured together."""

    row_limit: int
    """Up to this many rows at both ends together all are read, beyond it only those that changed."""

    def count(self, side: str) -> int:
        """Count the rows of one end."""

    def summarize(self, side: str, columns: Sequence[ScanColumn], *, is_exact: bool) -> str:
        """Return SQL of one row, of each column `<alias>_count`, without NULL, and `<alias>_distinct`.

        What has extremes also has `<alias>_min` and `<alias>_max`, floats have `<alias>_finite`.
        """

    def spread(
        self, side: str, bins: Mapping[str, Bins], scales: Mapping[str, Scale | None]
    ) -> tuple[dict[str, int], dict[str, Spread]]:
        """Return the sums of some columns, as whole numbers (without a scale they are), and how those in `bins` lie."""

    def frequent(self, pairs: Sequence[Pair]) -> dict[int, Frequent]:
        """Return the most frequent values of both ends together, by the index of the column."""


def has_extremes(field: Field) -> bool:
    """Return whether a smallest and a largest value say something."""
    return isinstance(field.type, Primitive) and field.type.name not in {"boolean", "unknown"}


def is_float(field: Field) -> bool:
    """Return whether values may have no place on their axis."""
    return isinstance(field.type, Primitive) and field.type.is_float


def asked_pairs(pairs: Iterable[Pair], side: str, same: frozenset[int]) -> list[Pair]:
    """List the columns that are measured at one end: of those that are the same at both ends it is known from before."""
    return [pair for pair in pairs if side == "b" or pair.index not in same]


@dataclass
class HereMeasured:
    """Rows that this process reads."""

    row_limit = 2_000_000
    cell_limit = 100_000_000
    """Rows of few columns may be more: so many values take some ten seconds."""
    connection: duckdb.DuckDBPyConnection
    pairs: Sequence[Pair]
    memory_bytes: int
    sources: Mapping[str, str]
    """What follows FROM, without a star: expanding a thousand columns for each question is what would cost."""
    same: frozenset[int]
    """Columns that have the same values at both ends; the one after need not have them."""
    _counts: dict[str, int] = field(default_factory=dict)

    def count(self, side: str) -> int:
        if side not in self._counts:
            self._counts[side] = int(first_row(self.connection, f"SELECT count(*) FROM {self.sources[side]}")[0])
        return self._counts[side]

    def summarize(self, side: str, columns: Sequence[ScanColumn], *, is_exact: bool) -> str:
        outputs = []
        for column in columns:
            name, field = column.alias, column.field
            number = self._distinct(side, name, len(columns)) if is_exact else _estimate(field, name)
            outputs += [f"count({name}) AS {name}_count", f"{number} AS {name}_distinct"]
            if has_extremes(field):
                outputs += [f"{end}({plain(field, name)}) AS {name}_{end}" for end in ("min", "max")]
            if is_float(field):
                outputs.append(f"count({plain(field, name)}) AS {name}_finite")
        return f"SELECT {', '.join(outputs)} FROM {self.sources[side]}"

    def _distinct(self, side: str, name: str, columns: int) -> str:
        if self.count(side) * columns <= _CELLS_AT_ONCE:
            # a thousand small queries would take seconds
            return f"coalesce(len(list_distinct(list({name}))), 0)"
        groups = f"SELECT {name} FROM {self.sources[side]} GROUP BY {name}"
        return str(first_row(self.connection, f"SELECT count({name}) FROM ({groups})")[0])

    def spread(
        self, side: str, bins: Mapping[str, Bins], scales: Mapping[str, Scale | None]
    ) -> tuple[dict[str, int], dict[str, Spread]]:
        fields = {column.alias: column.field for column in scan_columns(self.pairs, side)}
        axes = {name: plain_axis(fields[name], name) for name in {**bins, **scales}}
        quantiles = self._quantiles(side, {name: axes[name] for name in bins})
        is_exact = self._has_exact_quantiles(side)
        spreads = {
            name: Spread(quantiles[name], self._histogram(side, axes[name], column_bins), is_exact=is_exact)
            for name, column_bins in bins.items()
        }
        return self._totals(side, axes, scales), spreads

    def _totals(self, side: str, axes: Mapping[str, str], scales: Mapping[str, Scale | None]) -> dict[str, int]:
        if not scales:
            return {}
        wholes = (axes[name] if scale is None else scale.whole(axes[name]) for name, scale in scales.items())
        tests = ", ".join(f"sum({whole})" for whole in wholes)
        row = first_row(self.connection, f"SELECT {tests} FROM {self.sources[side]}")
        return dict(zip(scales, map(int, row), strict=True))

    def _histogram(self, side: str, axis: str, bins: Bins) -> dict[int, int]:
        placed = f"SELECT {axis} AS axis FROM {self.sources[side]}"
        binned = f"SELECT {bins.index('axis')} AS bin FROM ({placed}) WHERE axis IS NOT NULL"
        return dict(self.connection.execute(f"SELECT bin, count(*) FROM ({binned}) GROUP BY bin").fetchall())

    def _quantiles(self, side: str, axes: Mapping[str, str]) -> dict[str, Any]:
        shares = ", ".join(f"{percent / 100}" for percent in QUANTILES)
        rows, names = self._sample(side, axes), list(axes)
        # each holds its values in memory
        step = max(1, _CELLS_AT_ONCE // max(1, self.count(side)))
        quantiles: dict[str, Any] = {}
        for group in (names[start : start + step] for start in range(0, len(names), step)):
            tests = ", ".join(f"quantile_disc({axes[name]}, [{shares}])" for name in group)
            quantiles |= dict(zip(group, first_row(self.connection, f"SELECT {tests} FROM {rows}"), strict=True))
        return quantiles

    def _has_exact_quantiles(self, side: str) -> bool:
        return self.count(side) <= min(EXACT_QUANTILE_ROWS, self.memory_bytes // _QUANTILE_BYTES)

    def _sample(self, side: str, names: Iterable[str]) -> str:
        """Return all rows, or of too many those that a hash chooses: the same ones in any order of storage."""
        rows = self.count(side)
        if self._has_exact_quantiles(side):
            return self.sources[side]
        values = ", ".join(column.alias for column in scan_columns(asked_pairs(self.pairs, side, self.same), side))
        outputs = f"{', '.join(names)}, hash({values}) AS chosen"
        return f"(SELECT {outputs} FROM {self.sources[side]}) WHERE chosen % {max(1, rows // SAMPLE)} = 0"

    def frequent(self, pairs: Sequence[Pair]) -> dict[int, Frequent]:
        return {pair.index: rank(self.connection, " UNION ALL ".join(self._counted(pair))) for pair in pairs}

    def _counted(self, pair: Pair) -> Iterator[str]:
        """Yield SQL of the values of a column, with what each counts before and after."""
        is_same = pair.index in self.same
        for side, end in (("b", pair.before), ("a", pair.after)):
            if end is not None and not (is_same and side == "a"):
                before, after = int(is_same or side == "b"), int(is_same or side == "a")
                value = text(end.type, f"{side}{pair.index}")
                yield f"SELECT {value} AS value, {before} AS before, {after} AS after FROM {self.sources[side]}"


def rank(connection: duckdb.DuckDBPyConnection, values: str) -> Frequent:
    """Return the most frequent of many values, each with what it counts before and after."""
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE frequent AS SELECT value, sum(before)::BIGINT AS before, "
        f"sum(after)::BIGINT AS after FROM ({values}) WHERE value IS NOT NULL GROUP BY value"
    )
    # not as window functions beside the rows: those cost the square of the values
    distinct = first_row(connection, "SELECT count(*) FILTER (before > 0), count(*) FILTER (after > 0) FROM frequent")
    top = connection.execute(
        f"SELECT value, before, after FROM frequent ORDER BY before + after DESC, value LIMIT {TOP_VALUES}"
    ).fetchall()
    return Frequent(top, dict(zip("ba", distinct, strict=True)))


def _estimate(field: Field, value: str) -> str:
    # only primitive types have an estimator of their own
    hashed = f"CASE WHEN {value} IS NOT NULL THEN hash({value}) END"
    return f"approx_count_distinct({value if isinstance(field.type, Primitive) else hashed})"
