"""What a cell of a row diff shows is found by the search, whatever the type."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.encoding import encode_row
from jobs.engine.read.stored_rows import to_rows
from webapp.core.templatetags.ui import value as show
from webapp.datasets.rules.row_values import UnfitError, compare

INF, NAN = float("inf"), float("nan")
AT = dt.datetime(2020, 1, 1, 10)
STRUCT = pa.struct([("a b", pa.int64()), ('q"', pa.decimal128(5, 2)), ("c", pa.list_(pa.string()))])
CASES: dict[str, pa.Array] = {
    "double": pa.array([INF, -INF, NAN, 1e20, 1e-7, -0.5, 1e16, 123456789012345680.0]),
    "float": pa.array([INF, 0.1, -1.5, 1e30], pa.float32()),
    "long": pa.array([-5, 2**53 + 1, -(2**63)]),
    "decimal": pa.array([Decimal("0.50"), Decimal("-0.05"), Decimal("-1.00")], pa.decimal128(38, 2)),
    "flag": pa.array([True, False]),
    "text": pa.array(["a", "It's", "ä%_"]),
    "binary": pa.array([b"\0\xff", b"a" * 20]),
    "day": pa.array([dt.date(2020, 1, 1)]),
    "time": pa.array([dt.time(10), dt.time(10, 0, 0, 500_000)]),
    "moment": pa.array([AT, AT.replace(microsecond=500_000)], pa.timestamp("us")),
    "moment in a zone": pa.array([AT, AT.replace(microsecond=1)], pa.timestamp("us", "UTC")),
    "nanoseconds": pa.array([1_500_000_000, 1], pa.timestamp("ns")),
    "list": pa.array([[1, None, 2**53 + 1], [], [-3]], pa.list_(pa.int64())),
    "list of floats": pa.array([[0.5, INF, NAN, None]]),
    "list of lists": pa.array([[["a", None], None, []]], pa.list_(pa.list_(pa.string()))),
    "list of binary": pa.array([[b"\0\xff", None]]),
    "list of times": pa.array([[AT, AT.replace(microsecond=5)]], pa.list_(pa.timestamp("us"))),
    "list of flags": pa.array([[True, False, None]]),
    "struct": pa.array(
        [{"a b": 1, 'q"': Decimal("0.50"), "c": ["x", None]}, {"a b": None, 'q"': None, "c": None}], STRUCT
    ),
    "map": pa.array([[("k", 1.5), ("l", None)]], pa.map_(pa.string(), pa.float64())),
    "map of structs": pa.array([[(1, {"z": "it's"})]], pa.map_(pa.int32(), pa.struct([("z", pa.string())]))),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_cell_shows_is_found(name: str, tmp_path: Path) -> None:
    """By `~`, a part of it too, and as a whole by `=` where the type is compared by its text."""
    path = tmp_path / "rows.parquet"
    table = pa.table({"v": pa.concat_arrays([CASES[name], pa.nulls(1, CASES[name].type)])})
    pq.write_table(table, path)
    shown = [encode_row(row)["v"] for row in to_rows(table)]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        type_ = connection.execute(f"DESCRIBE FROM '{path}'").fetchall()[0][1]

        def find(operator: str, text: str) -> list[int]:
            sql, parameters = compare("v", type_, operator, text)
            query = f"SELECT row_number() OVER () - 1 AS n, v FROM '{path}'"
            found = connection.execute(f"SELECT n FROM ({query}) WHERE {sql} ORDER BY n", list(parameters)).fetchall()
            return [row[0] for row in found]

        for place, cell in enumerate(shown[:-1]):
            drawn = unescape(re.sub(r"<[^>]*>", "", str(show(cell, limit=10_000))))
            assert place in find("~", drawn)
            assert place in find("~", drawn[: len(drawn) // 2 + 1])
            assert find("=", drawn) == [place] or name == "float"
            if isinstance(cell, str):
                assert place in find("~", cell)
        assert find("~", "no cell shows this") == []


def test_values_with_parts_have_no_order() -> None:
    with pytest.raises(UnfitError, match="which has parts"):
        compare("v", "INTEGER[]", "<", "[1]")


@pytest.mark.parametrize(("typed", "found"), [("2020-01-01 10", True), ("T10:00:00Z", True), ("2020-01-02", False)])
def test_times_are_found_as_people_write_them(typed: str, found: bool) -> None:
    sql, parameters = compare("v", "TIMESTAMP WITH TIME ZONE", "~", typed)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        values: list[Any] = [AT.replace(tzinfo=dt.UTC), *parameters]
        rows = connection.execute(f"SELECT v FROM (SELECT ?::TIMESTAMPTZ AS v) WHERE {sql}", values).fetchall()
    assert bool(rows) == found
