"""When two values of differing types are the same: the SQL, asked of DuckDB itself."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from jobs.engine.plan.columns import comparable, text
from jobs.engine.read.fields import Field, Primitive, describe, duckdb_type, read_schema


def column(type_: Any) -> Field:
    return read_schema({"fields": [{"id": 1, "name": "c", "type": type_, "required": False}]}).fields[0]


def struct(*fields: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"id": i, "name": n, "type": t, "required": False} for i, n, t in fields]}


def list_of(type_: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": 2, "element": type_, "element-required": False}


def map_of(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "key-id": 2, "key": key, "value-id": 3, "value": value, "value-required": False}


def same(before: Any, after: Any, left: str, right: str) -> bool:
    old, new = column(before).type, column(after).type
    values = f"SELECT CAST({left} AS {duckdb_type(old)}) AS l, CAST({right} AS {duckdb_type(new)}) AS r"
    exprs = comparable(old, new, "l", "r")
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    row = connection.execute(
        f"SELECT {exprs[0]} IS NOT DISTINCT FROM {exprs[1]}, typeof({exprs[0]}) = typeof({exprs[1]}) FROM ({values})"
    ).fetchone()
    assert row is not None
    assert row[1], "both sides must have one type, or a join would cast them"
    return bool(row[0])


@pytest.mark.parametrize(
    ("before", "after", "left", "right", "wanted"),
    [
        ("int", "long", "7", "7", True),
        ("float", "double", "0.5", "0.5", True),
        ("float", "double", "0.1", "0.1", False),
        ("double", "float", "'nan'", "'nan'", True),
        ("decimal(5,2)", "decimal(9,4)", "1.50", "1.5000", True),
        ("decimal(5,2)", "decimal(9,4)", "1.50", "1.5001", False),
        ("decimal(38,0)", "decimal(38,38)", "0", "0", True),
        ("decimal(38,0)", "decimal(38,38)", "1", "0.1", False),
        ("decimal(9,2)", "int", "7.00", "7", True),
        ("decimal(9,2)", "long", "7.01", "7", False),
        ("long", "double", "9007199254740993", "9007199254740992", False),
        ("long", "double", "9007199254740992", "9007199254740992", True),
        ("long", "double", "0", "-0.0", True),
        ("long", "double", "100", "100", True),
        ("decimal(9,2)", "double", "0.10", "0.1", True),
        ("decimal(9,7)", "double", "0.0000001", "1e-7", True),
        ("decimal(9,2)", "double", "0.10", "'nan'", False),
        ("long", "double", "NULL", "NULL", True),
        ("long", "double", "NULL", "'nan'", False),
        ("long", "double", "1", "'inf'", False),
        ("long", "string", "7", "'7'", True),
        ("long", "string", "7", "'07'", False),
        ("double", "string", "7", "'7.0'", True),
        ("double", "string", "-0.0", "'0.0'", True),
        ("double", "string", "'nan'", "'NaN'", True),
        ("double", "string", "'-inf'", "'-Infinity'", True),
        ("decimal(9,2)", "string", "7", "'7.00'", True),
        ("decimal(2,2)", "string", "-0.50", "'-0.50'", True),
        ("boolean", "string", "true", "'true'", True),
        ("boolean", "int", "true", "1", False),
        ("date", "string", "DATE '1969-12-31'", "'1969-12-31'", True),
        ("date", "timestamp", "DATE '2020-01-01'", "TIMESTAMP '2020-01-01 00:00:00'", True),
        ("timestamp", "string", "TIMESTAMP '2020-01-01 10:00:00'", "'2020-01-01T10:00:00'", True),
        ("timestamp", "string", "TIMESTAMP '2020-01-01 10:00:00'", "'2020-01-01 10:00:00'", True),
        ("timestamp", "string", "TIMESTAMP '2020-01-01 10:00:00'", "'2020-01-01 10:00'", False),
        ("string", "timestamptz", "'2020-01-01T10:00:00Z'", "TIMESTAMPTZ '2020-01-01 10:00:00+00'", True),
        ("string", "timestamptz", "'2020-01-01T10:00:00+00:00'", "TIMESTAMPTZ '2020-01-01 10:00:00+00'", True),
        ("timestamp", "timestamptz", "TIMESTAMP '2020-01-01 10:00:00'", "TIMESTAMPTZ '2020-01-01 10:00:00+00'", False),
        (
            "timestamp",
            "timestamp_ns",
            "TIMESTAMP '2020-01-01 10:00:00.5'",
            "TIMESTAMP_NS '2020-01-01 10:00:00.5'",
            True,
        ),
        ("time", "string", "TIME '10:00:00'", "'10:00:00'", True),
        (
            "uuid",
            "string",
            "UUID '00000000-0000-0000-0000-00000000000a'",
            "'00000000-0000-0000-0000-00000000000a'",
            True,
        ),
        ("string", "binary", "'é'", "'\\xC3\\xA9'::BLOB", True),
        ("binary", "fixed[2]", "'ab'::BLOB", "'ab'::BLOB", True),
        ("binary", "long", "'a'::BLOB", "1", False),
        (list_of("int"), list_of("long"), "[1, NULL]", "[1, NULL]", True),
        (list_of("int"), list_of("string"), "[1, 2]", "['1', '2']", True),
        (list_of("int"), list_of("long"), "NULL", "NULL", True),
        (list_of("int"), list_of("long"), "NULL", "[]", False),
        (map_of("string", "int"), map_of("string", "long"), "MAP {'a': 1, 'b': 2}", "MAP {'a': 1, 'b': 2}", True),
        (map_of("int", "int"), map_of("string", "int"), "MAP {2: 1, 10: 2}", "MAP {'10': 2, '2': 1}", True),
        (map_of("int", "int"), map_of("string", "int"), "NULL", "MAP {}", False),
        (
            struct((5, "a", "int"), (6, "b", "string")),
            struct((5, "a", "long"), (7, "c", "date")),
            "{'a': 1, 'b': 'x'}",
            "{'a': 1, 'c': NULL}",
            True,
        ),
        (struct((5, "a", "int")), struct((5, "z", "long")), "{'a': 1}", "{'z': 2}", False),
        (struct((5, "a", "int")), struct((9, "z", "int")), "{'a': 1}", "{'z': 2}", True),
        (struct((5, "a", "int")), struct((9, "z", "int")), "NULL", "{'z': 2}", False),
        (struct((5, "a", "int")), "string", "{'a': 1}", "'{\"a\":1}'", True),
    ],
)
def test_values_of_two_types(before: Any, after: Any, left: str, right: str, wanted: bool) -> None:
    assert same(before, after, left, right) is wanted
    assert same(after, before, right, left) is wanted


def test_text_is_null_only_for_null() -> None:
    for name in ("long", "double", "decimal(9,2)", "date", "timestamptz", "binary", "uuid", "string", "boolean"):
        type_ = Primitive(name)
        rows = duckdb.sql(f"SELECT {text(type_, f'CAST(NULL AS {duckdb_type(type_)})')}").fetchall()
        assert rows == [(None,)], name


def test_types_that_are_not_read_are_said() -> None:
    variant = read_schema({"fields": [{"id": 1, "name": "v", "type": list_of("variant")}]}).fields[0]
    assert duckdb_type(variant.type) is None
    assert describe(variant.type) == "list<variant>"
    assert describe(column(map_of("string", struct((5, "a", "int")))).type) == "map<string, struct<a: int>>"
