"""Each column in numbers at both ends: over the whole table where that is affordable, and over the changed rows.

Counts, nulls, smallest, largest, mean and histograms are exact. Quantiles come from a sample of `SAMPLE` rows where there
are more, and the number of distinct values is an estimate where `distinct_exact` is false. Both ends share the bins of
a histogram and the list of top values, so that a page can draw them side by side.

Every query is written for speed as measured: CASE inside an aggregate instead of FILTER (4 times), exact quantiles of
a sample instead of `approx_quantile` of all (9 times), GROUP BY per column instead of `histogram` (2 times).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.engine.columns import text
from jobs.engine.fields import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobs.engine.columns import Pair
    from jobs.engine.duckdb import Embedded
    from jobs.engine.fields import Field

VERSION = 1
TABLE_ROWS = 2_000_000
"""Up to this many rows at both ends together the whole table is read, beyond it only the changed rows."""
DETAILED_COLUMNS = 100
"""Columns with a histogram or top values, the most changed first: a wide table must not take minutes."""
BINS = 24
TOP_VALUES = 10
SAMPLE = 20_000
_EXACT_DISTINCT_ROWS = 500_000
_MOST_TOP_DISTINCT = 100_000
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_LONGEST = 200
_SAFE_INTEGER = 2**53
_BEYOND_BIGINT = 2**63
_TIMES = {"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}


@dataclass(frozen=True)
class Bins:
    """Equal bins from `low`: of whole numbers (and microseconds) or of doubles."""

    low: float
    width: float
    count: int
    is_whole: bool

    def index(self, axis: str) -> str:
        """SQL of the bin of a value."""
        if self.is_whole:
            # the wider type costs ten times as much
            kind = "BIGINT" if self.width * self.count < _BEYOND_BIGINT else "HUGEINT"
            return f"CAST((CAST({axis} AS {kind}) - ({self.low})::{kind}) // ({self.width})::{kind} AS INTEGER)"
        scaled = f"CAST(floor(({axis} - ({self.low!r})::DOUBLE) / ({self.width!r})::DOUBLE) AS INTEGER)"
        return f"least({self.count - 1}, greatest(0, {scaled}))"

    @property
    def edges(self) -> list[float]:
        return [self.low + self.width * index for index in range(self.count + 1)]


def collect(diff: Embedded, *, rows: int, matches: list[dict[str, Any]]) -> dict[str, Any]:
    """The content of statistics.json; `rows` counts both ends together, `matches` the changed cells per column."""
    changed_first = sorted(matches, key=lambda match: (-(match["changed"] or 0), match["index"]))
    detailed = frozenset(match["index"] for match in changed_first[:DETAILED_COLUMNS])
    scopes = {}
    if rows <= TABLE_ROWS:
        scopes["table"] = _Scope(diff, {side: _load_table(diff, side) for side in "ba"}, detailed).measure()
    scopes["changed"] = _Scope(diff, _changed_rows(diff), detailed).measure()
    return {"version": VERSION, "table_is_measured": "table" in scopes, "table_row_limit": TABLE_ROWS, "scopes": scopes}


def _load_table(diff: Embedded, side: str) -> str:
    """All rows of one end, decoded once: every column is asked several questions."""
    diff.connection.execute(f"CREATE TEMP TABLE all_{side} AS {diff.whole(side, diff.plan.pairs)}")
    return f"all_{side}"


def _changed_rows(diff: Embedded) -> dict[str, str]:
    """The rows of each end that are in the diff, as often as they are there."""
    copies = diff.one("SELECT coalesce(max(copies), 1) FROM changes")[0]
    source = "changes" if copies == 1 else "changes c, range(c.copies)"
    return {"b": f"{source} WHERE change <> 'inserted'", "a": f"{source} WHERE change <> 'deleted'"}


@dataclass
class _Scope:
    """The rows of both ends that are measured together."""

    diff: Embedded
    sources: dict[str, str]
    """What follows FROM, without a star: expanding a thousand columns for each question is what would cost."""
    detailed: frozenset[int]
    """Columns that get a histogram or top values; the others only what one pass over all columns gives."""

    def measure(self) -> dict[str, Any]:
        basics = {side: self._basics(side) for side in "ba"}
        bins = {pair.index: found for pair in self.diff.plan.pairs if (found := self._bins(pair, basics))}
        quantiles = {side: self._quantiles(side, basics[side]["rows"], bins) for side in "ba"}
        columns = []
        for pair in self.diff.plan.pairs:
            sides = {side: self._side(pair, side, basics[side]) for side in "ba"}
            entry: dict[str, Any] = {"index": pair.index, "name": pair.name, "before": sides["b"], "after": sides["a"]}
            if pair.index in bins:
                entry["bins"] = _edges(pair, bins[pair.index])
                self._add_spread(pair, bins[pair.index], sides, quantiles)
            elif pair.index in self.detailed and self._has_top_values(pair, sides):
                self._add_top_values(pair, entry, sides)
            columns.append(entry)
        return {"rows": {"before": basics["b"]["rows"], "after": basics["a"]["rows"]}, "columns": columns}

    def _fields(self, side: str) -> Iterator[tuple[Pair, Field, str]]:
        for column in self.diff.columns(side):
            yield self.diff.plan.pairs[int(column.alias[1:])], column.field, column.alias

    def _basics(self, side: str) -> dict[str, Any]:
        rows = self.diff.one(f"SELECT count(*) FROM {self.sources[side]}")[0]
        is_exact = rows <= _EXACT_DISTINCT_ROWS and len(self.diff.plan.pairs) <= DETAILED_COLUMNS
        basics: dict[str, Any] = {"rows": rows, "distinct_exact": is_exact}
        names, tests = [], []
        for _pair, found, value in self._fields(side):
            for name, test in _basic_tests(found, value, is_exact=is_exact):
                names.append(f"{value}_{name}")
                tests.append(test)
        if tests:
            row = self.diff.one(f"SELECT {', '.join(tests)} FROM {self.sources[side]}")
            basics |= dict(zip(names, row, strict=True))
        if is_exact:
            for _pair, _found, value in self._fields(side):
                groups = f"SELECT {value} FROM {self.sources[side]} GROUP BY {value}"
                basics[f"{value}_distinct"] = self.diff.one(f"SELECT count({value}) FROM ({groups})")[0]
        return basics

    def _bins(self, pair: Pair, basics: dict[str, dict[str, Any]]) -> Bins | None:
        if pair.index not in self.detailed:
            return None
        sides = [found.type for found in (pair.before, pair.after) if found is not None]
        kinds = {_axis_kind(side) for side in sides}
        if len(kinds) != 1 or None in kinds:
            return None
        ends = [basics[side].get(f"{side}{pair.index}_{end}") for side in "ba" for end in ("low", "high")]
        found = [value for value in ends if value is not None]
        if not found:
            return None
        is_whole = all(isinstance(value, int) for value in found)
        return _whole_bins(min(found), max(found)) if is_whole else _double_bins(min(found), max(found))

    def _quantiles(self, side: str, rows: int, bins: dict[int, Bins]) -> dict[str, Any]:
        fields = [(found, value) for pair, found, value in self._fields(side) if pair.index in bins]
        if not fields or not rows:
            return {}
        shares = ", ".join(map(str, _QUANTILES))
        sample = f" USING SAMPLE reservoir({SAMPLE} ROWS) REPEATABLE (1)" if rows > SAMPLE else ""
        outputs = ", ".join(f"{_plain_axis(found, value)} AS {value}" for found, value in fields)
        tests = ", ".join(f"quantile_disc({value}, [{shares}])" for _, value in fields)
        row = self.diff.one(f"SELECT {tests} FROM (SELECT * FROM (SELECT {outputs} FROM {self.sources[side]}){sample})")
        return dict(zip((value for _, value in fields), row, strict=True))

    def _add_spread(
        self, pair: Pair, bins: Bins, sides: dict[str, dict[str, Any] | None], quantiles: dict[str, dict[str, Any]]
    ) -> None:
        """Quantiles and histogram of one column that has an axis."""
        for side, found in (("b", pair.before), ("a", pair.after)):
            known = sides[side]
            if known is None or found is None:
                continue
            value = f"{side}{pair.index}"
            axis = _plain_axis(found, value)
            bin_rows = self.diff.connection.execute(
                f"SELECT bin, count(*) FROM (SELECT {bins.index('axis')} AS bin FROM "
                f"(SELECT {axis} AS axis FROM {self.sources[side]}) WHERE axis IS NOT NULL) GROUP BY bin"
            ).fetchall()
            counts = dict(bin_rows)
            known |= _spread(found, quantiles[side].get(value)) | {
                "histogram": [counts.get(index, 0) for index in range(bins.count)]
            }

    def _side(self, pair: Pair, side: str, basics: dict[str, Any]) -> dict[str, Any] | None:
        found = pair.before if side == "b" else pair.after
        if found is None or pair.unreadable:
            return None
        value = f"{side}{pair.index}"
        rows, nulls = basics["rows"], basics[f"{value}_nulls"]
        result: dict[str, Any] = {
            "rows": rows,
            "nulls": nulls,
            "null_share": nulls / rows if rows else None,
            "distinct": min(basics[f"{value}_distinct"], rows - nulls),
            "distinct_exact": basics["distinct_exact"],
            "min": _encode(basics.get(f"{value}_min")),
            "max": _encode(basics.get(f"{value}_max")),
            "mean": _encode(basics.get(f"{value}_mean")),
        }
        if f"{value}_finite" in basics:
            result["not_finite"] = rows - nulls - basics[f"{value}_finite"]
        return result

    @staticmethod
    def _has_top_values(pair: Pair, sides: dict[str, dict[str, Any] | None]) -> bool:
        fields = [found for found in (pair.before, pair.after) if found is not None]
        if pair.unreadable or not all(isinstance(found.type, Primitive) for found in fields):
            return False
        # a column of nearly unique values has no top values worth the sorting
        return all(side is None or side["distinct"] <= _MOST_TOP_DISTINCT for side in sides.values())

    def _add_top_values(self, pair: Pair, entry: dict[str, Any], sides: dict[str, dict[str, Any] | None]) -> None:
        """The most frequent values of both ends, counted at both, and the exact number of distinct ones."""
        parts = []
        for side, found in (("b", pair.before), ("a", pair.after)):
            if found is not None:
                weights = "1 AS before, 0 AS after" if side == "b" else "0 AS before, 1 AS after"
                value = text(found.type, f"{side}{pair.index}")
                parts.append(f"SELECT {value} AS value, {weights} FROM {self.sources[side]}")
        self.diff.connection.execute(
            "CREATE OR REPLACE TEMP TABLE frequent AS SELECT value, sum(before)::BIGINT AS before, "
            f"sum(after)::BIGINT AS after FROM ({' UNION ALL '.join(parts)}) WHERE value IS NOT NULL GROUP BY value"
        )
        # not as window functions beside the rows: those cost the square of the values
        distinct = self.diff.one("SELECT count(*) FILTER (before > 0), count(*) FILTER (after > 0) FROM frequent")
        rows = self.diff.connection.execute(
            f"SELECT value, before, after FROM frequent ORDER BY before + after DESC, value LIMIT {TOP_VALUES}"
        ).fetchall()
        entry["top"] = [{"value": _encode(row[0]), "before": row[1], "after": row[2]} for row in rows]
        for side, count in zip("ba", distinct, strict=True):
            known = sides[side]
            if known is not None:
                known |= {"distinct": count, "distinct_exact": True}


# --- SQL of one column ----------------------------------------------------------------------------


def _basic_tests(found: Field, value: str, *, is_exact: bool) -> Iterator[tuple[str, str]]:
    yield "nulls", f"count(*) - count({value})"
    is_primitive = isinstance(found.type, Primitive)
    if not is_exact:
        # only primitive types have an estimator of their own
        hashed = f"CASE WHEN {value} IS NOT NULL THEN hash({value}) END"
        yield "distinct", f"approx_count_distinct({value if is_primitive else hashed})"
    if not isinstance(found.type, Primitive) or found.type.name in {"boolean", "unknown"}:
        return
    plain = _plain(found, value)
    for name, end in (("min", "low"), ("max", "high")):
        extreme = f"{name}({plain})"
        # numbers stay numbers; everything else is written as text
        yield name, extreme if found.type.is_integer or found.type.is_float else text(found.type, extreme)
        if _axis_kind(found.type) is not None:
            yield end, _axis(found, extreme)
    if found.type.is_number:
        # a sum of 38 digits would overflow as a decimal
        yield "mean", f"avg(CAST({plain} AS DOUBLE))" if found.type.decimal else f"avg({plain})"
    if found.type.is_float:
        yield "finite", f"count({plain})"


def _plain(found: Field, value: str) -> str:
    """The value where it has a place on an axis: for floats neither NaN nor infinite, else NULL."""
    is_float = isinstance(found.type, Primitive) and found.type.is_float
    return f"CASE WHEN isfinite({value}) THEN {value} END" if is_float else value


def _plain_axis(found: Field, value: str) -> str:
    return _axis(found, _plain(found, value))


def _axis_kind(type_: Any) -> str | None:
    if not isinstance(type_, Primitive):
        return None
    if type_.is_number:
        return "number"
    return "time" if type_.name in _TIMES else None


def _axis(found: Field, value: str) -> str:
    """The place of a value on its axis: a whole number, microseconds, or a double."""
    assert isinstance(found.type, Primitive)  # noqa: S101 - the caller has asked for the axis's kind
    if found.type.is_integer:
        return value
    if found.type.is_number:
        return f"CAST({value} AS DOUBLE)"
    if found.type.name == "date":
        return f"epoch_us(CAST({value} AS TIMESTAMP))"
    return f"epoch_us({value})"


def _whole_bins(low: int, high: int) -> Bins:
    span = high - low + 1
    width = -(-span // BINS)
    return Bins(low, width, -(-span // width), is_whole=True)


def _double_bins(low: float, high: float) -> Bins | None:
    low, high = float(low), float(high)
    width = (high - low) / BINS
    if not math.isfinite(width):
        return None
    return (
        Bins(low, width, BINS, is_whole=False) if width > 0 and low + width > low else Bins(low, 1.0, 1, is_whole=False)
    )


def _edges(pair: Pair, bins: Bins) -> dict[str, Any]:
    found = pair.after or pair.before
    assert found is not None  # noqa: S101 - a pair has at least one side
    is_time = _axis_kind(found.type) == "time"
    return {"kind": "time" if is_time else "number", "edges": bins.edges, "unit": "us" if is_time else None}


def _spread(found: Field, quantiles: Sequence[Any] | None) -> dict[str, Any]:
    names = [f"p{round(share * 100)}" for share in _QUANTILES]
    values = [None] * len(names) if quantiles is None else [_encode(value) for value in quantiles]
    unit = "us" if _axis_kind(found.type) == "time" else None
    return {"quantiles": dict(zip(names, values, strict=True)), "quantiles_unit": unit}


def _encode(value: Any) -> Any:
    """A value as JSON holds it: large integers, NaN and infinities as text, long text cut."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _SAFE_INTEGER else str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, str) and len(value) > _LONGEST:
        return value[: _LONGEST - 1] + "…"
    return str(value)
