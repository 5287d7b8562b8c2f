"""The columns of a table as the search for its rows names and compares them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from webapp.datasets.rules.row_conditions import SearchedColumn, StoredValue
from webapp.datasets.rules.schemas import type_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_DUCKDB_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ns": "TIMESTAMP_NS",
    "timestamptz_ns": "TIMESTAMP WITH TIME ZONE",
    "string": "VARCHAR",
    "uuid": "UUID",
}
"""Iceberg's types → those of DuckDB for the rows that PyIceberg reads."""
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def list_searched(
    fields: Iterable[Mapping[str, Any]], *, hides: Callable[[str], bool]
) -> tuple[list[SearchedColumn], dict[str, str]]:
    """Return the columns of a schema with those inside structs, and the aliases by which their SQL names them.

    Args:
        fields: the columns in Iceberg's JSON.
        hides: whether the values of a column are hidden from the reader.

    """
    columns: list[SearchedColumn] = []
    aliases: dict[str, str] = {}
    for place, field in enumerate(fields):
        alias = f'"#{place}"'
        is_hidden = hides(field["name"])
        if not is_hidden:
            aliases[alias] = field["name"]
        columns += _walk(field, field["name"], alias, is_hidden=is_hidden)
    return columns, aliases


def _walk(field: Mapping[str, Any], name: str, sql: str, *, is_hidden: bool) -> Iterator[SearchedColumn]:
    type_ = field["type"]
    yield SearchedColumn((name,), type_text(type_), (StoredValue(sql, _read_type(type_)),), is_hidden=is_hidden)
    if not isinstance(type_, str) and type_["type"] == "struct":
        for inside in type_["fields"]:
            literal = inside["name"].replace("'", "''")
            path = f"struct_extract({sql}, '{literal}')"
            yield from _walk(inside, f"{name}.{inside['name']}", path, is_hidden=is_hidden)


def _read_type(type_: Any) -> str:
    if not isinstance(type_, str):
        return _read_nested(type_)
    if match := _DECIMAL.fullmatch(type_):
        return f"DECIMAL({match[1]},{match[2]})"
    return _DUCKDB_TYPES.get(type_, "BLOB")


def _read_nested(type_: Mapping[str, Any]) -> str:
    if type_["type"] == "list":
        return f"{_read_type(type_['element'])}[]"
    if type_["type"] == "map":
        return f"MAP({_read_type(type_['key'])}, {_read_type(type_['value'])})"
    fields = [(field["name"].replace('"', '""'), _read_type(field["type"])) for field in type_["fields"]]
    return "STRUCT(" + ", ".join(f'"{name}" {kind}' for name, kind in fields) + ")"
