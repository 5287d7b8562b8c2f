"""Each column in numbers at both ends: over the whole table where that is affordable, and over the changed rows.

Counts, nulls, smallest, largest, mean and histograms are exact. Quantiles come from a sample where `quantiles_exact` is
false, and the number of distinct values is an estimate where `distinct_exact` is. Both ends share the bins of a histogram
and the list of top values, so that a page can draw them side by side.

Nothing here depends on the order in which rows come, so that whoever counts them finds the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.engine.measure.axes import Scale, axis, axis_kind, bins_between
from jobs.engine.measure.measured import (
    EXACT_DISTINCT_CELLS,
    EXACT_DISTINCT_ROWS,
    QUANTILES,
    HereMeasured,
    MeasuringError,
    asked_pairs,
    has_extremes,
)
from jobs.engine.plan.columns import scan_columns, text
from jobs.engine.read.connections import first_row
from jobs.engine.read.fields import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import duckdb

    from jobs.engine.measure.axes import Bins
    from jobs.engine.measure.measured import Frequent, Measured, Spread
    from jobs.engine.plan.columns import Pair
    from jobs.engine.plan.diff_rules import DiffRules
    from jobs.engine.read.fields import Field
    from jobs.engine.read.scan import ScanColumn

VERSION = 1
DETAILED_COLUMNS = 100
"""Columns with a histogram or top values, the most changed first: a wide table must not take minutes."""
_MOST_TOP_DISTINCT = 100_000
_LONGEST = 200
_SAFE_INTEGER = 2**53


@dataclass(frozen=True)
class Measurable:
    """The two ends of a diff, as far as their columns are to be measured."""

    connection: duckdb.DuckDBPyConnection
    """That of the table `changes`."""
    rules: DiffRules
    memory_bytes: int
    whole: Callable[[str, Iterable[Pair]], str]
    """SQL of every row of one end, with some of its columns."""
    elsewhere: Measured | None
    """All rows of both ends where another executor can measure them."""

    def measured_here(self, sources: Mapping[str, str], same: frozenset[int]) -> HereMeasured:
        """Measure the rows of both ends that this process reads from some relations."""
        return HereMeasured(self.connection, self.rules.pairs, self.memory_bytes, sources, same)


@dataclass(frozen=True)
class _ChosenColumns:
    """What is asked of which columns, by their indexes."""

    detailed: frozenset[int]
    """Columns that get a histogram or top values; the others only what one pass over all columns gives."""
    same: frozenset[int]
    """Columns that have the same values at both ends: asked of one."""


def collect(ends: Measurable, summary: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the content of statistics.json, and what went wrong in sentences; `summary` is that of summary.json.

    Where every row changed the whole table is measured by them, without reading it again.
    """
    changed_first = sorted(summary["columns"], key=lambda match: (-(match["changed"] or 0), match["index"]))
    detailed = frozenset(match["index"] for match in changed_first[:DETAILED_COLUMNS])
    chosen = _ChosenColumns(detailed, _same_columns(ends.rules, summary))
    rows = summary["before_rows"] + summary["after_rows"]
    table, warnings = _measure_table(ends, chosen, rows) if summary["unchanged"] else (None, [])
    sources = _changed_rows(ends.connection)
    changed = _Scope(ends, chosen, ends.measured_here(sources, chosen.same)).measure()
    table = table if summary["unchanged"] else changed
    scopes = {"changed": changed} if table is None else {"table": table, "changed": changed}
    return {"version": VERSION, "table_is_measured": table is not None, "scopes": scopes}, warnings


def _same_columns(rules: DiffRules, summary: Mapping[str, Any]) -> frozenset[int]:
    """Return the columns that have the same values at both ends as often: what is known of one end holds for the other.

    So it is where rows were only updated, in other columns.
    """
    if summary["inserted"] or summary["deleted"]:
        return frozenset()
    differing = {match["index"] for match in summary["columns"] if match["changed"]}
    return frozenset(pair.index for pair in rules.unchanged_pairs(differing))


def _measure_table(ends: Measurable, chosen: _ChosenColumns, rows: int) -> tuple[dict[str, Any] | None, list[str]]:
    """Measure all rows of both ends, where whoever compared them can afford it, and say what went wrong."""
    warnings = []
    if ends.elsewhere is not None and rows <= ends.elsewhere.row_limit:
        try:
            return _Scope(ends, chosen, ends.elsewhere).measure(), []
        except MeasuringError as error:
            warnings.append(f"Spark compared the rows and could not measure them: {_encode(str(error))}")
    if rows > max(HereMeasured.row_limit, HereMeasured.cell_limit // max(1, len(ends.rules.pairs))):
        return None, warnings
    sources = {side: _load_table(ends, side, chosen.same) for side in "ba"}
    return _Scope(ends, chosen, ends.measured_here(sources, chosen.same)).measure(), warnings


def _load_table(ends: Measurable, side: str, same: frozenset[int]) -> str:
    """Load all rows of one end, decoded once: every column is asked several questions."""
    rows = ends.whole(side, asked_pairs(ends.rules.pairs, side, same))
    ends.connection.execute(f"CREATE TEMP TABLE all_{side} AS {rows}")
    return f"all_{side}"


def _changed_rows(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the rows of each end that are in the diff, as often as they are there."""
    copies = first_row(connection, "SELECT coalesce(max(copies), 1) FROM changes")[0]
    source = "changes" if copies == 1 else "changes c, range(c.copies)"
    return {"b": f"{source} WHERE change <> 'inserted'", "a": f"{source} WHERE change <> 'deleted'"}


@dataclass(frozen=True)
class _Scope:
    """The rows of both ends that are measured together."""

    ends: Measurable
    chosen: _ChosenColumns
    rows: Measured

    @property
    def _pairs(self) -> tuple[Pair, ...]:
        return self.ends.rules.pairs

    def _asked_columns(self, side: str) -> list[ScanColumn]:
        return scan_columns(asked_pairs(self._pairs, side, self.chosen.same), side)

    def measure(self) -> dict[str, Any]:
        basics = {side: self._basics(side) for side in "ba"}
        basics["a"] |= self._repeated(basics["b"])
        bins = {pair.index: column_bins for pair in self._pairs if (column_bins := self._bins(pair, basics))}
        spread = {side: self._spread(side, bins, basics[side]) for side in "ba"}
        basics["a"] |= self._repeated(basics["b"])
        spread["a"] |= self._repeated(spread["b"])
        sides = {pair.index: {side: self._side(pair, side, basics[side]) for side in "ba"} for pair in self._pairs}
        frequent = self.rows.frequent(
            [
                pair
                for pair in self._pairs
                if pair.index in self.chosen.detailed - bins.keys() and _has_top_values(pair, sides[pair.index])
            ]
        )
        columns = []
        for pair in self._pairs:
            ends = sides[pair.index]
            entry: dict[str, Any] = {"index": pair.index, "name": pair.name, "before": ends["b"], "after": ends["a"]}
            if pair.index in bins:
                entry["bins"] = _edges(pair, bins[pair.index])
                _add_spread(pair, bins[pair.index], ends, spread)
            elif pair.index in frequent:
                _add_top_values(entry, ends, frequent[pair.index])
            columns.append(entry)
        return {"rows": {"before": basics["b"]["rows"], "after": basics["a"]["rows"]}, "columns": columns}

    def _repeated(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is known of the end before, and so of the one after, by the names there."""
        names = {f"b{index}" for index in self.chosen.same}
        return {f"a{name[1:]}": measure for name, measure in before.items() if name.partition("_")[0] in names}

    def _basics(self, side: str) -> dict[str, Any]:
        """Return what every column has, under the names `<alias>_nulls` and so on."""
        rows, columns = self.rows.count(side), self._asked_columns(side)
        is_exact = rows <= EXACT_DISTINCT_ROWS and rows * len(scan_columns(self._pairs, side)) <= EXACT_DISTINCT_CELLS
        basics: dict[str, Any] = {"rows": rows, "distinct_exact": is_exact}
        if columns:
            tests = dict(test for column in columns for test in _basic_tests(column.field, column.alias, rows))
            summary = self.rows.summarize(side, columns, is_exact=is_exact)
            row = first_row(self.ends.connection, f"SELECT {', '.join(tests.values())} FROM ({summary})")
            basics |= dict(zip(tests, row, strict=True))
        return basics

    def _scales(self, side: str, basics: Mapping[str, Any]) -> dict[str, Scale | None]:
        """Return how the numbers of one end are made whole to be added; those without a scale are."""
        scales: dict[str, Scale | None] = {}
        for column in self._asked_columns(side):
            low = basics.get(f"{column.alias}_low")
            if low is not None and axis_kind(column.field.type) == "number":
                is_whole = isinstance(low, int)
                scales[column.alias] = None if is_whole else Scale.of(low, basics[f"{column.alias}_high"])
        return scales

    def _bins(self, pair: Pair, basics: dict[str, dict[str, Any]]) -> Bins | None:
        if pair.index not in self.chosen.detailed:
            return None
        sides = [field.type for field in (pair.before, pair.after) if field is not None]
        kinds = {axis_kind(side) for side in sides}
        if len(kinds) != 1 or None in kinds:
            return None
        ends = [basics[side].get(f"{side}{pair.index}_{end}") for side in "ba" for end in ("low", "high")]
        extremes = [value for value in ends if value is not None]
        return bins_between(extremes) if extremes else None

    def _spread(self, side: str, bins: Mapping[int, Bins], basics: dict[str, Any]) -> dict[str, Spread]:
        """Return how values lie on their axes; add the means to the basics."""
        names = {column.alias: int(column.alias[1:]) for column in self._asked_columns(side)}
        scales = self._scales(side, basics)
        chosen = {name: bins[index] for name, index in names.items() if index in bins}
        totals, spread = self.rows.spread(side, chosen, scales)
        for name, total in totals.items():
            count = basics.get(f"{name}_finite", basics["rows"] - basics[f"{name}_nulls"])
            scale = scales[name]
            basics[f"{name}_mean"] = total / count if scale is None else scale.mean(total, count)
        return spread

    def _side(self, pair: Pair, side: str, basics: dict[str, Any]) -> dict[str, Any] | None:
        if pair.end(side) is None or pair.unreadable:
            return None
        value = f"{side}{pair.index}"
        rows, nulls = basics["rows"], basics[f"{value}_nulls"]
        measures: dict[str, Any] = {
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
            measures["not_finite"] = rows - nulls - basics[f"{value}_finite"]
        return measures


def _has_top_values(pair: Pair, sides: Mapping[str, dict[str, Any] | None]) -> bool:
    fields = [field for field in (pair.before, pair.after) if field is not None]
    if pair.unreadable or not all(isinstance(field.type, Primitive) for field in fields):
        return False
    # a column of nearly unique values has no top values worth the sorting
    return all(side is None or side["distinct"] <= _MOST_TOP_DISTINCT for side in sides.values())


def _add_spread(
    pair: Pair, bins: Bins, sides: Mapping[str, dict[str, Any] | None], spread: Mapping[str, Mapping[str, Spread]]
) -> None:
    """Add the quantiles and the histogram of one column that has an axis."""
    for side, figures in sides.items():
        end = pair.end(side)
        if figures is not None and end is not None:
            column_spread = spread[side][f"{side}{pair.index}"]
            histogram = [column_spread.histogram.get(index, 0) for index in range(bins.count)]
            figures.update(_quantiles(end, column_spread), histogram=histogram)


def _add_top_values(entry: dict[str, Any], sides: Mapping[str, dict[str, Any] | None], frequent: Frequent) -> None:
    """Add the most frequent values of both ends, and the exact number of distinct ones."""
    entry["top"] = [
        {"value": _encode(value), "before": before, "after": after} for value, before, after in frequent.top
    ]
    for side, figures in sides.items():
        if figures is not None:
            figures.update(distinct=frequent.distinct[side], distinct_exact=True)


def _basic_tests(field: Field, value: str, rows: int) -> Iterator[tuple[str, str]]:
    """Yield as SQL what is made of the summary of one column."""
    yield f"{value}_nulls", f"{rows} - {value}_count"
    yield f"{value}_distinct", f"{value}_distinct"
    if not has_extremes(field) or not isinstance(field.type, Primitive):
        return
    for name, end in (("min", "low"), ("max", "high")):
        extreme = f"{value}_{name}"
        # numbers stay numbers; everything else is written as text
        yield extreme, extreme if field.type.is_integer or field.type.is_float else text(field.type, extreme)
        if axis_kind(field.type) is not None:
            yield f"{value}_{end}", axis(field, extreme)
    if field.type.is_float:
        yield f"{value}_finite", f"{value}_finite"


def _edges(pair: Pair, bins: Bins) -> dict[str, Any]:
    field = pair.after or pair.before
    assert field is not None  # noqa: S101 - a pair has at least one side
    is_time = axis_kind(field.type) == "time"
    return {"kind": "time" if is_time else "number", "edges": bins.edges, "unit": "us" if is_time else None}


def _quantiles(end: Field, spread: Spread) -> dict[str, Any]:
    values = [None] * len(QUANTILES) if spread.quantiles is None else [_encode(value) for value in spread.quantiles]
    unit = "us" if axis_kind(end.type) == "time" else None
    names = (f"p{percent}" for percent in QUANTILES)
    return {
        "quantiles": dict(zip(names, values, strict=True)),
        "quantiles_unit": unit,
        "quantiles_exact": spread.quantiles is None or spread.is_exact,
    }


def _encode(value: Any) -> Any:
    """Return a value as JSON holds it: large integers, NaN and infinities as text, long text cut."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _SAFE_INTEGER else str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        # zero has one sign
        return value + 0.0 if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, str) and len(value) > _LONGEST:
        return value[: _LONGEST - 1] + "…"
    return str(value)
