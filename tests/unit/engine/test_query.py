"""SQL over pinned tables: what it gives, what it may not do, and where it is cut off."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.engine.errors import DiffError, MemoryLimitError, RefusedQueryError, TimeLimitError
from jobs.engine.query.functions import FUNCTIONS, TABLE_FUNCTIONS
from jobs.engine.query.statement import list_tables
from jobs.protocol import QueryRequest, QueryTable
from tests.factories import engine
from tests.factories.queries import run_sql

Run = Callable[..., tuple[dict[str, Any], list[dict[str, Any]]]]

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "Name": ["a", None, "c"], "price": [1.5, 2.5, -0.0]})


@pytest.fixture
def tables(tmp_path: Path) -> tuple[QueryTable, ...]:
    table = engine.make_table(tmp_path / "w", ROWS.schema)
    table.append(ROWS)
    engine.delete_positions(table, {engine.data_files(table)[0].file_path: [1]})
    table.refresh()
    return (QueryTable(("/n/t", "t"), engine.side(table, engine.snapshot_of(table))),)


@pytest.fixture
def request_(tmp_path: Path) -> QueryRequest:
    folder = tmp_path / "out"
    folder.mkdir()
    return QueryRequest(
        sql='SELECT * FROM "/n/t" ORDER BY id DESC',
        folder=str(folder),
        result_path=str(folder / "result.json"),
    )


@pytest.fixture
def run(request_: QueryRequest, tables: tuple[QueryTable, ...]) -> Run:
    def run_one(sql: str, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        summary = run_sql(replace(request_, sql=sql, **more), tables)
        return summary, pq.read_table(Path(request_.folder) / "rows.parquet").to_pylist()

    return run_one


def test_a_result_has_live_rows_in_order_with_types_and_counts(run: Run) -> None:
    summary, rows = run('SELECT * FROM "/n/t" ORDER BY id DESC')
    assert rows == [{"c0": 3, "c1": "c", "c2": -0.0}, {"c0": 1, "c1": "a", "c2": 1.5}]
    assert [(column["name"], column["type"]) for column in summary["columns"]] == [
        ("id", "BIGINT"), ("Name", "VARCHAR"), ("price", "DOUBLE"),
    ]  # fmt: skip
    assert (summary["rows"], summary["is_cut"], summary["rows_read"]) == (2, False, 3)


def test_both_names_any_type_and_equal_column_names_are_taken(run: Run) -> None:
    sql = 'WITH t2 AS (SELECT * FROM t) SELECT id, id, INTERVAL 1 DAY, [sum(id) OVER ()] FROM t2 JOIN "/n/t" USING (id); -- end'
    summary, rows = run(sql)
    assert rows[0]["c2"] == "1 day"
    assert [column["name"] for column in summary["columns"]][:2] == ["id", "id"]
    assert run("SUMMARIZE t")[0]["rows"] == 3


def test_a_long_result_is_cut_by_rows_and_by_bytes(run: Run) -> None:
    summary, rows = run("SELECT * FROM range(1000000000)", row_limit=5000)
    assert (len(rows), summary["rows"], summary["is_cut"]) == (5000, 5000, True)
    summary, _ = run("SELECT repeat('x', 1000) FROM range(1000000000)", byte_limit=10_000_000)
    assert summary["is_cut"]
    assert summary["bytes"] < 20_000_000


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/proc/self/environ')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_parquet('http://127.0.0.1/x')",
        "SELECT * FROM parquet_metadata('/etc/passwd')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT getenv('HOME')",
        "SELECT * FROM request",
        "SELECT * FROM query_table('nothing')",
        "SELECT * FROM duckdb_secrets()",
        "COPY (SELECT 1) TO '/tmp/tributary-was-here'",
        "COPY t FROM '/etc/passwd'",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET memory_limit = '100GB'",
        "RESET allowed_paths",
        "CREATE TABLE x AS SELECT 1",
        "CREATE SECRET (TYPE s3)",
        "EXPORT DATABASE '/tmp/x'",
        "CALL pragma_version()",
        "EXPLAIN ANALYZE SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT 1) result; COPY (SELECT 1) TO '/tmp/tributary-was-here'; SELECT * FROM (SELECT 1",
        "WITH i AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM i",
        "SELECT $1",
        "",
        "SELEC",
        "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
        "SELECT 1 -- " + "x" * 1_000_000,
        "SELECT \x00 1",
        "SELECT CAST('x' AS INTEGER)",
    ],
)
def test_what_does_not_only_read_the_tables_is_refused(run: Run, request_: QueryRequest, sql: str) -> None:
    with pytest.raises(RefusedQueryError):
        run(sql)
    assert not Path("/tmp/tributary-was-here").exists()
    assert not (Path(request_.folder) / "rows.parquet").exists()


def test_a_query_ends_with_its_time_and_its_memory(run: Run) -> None:
    with pytest.raises(TimeLimitError):
        run("SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE hash(a, b) = 1", time_limit_s=0.3)
    endless = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r"
    with pytest.raises(DiffError):
        run(endless, time_limit_s=0.3)
    with pytest.raises(MemoryLimitError):
        run("SELECT list(i) FROM range(100000000) r(i)", memory_bytes=64 * 2**20)


def test_tables_are_found_wherever_a_text_names_them() -> None:
    sql = """WITH "in" AS (SELECT * FROM "/a/b") SELECT (SELECT max(x) FROM nyc.c) FROM "IN" LEFT JOIN 'd' USING (x)
    WHERE EXISTS (SELECT * FROM (PIVOT "/a/E" ON x IN (1) USING sum(y)))"""
    assert list_tables(sql) == ["/a/b", "nyc.c", "d", "/a/E"]
    assert list_tables('DESCRIBE "/a/b"') == ["/a/b"]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a", ["b"]),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM A) SELECT * FROM a, B", []),
        ("SELECT * FROM (WITH z AS (SELECT 1) SELECT * FROM z), z", ["z"]),
        ("WITH z AS (SELECT 1) SELECT (SELECT max(x) FROM (WITH y AS (FROM z) FROM y)) FROM y, s.z", ["y", "s.z"]),
        ("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 2 FROM r), q AS (FROM r) FROM q", []),
        ("WITH RECURSIVE r AS (SELECT 1 FROM r UNION ALL SELECT 2 FROM r) FROM r", ["r"]),
    ],
)
def test_a_with_is_no_table_in_its_scope_alone(sql: str, names: list[str]) -> None:
    assert list_tables(sql) == names


@pytest.mark.parametrize(
    "sql",
    [
        'WITH "/n/t" AS (SELECT 1) SELECT * FROM "/n/t"',
        "WITH t AS (SELECT 1) SELECT * FROM (WITH \"a.parquet\" AS (SELECT 1) SELECT 1), 'a.parquet'",
        'WITH "duc\u212adb_views" AS (SELECT 1) SELECT * FROM duckdb_views',
        "SHOW TABLES",
        "SELECT * FROM (SHOW ALL TABLES)",
        "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
    ],
)
def test_names_of_files_and_other_statements_are_refused_before_anything_runs(sql: str) -> None:
    with pytest.raises(RefusedQueryError):
        list_tables(sql)


@pytest.mark.parametrize(
    "call",
    [
        *(
            "error('x')",
            "current_setting('threads')",
            "getvariable('x')",
            "version()",
            "nextval('s')",
            "write_log('x')",
        ),
        *("json_serialize_plan('SELECT 1')", "t.error()", "main.error('x')", '"ERROR"(1)', "sleep_ms(1)", "stats(id)"),
        *(
            "list_transform([1], lambda x: error(x))",
            "sum(id) OVER (ORDER BY error(id))",
            "COLUMNS(lambda c: error(c))",
        ),
        *("count(*) FILTER (WHERE error(id))", "array_agg(id ORDER BY error(id))", "(SELECT max(q) FROM query('x') q)"),
    ],
)
def test_functions_outside_the_list_are_refused_wherever_they_are_called(run: Run, call: str) -> None:
    with pytest.raises(RefusedQueryError, match="is not called here"):
        run(f"SELECT {call} FROM t")


def test_the_list_of_functions_names_those_that_duckdb_has_and_none_that_reads_more() -> None:
    with duckdb.connect(":memory:") as connection:
        rows = connection.execute("SELECT lower(function_name), function_type FROM duckdb_functions()").fetchall()
    tables = {name for name, kind in rows if kind in {"table", "table_macro"}}
    assert FUNCTIONS - {name for name, _ in rows} == {"ifnull"}
    assert TABLE_FUNCTIONS <= tables
    assert FUNCTIONS & tables <= TABLE_FUNCTIONS | {"histogram"}  # which is also an aggregate
    risky = re.compile(
        r"read_|scan|setting|variable|glob|query|sniff|serialize|log_|pragma|duckdb|external|pg_(?!size|typeof)"
    )
    assert [name for name in FUNCTIONS if risky.search(name)] == []
