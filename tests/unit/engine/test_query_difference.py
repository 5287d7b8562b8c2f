"""What differs between the results of one query on two branches: whatever their order, by key or by whole rows."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engine.query.difference import DIFFERENT, EQUAL, NOT_COMPARED, ResultDifference, Stored, compare_results
from jobs.engine.query.result import store_result
from jobs.protocol import QueryRequest, QueryTable, dump, load
from tests.factories import engine
from tests.factories.queries import run_sql

Lines = list[tuple[Any, ...]]
VALUES = st.one_of(st.none(), st.integers(-2, 2))
TWO_COLUMNS = st.lists(st.tuples(VALUES, VALUES), max_size=8)


def compare(before: str, after: str, **more: Any) -> tuple[ResultDifference, Lines]:
    """Compare the results of two texts of SQL, and return the stored lines."""
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:") as connection:
        paths = [Path(folder, name) for name in ("before", "after", "difference")]
        ends = [
            Stored(store_result(connection.sql(sql), path, row_limit=100, byte_limit=2**20), path)
            for sql, path in zip((before, after), paths, strict=False)
        ]
        options = {"row_limit": 100, **more}
        difference = compare_results(connection, before=ends[0], after=ends[1], path=paths[2], **options)
        lines = pq.read_table(paths[2]).to_pylist() if paths[2].exists() else []
    return difference, [tuple(line.values()) for line in lines]


def values(rows: Lines) -> str:
    """Write rows of two numbers as SQL."""
    lines = ", ".join(f"({', '.join('NULL' if value is None else str(value) for value in row)})" for row in rows)
    return f"SELECT a::INT AS a, b::INT AS b FROM (VALUES {lines or '(1, 1)'}) t(a, b){'' if rows else ' WHERE false'}"


@given(TWO_COLUMNS, TWO_COLUMNS)
def test_what_differs_turns_one_result_into_the_other(before: Lines, after: Lines) -> None:
    difference, lines = compare(values(before), values(after))
    rows = Counter(before)
    for change, copies, *cells in lines:
        old, new = tuple(cells[:2]), tuple(cells[2:])
        rows[old] -= copies * (change != "inserted")
        rows[new] += copies * (change != "deleted")
    assert +rows == Counter(after)
    assert (difference.state == EQUAL) == (Counter(before) == Counter(after))
    keys = [[row[0] for row in side] for side in (before, after)]
    is_keyed = all(None not in side and len(set(side)) == len(side) for side in keys)
    assert bool(difference.key) == is_keyed
    if is_keyed:
        pairs = {row[0]: row for row in before}, {row[0]: row for row in after}
        changed = {key for key in pairs[0].keys() & pairs[1].keys() if pairs[0][key] != pairs[1][key]}
        assert difference.updated == len(changed)


def test_rows_are_matched_by_several_columns_where_these_name_each_row() -> None:
    before = "SELECT * FROM (VALUES (1, 1, 10), (1, 2, 20)) t(a, b, c)"
    after = "SELECT * FROM (VALUES (1, 1, 10), (1, 2, 21), (2, 1, 5)) t(a, b, c)"
    difference, lines = compare(before, after, keys=2)
    assert (difference.key, difference.updated, difference.inserted, difference.deleted) == ("a, b", 1, 1, 0)
    assert lines == [("updated", 1, 1, 2, 20, 1, 2, 21), ("inserted", 1, None, None, None, 2, 1, 5)]
    for gap in ("(1, NULL, 1)", "(1, 1, 11)"):
        difference, _ = compare(before, f"{before} UNION ALL SELECT * FROM (VALUES {gap})", keys=2)
        assert (difference.key, difference.inserted, difference.updated) == ("", 1, 0)


def test_fractions_that_differ_in_their_last_signs_are_equal() -> None:
    sides = [f"SELECT 1 AS id, {number}::DOUBLE AS x, {zero}::DOUBLE AS y, 'nan'::DOUBLE AS z" for number, zero in
             (("0.30000000000000004", "-0.0"), ("0.3", "0.0"))]  # fmt: skip
    assert compare(*sides)[0].state == EQUAL
    assert compare("SELECT 1 AS id, 0.3::DOUBLE AS x", "SELECT 1 AS id, 0.30000001::DOUBLE AS x")[0].updated == 1


def test_columns_are_matched_by_their_place_and_named_where_they_differ() -> None:
    difference, lines = compare("SELECT 1 AS id, 2 AS x", "SELECT 1 AS id, 2::BIGINT AS y")
    assert (difference.state, lines) == (DIFFERENT, [])
    assert difference.columns == ({"place": 1, "before": ["x", "INTEGER"], "after": ["y", "BIGINT"]},)
    wider, lines = compare("SELECT 1 AS id", "SELECT 1 AS id, 2 AS x")
    assert (wider.state, wider.reason, lines) == (DIFFERENT, "The results have 1 and 2 columns.", [])
    assert wider.columns == ({"place": 1, "before": None, "after": ["x", "INTEGER"]},)


@pytest.mark.parametrize(
    "values",
    ["MAP {'a': i}", "[i, NULL]", "{'x': i}", "INTERVAL (i) DAY", "i::HUGEINT", "('a' || i)::BLOB", "i::VARCHAR"],
)
def test_values_of_any_type_are_compared(values: str) -> None:
    sides = [f"SELECT {values} AS v FROM range({first}, 3) r(i)" for first in (0, 1)]
    difference, lines = compare(*sides)
    assert (difference.deleted, difference.inserted, len(lines)) == (1, 0, 1)
    assert compare(sides[0], sides[0])[0].state == EQUAL


def test_a_result_that_is_cut_is_not_compared_and_a_long_difference_is_cut() -> None:
    cut, _ = compare("FROM range(101)", "FROM range(101)")
    assert (cut.state, cut.lines) == (NOT_COMPARED, 0)
    long, lines = compare("FROM range(0)", "FROM range(50)", row_limit=10)
    assert (long.inserted, long.lines, len(lines)) == (50, 10, 10)


class Asked(NamedTuple):
    """A query over a table as a branch and its base have it."""

    request: QueryRequest
    after: QueryTable
    before: QueryTable

    def run(self, sql: str = "SELECT * FROM t", **base: Any) -> dict[str, Any]:
        """Run it on both branches; return the summary."""
        return run_sql(replace(self.request, sql=sql), [self.after], [replace(self.before, **base)])


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
    table = engine.make_table(tmp_path / "w", rows.schema)
    table.append(rows)
    before = engine.side(table, engine.snapshot_of(table))
    table.overwrite(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "B", "c"]}))
    after = engine.side(table, engine.snapshot_of(table))
    folder = tmp_path / "out"
    folder.mkdir()
    request = QueryRequest(sql="", folder=str(folder), result_path=str(folder / "result.json"), has_base=True)
    return Asked(load(QueryRequest, dump(request)), QueryTable(("t",), after), QueryTable(("t",), before))


def test_a_query_runs_on_both_branches_and_says_what_differs(asked: Asked) -> None:
    summary = asked.run()
    assert (summary["rows"], summary["base"]["rows"]) == (3, 2)
    assert summary["difference"] == {
        "state": DIFFERENT, "reason": "", "key": "id", "columns": [],
        "inserted": 1, "deleted": 0, "updated": 1, "lines": 2,
    }  # fmt: skip
    lines = pq.read_table(Path(asked.request.folder) / "difference.parquet").to_pylist()
    assert [tuple(line.values()) for line in lines] == [
        ("updated", 1, 2, "b", 2, "B"), ("inserted", 1, None, None, 3, "c"),
    ]  # fmt: skip


def test_a_base_without_the_table_s_rows_has_its_columns(asked: Asked) -> None:
    summary = asked.run(side=asked.after.side, is_empty=True)
    assert (summary["base"]["rows"], summary["difference"]["inserted"]) == (0, 3)


def test_what_fails_on_the_base_alone_leaves_the_branch_s_result(asked: Asked) -> None:
    failing = "SELECT id, CASE WHEN count(*) OVER () = 2 THEN CAST(name AS INTEGER) ELSE 0 END FROM t"
    summary = asked.run(failing)
    assert (summary["rows"], summary["base"], summary["difference"]["state"]) == (3, None, NOT_COMPARED)
    assert "Could not convert" in summary["difference"]["reason"]
