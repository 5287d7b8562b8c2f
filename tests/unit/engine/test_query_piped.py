"""Tables that another process reads: which rows and columns come, and which questions the reader refuses."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from jobs.channel import Channel
from jobs.engine.errors import RefusedQueryError, UnreadableTableError
from jobs.engine.query.piped import read_tests
from jobs.protocol import QueryRequest, QueryTable
from tests.factories import engine
from tests.factories.queries import a_reader, run_sql

ROWS = pa.table(
    {
        "i": pa.array([1, 2, None], pa.int32()),
        "l": pa.array([1, 2, 3], pa.int64()),
        "f": pa.array([1.5, float("nan"), -0.0], pa.float32()),
        "d": pa.array([1.5, float("nan"), None], pa.float64()),
        "s": ["a", 'b"x', "c d"],
        "b": [True, False, None],
        "day": [date(2020, 1, day) for day in (1, 2, 3)],
        "ts": [datetime(2020, 1, day, 1, 2, 3, 456) for day in (1, 2, 3)],  # noqa: DTZ001 - a type without a zone
        "tz": pa.array([datetime(2020, 1, day, tzinfo=UTC) for day in (1, 2, 3)], pa.timestamp("us", tz="UTC")),
        "t": [time(1, 2, second) for second in (1, 2, 3)],
        "dec": pa.array([Decimal("1.50"), None, Decimal("3.25")], pa.decimal128(9, 2)),
        "bin": [b"a", b"\x00", None],
        "st": [{"x": 1, "y": "q"}, {"x": 2, "y": None}, None],
        "li": [[1], [], None],
    }
)
FILTERS = (
    *("i = 1", "i IS NULL", "i <> 1 AND l < 3", "l BETWEEN 2 AND 3", "l = 1 OR l = 3", "l NOT IN (1, 2)", "i = 1.0"),
    *("f > 1", "f < 2", "f = 0", "f <> 1.5", "d > 1", "d >= 1.5", "d = 'nan'", "d IS NULL", "b", "NOT b", "b = true"),
    *("s = 'a'", "s > 'a'", "s = 'b\"x'", "s IN ('a', 'c d')", "s LIKE 'a%'", "s = 'a) and (x1 > \"5'", "li = [1]"),
    *("day > '2020-01-01'", "ts >= '2020-01-02'", "tz > '2020-01-01 12:00:00+00'", "t > '01:02:01'", "dec > 1.5"),
    *("bin = 'a'", "st.x > 1 AND l > 1", "l > 1 AND s < 'z' AND d IS NULL", "s IS NOT NULL AND i IS NOT NULL"),
)
Run = Callable[..., list[Any]]


@pytest.fixture
def table(tmp_path: Path) -> Any:
    made = engine.make_table(tmp_path / "w", ROWS.schema)
    made.append(ROWS)
    return made


@pytest.fixture
def pinned(table: Any) -> QueryTable:
    return QueryTable(("t",), engine.side(table, engine.snapshot_of(table)))


@pytest.fixture
def request_(tmp_path: Path) -> QueryRequest:
    folder = tmp_path / "out"
    folder.mkdir()
    return QueryRequest(sql="", folder=str(folder), result_path=str(folder / "result.json"))


@pytest.fixture
def run(request_: QueryRequest) -> Run:
    def run_one(sql: str, *tables: QueryTable) -> list[Any]:
        run_sql(QueryRequest(sql, request_.folder, request_.result_path), tables)
        rows: list[Any] = pq.read_table(Path(request_.folder) / "rows.parquet")["c0"].to_pylist()
        return rows

    return run_one


def test_filters_of_every_type_leave_the_rows_that_duckdb_leaves(run: Run, pinned: QueryTable) -> None:
    with duckdb.connect(":memory:") as plain:
        plain.execute("SET TimeZone = 'UTC'")
        plain.register("t", ROWS)
        matched = " UNION ALL ".join(f"SELECT {n} AS n, l FROM t WHERE {test}" for n, test in enumerate(FILTERS))
        expected = plain.execute(f"SELECT [n, l] FROM ({matched}) ORDER BY n, l").fetchall()
    assert run(f"SELECT [n, l] FROM ({matched}) ORDER BY n, l", pinned) == [row for (row,) in expected]


def test_comparisons_that_all_hold_are_left_to_the_reader_and_nothing_else() -> None:
    schema = pa.schema([("x0", pa.int64()), ("x1", pa.string())])
    number, text = pc.field("x0"), pc.field("x1")
    assert read_tests((number > 1) & (text == "a b") & text.is_valid(), schema) == [
        ["x0", ">", "1"], ["x1", "==", "a b"], ["x1", "is_valid", ""],
    ]  # fmt: skip
    for other in (
        (number > 1) | (number < 0),
        ~(number > 1),
        number.isin([1, 2]),
        text == 'a") and (x0 > 5',
        text == '"a"',
        number + 1 > 2,
    ):
        assert read_tests(other, schema) == []


def test_rows_are_counted_if_all_columns_are_hidden(run: Run, pinned: QueryTable) -> None:
    hidden = QueryTable(("t",), pinned.side, masked=tuple(ROWS.column_names))
    assert run("SELECT count(*) FROM t", hidden) == [3]
    assert run("SELECT i FROM t UNION ALL SELECT i FROM t", hidden) == [None] * 6
    assert run("SELECT max(s) || count(l) FROM t WHERE f IS NULL", hidden) == [None]


def test_a_table_is_read_in_many_places_of_a_text(run: Run, pinned: QueryTable) -> None:
    many = " UNION ALL ".join(["SELECT l FROM t"] * 150)
    assert run(f"SELECT count(*) FROM ({many})", pinned) == [450]
    steps = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT r.i + 1 FROM r JOIN t ON t.l = 1 WHERE r.i < 150)"
    assert run(f"{steps} SELECT max(i) FROM r", pinned) == [150]
    joined = " ".join(f"JOIN t AS t{n} USING (l)" for n in range(12))
    assert run(f"SELECT l FROM t {joined} ORDER BY l LIMIT 1", pinned) == [1]


def test_the_reader_refuses_questions_about_hidden_columns_other_tables_and_sql(
    tmp_path: Path, pinned: QueryTable
) -> None:
    hidden = QueryTable(("t",), pinned.side, masked=("s",))
    place = {"ask": "scan", "base": False, "table": 0, "tests": []}
    with a_reader(tmp_path, [hidden]) as reader:
        channel = Channel(reader.connection, at_most=2**20, seconds=30)
        for question in (
            {**place, "columns": ["x4"]},
            {**place, "columns": ["s"]},
            {**place, "columns": ["*"]},
            {**place, "columns": []},
            {**place, "columns": ["x0, x4"]},
            {**place, "columns": ["x0"], "tests": [["x4", "==", "a"]]},
            {**place, "columns": ["x0"], "tests": [["x4", "is_valid", ""]]},
            {**place, "columns": ["x0"], "tests": [["x0", "= 1 OR x4 =", "a"]]},
            {**place, "columns": ["x0"], "tests": [["x0", "==", "1) OR (1=1"]], "table": 7},
            {**place, "columns": ["x0"], "table": -1},
            {**place, "columns": ["x0"], "base": True},
            {**place, "columns": [["x0"]]},
            {"ask": "finish", "scan": 99},
            {"ask": "scan"},
            {"ask": []},
        ):
            channel.send(question)
            assert channel.receive().body.get("failure"), question
        channel.send({**place, "columns": ["x0"]})
        heard = channel.receive()
        assert heard.descriptor is not None
        with socket.socket(fileno=heard.descriptor) as stream, stream.makefile("rb") as file:
            rows = pa.ipc.open_stream(file).read_all()
        assert rows.to_pydict() == {"x0": [1, 2, None]}


def test_a_damaged_file_fails_the_query_and_the_error_quotes_nothing_of_it(
    run: Run, pinned: QueryTable, table: Any
) -> None:
    [file] = engine.data_files(table)
    path = Path(file.file_path.removeprefix("file://"))
    with pytest.raises(RefusedQueryError, match="not a table of this query"):
        run(f'SELECT s FROM "{path}"', pinned)
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 1500 + content[1504:])
    with pytest.raises(UnreadableTableError) as damaged:
        run("SELECT count(s), sum(l) FROM t", pinned)
    assert str(damaged.value) == "t cannot be read: one of its files is missing or damaged."
    path.unlink()
    with pytest.raises(UnreadableTableError) as missing:
        run("SELECT s FROM t", pinned)
    assert path.name not in str(missing.value)
