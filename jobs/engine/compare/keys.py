"""Keys of a diff: whether every end has them, and which have more than one row or a NULL.

Touched keys are looked up among the rows that the plan left out too, key columns only, so that the verdict does not
depend on how the table is laid out in files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.engine.compare.file_rows import NAMES
from jobs.engine.plan.columns import match_value, scan_columns
from jobs.engine.read.bounds import Range, Values, ordered_sql
from jobs.engine.read.connections import first_row
from jobs.engine.read.fields import Primitive
from jobs.engine.read.paths import explain_missing, field_parts, list_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb

    from jobs.engine.compare.compared_rows import ComparedRows
    from jobs.engine.compare.file_rows import FileRows
    from jobs.engine.plan.columns import Pair
    from jobs.engine.plan.planner import DiffPlan

Trouble = dict[str, Any]
"""What is wrong with a key, as the summary says it: its kind, the columns, what is known of each end, and a sentence."""
_EXAMPLES = 5
_FEW_KEYS = 10_000
"""Up to this many touched keys each file is asked for each of them."""


# --- keys that an end lacks -----------------------------------------------------------------------


def find_missing_keys(plan: DiffPlan) -> Trouble | None:
    """Find parts of the key that an end with rows lacks, or that cannot be compared."""
    rules = plan.rules
    unknown = [name for name, pair in rules.named_keys.items() if pair is None]
    lost: dict[str, list[str]] = {name: [] for name in NAMES.values()}
    for side in plan.sides_with_rows:
        lacking = (pair.name for pair in rules.key_pairs if pair.end(side) is None or pair.unreadable)
        lost[NAMES[side]] = [*unknown, *lacking]
    if not any(lost.values()):
        return None
    columns = sorted({name for names in lost.values() for name in names})
    where = " and ".join(side for side, names in lost.items() if names)
    listed, why = ", ".join(columns), _explain(unknown, plan)
    return {
        "kind": "missing",
        "columns": columns,
        "before": {"missing": lost["before"]},
        "after": {"missing": lost["after"]},
        "message": f"The key column {listed} is missing on the side {where}; shown without a key.{why}"
        if len(columns) == 1
        else f"The key columns {listed} are missing on the side {where}; shown without a key.{why}",
    }


def _explain(unknown: Iterable[str], plan: DiffPlan) -> str:
    """Say where names of the key that are none leave the columns."""
    schemas = (end.schema for end in (plan.after, plan.before) if end.schema is not None)
    paths = list_paths(next(schemas).fields, field_parts)
    sentences = dict.fromkeys(explain_missing(name, paths) for name in unknown)
    return "".join(f" {sentence}" for sentence in sentences if sentence)


# --- keys of changed rows -------------------------------------------------------------------------


@dataclass(frozen=True)
class TouchedKeys:
    """The distinct keys of changed rows, in the table `touched`, as columns k0, k1 …"""

    connection: duckdb.DuckDBPyConnection
    pairs: Sequence[Pair]

    @property
    def names(self) -> list[str]:
        return [f"k{place}" for place in range(len(self.pairs))]

    @property
    def are_none(self) -> bool:
        return not first_row(self.connection, "SELECT count(*) FROM touched")[0]

    def among(self, keyed: str) -> str:
        """Return SQL of those rows of a relation with the columns k0, k1 … that have one of them."""
        same = " AND ".join(f"touched.{name} IS NOT DISTINCT FROM keyed.{name}" for name in self.names)
        return f"{keyed} keyed WHERE EXISTS (SELECT 1 FROM touched WHERE {same})"

    def bounds(self) -> list[Range | Values]:
        """Return which values they have, for the key columns whose bounds have an order: all, or if many the ends."""
        bounds: list[Range | Values] = []
        for name, pair in zip(self.names, self.pairs, strict=True):
            if pair.before is None or pair.after is None or pair.before.type != pair.after.type:
                continue
            ordered = ordered_sql(pair.before, name)
            if ordered is None or first_row(self.connection, f"SELECT 1 FROM touched WHERE {name} IS NULL LIMIT 1"):
                continue
            few = f"SELECT DISTINCT {ordered} AS v FROM touched ORDER BY v LIMIT {_FEW_KEYS + 1}"
            values = self.connection.execute(few).fetchall()
            if len(values) <= _FEW_KEYS:
                bounds.append(Values(pair.before, tuple(row[0] for row in values)))
            else:
                ends = first_row(self.connection, f"SELECT min({ordered}), max({ordered}) FROM touched")
                bounds.append(Range(pair.before, *ends))
        return bounds


def _touch_keys(connection: duckdb.DuckDBPyConnection, pairs: Sequence[Pair], changes: str) -> TouchedKeys:
    connection.execute(f"CREATE OR REPLACE TEMP TABLE touched AS SELECT DISTINCT {_matched(pairs)} FROM {changes}")
    return TouchedKeys(connection, pairs)


def _matched(pairs: Iterable[Pair]) -> str:
    """Return SQL of the keys by which changed rows are matched."""
    return _numbered(match_value(pair) for pair in pairs)


def _numbered(values: Iterable[str]) -> str:
    return ", ".join(f"{value} AS k{place}" for place, value in enumerate(values))


# --- keys with more than one row ------------------------------------------------------------------


def find_repeats_after_join(rows: ComparedRows) -> Trouble | None:
    """Find keys in the table `changes` that have more than one row at an end.

    No two of the rows to compare have one key, as the join has shown; but a row that both ends share may.
    """
    plan, connection = rows.comparison.plan, rows.comparison.connection
    if not plan.shared_records and not plan.shifted:
        return None
    keys = plan.rules.key_pairs
    touched = _touch_keys(connection, keys, "changes")
    ends = "(change <> 'inserted')::INTEGER AS before, (change <> 'deleted')::INTEGER AS after"
    return _find_repeats(rows, touched, [f"SELECT {_matched(keys)}, {ends} FROM changes"])


def find_repeats_after_net(rows: ComparedRows) -> Trouble | None:
    """Find keys in the table of net changes, `net`, that have more than one row at an end."""
    rules = rows.comparison.rules
    touched = _touch_keys(rows.comparison.connection, rules.key_pairs, "net")
    counts = []
    for side, view in rows.views.items():
        keys = f"SELECT {_numbered(rules.key_values(side))} FROM {view}"
        before, after = (1, 0) if side == "b" else (0, 1)
        counts.append(f"SELECT *, {before} AS before, {after} AS after FROM {touched.among(f'({keys})')}")
    return _find_repeats(rows, touched, counts)


def _find_repeats(rows: ComparedRows, touched: TouchedKeys, counts: Iterable[str]) -> Trouble | None:
    """Find touched keys with more than one row; `counts` says how often the rows to compare have each, in parts."""
    if touched.are_none:
        return None
    if rows.reduced is not None:
        counted = f"SELECT * FROM {touched.among(rows.reduced.keys)}"
    else:
        counted = " UNION ALL ".join([*counts, _count_shared(rows.comparison.files, touched)])
    connection, names = touched.connection, ", ".join(touched.names)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE repeated AS SELECT {names}, sum(before)::BIGINT AS before, "
        f"sum(after)::BIGINT AS after FROM ({counted}) GROUP BY {names} "
        "HAVING sum(before) > 1 OR sum(after) > 1"
    )
    if not first_row(connection, "SELECT count(*) FROM repeated")[0]:
        return None
    columns = [pair.name for pair in touched.pairs]
    return {
        "kind": "duplicates",
        "columns": columns,
        **{name: _describe_repeats(touched, name) for name in NAMES.values()},
        "message": f"Duplicate rows found for identifier columns {columns!r} in changelog view.",
    }


def _count_shared(files: FileRows, touched: TouchedKeys) -> str:
    """Return SQL of the keys of rows that both ends share: one more row at each end."""
    columns = scan_columns(dict.fromkeys(pair.column for pair in touched.pairs), "b")
    shared = files.shared("b", columns, within=touched.bounds())
    keys = f"SELECT {_numbered(files.plan.rules.key_values('b'))} FROM ({shared}) shared"
    return f"SELECT *, 1 AS before, 1 AS after FROM {touched.among(f'({keys})')}"


def _describe_repeats(touched: TouchedKeys, end: str) -> dict[str, Any]:
    connection, pairs, names = touched.connection, touched.pairs, touched.names
    count, rows = first_row(
        connection, f"SELECT count(*), coalesce(sum({end}), 0)::BIGINT FROM repeated WHERE {end} > 1"
    )
    texts = ", ".join(f"CAST({_one_zero(pair, name)} AS VARCHAR)" for pair, name in zip(pairs, names, strict=True))
    examples = connection.execute(
        f"SELECT {end}, {texts} FROM repeated WHERE {end} > 1 ORDER BY {', '.join(names)} LIMIT {_EXAMPLES}"
    ).fetchall()
    columns = [pair.name for pair in pairs]
    return {
        "keys": count,
        "rows": rows,
        "examples": [{"key": dict(zip(columns, key, strict=True)), "rows": number} for number, *key in examples],
    }


def _one_zero(pair: Pair, value: str) -> str:
    """Return SQL of a key whose zero is written in one way, whichever row it is of."""
    is_float = any(
        side is not None and isinstance(side.type, Primitive) and side.type.is_float
        for side in (pair.before, pair.after)
    )
    return f"CASE WHEN {value} = 0 THEN 0 ELSE {value} END" if is_float else value


# --- keys with a NULL -----------------------------------------------------------------------------


def find_null_keys(connection: duckdb.DuckDBPyConnection, pairs: Sequence[Pair]) -> Trouble | None:
    """Find changed rows with a NULL in their key: matched like any value, and said."""
    has_null = " OR ".join(f"{match_value(pair)} IS NULL" for pair in pairs)
    before, after = first_row(
        connection,
        "SELECT count(*) FILTER (change <> 'inserted'), count(*) FILTER (change <> 'deleted') "
        f"FROM changes WHERE {has_null}",
    )
    if not before and not after:
        return None
    columns = [pair.name for pair in pairs]
    return {
        "kind": "nulls",
        "columns": columns,
        "before": {"rows": before},
        "after": {"rows": after},
        "message": f"Changed rows have NULL in the key {columns!r}: {before} before, {after} after. NULL counts as a value.",
    }
