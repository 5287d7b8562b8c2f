"""What a text of SQL asks for, found without running it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb

from jobs.engine.errors import RefusedQueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SIGNS = 100_000
MOST_TABLES = 50
_MAKES_ROWS = ("generate_series", "range", "unnest")
_TAKES_SQL = ("json_execute_serialized_sql", "json_serialize_plan", "json_serialize_sql", "query", "query_table")


def list_tables(sql: str) -> list[str]:
    """Return the tables that one reading statement names, parts of a name joined by dots, in the order of the text.

    What is only a name inside the text, such as that of a `WITH`, is none. A table that a function names, like
    `query_table('x')`, is not found: no such table is there when it runs.

    Raises:
        RefusedQueryError: it is not SQL, not one statement, or does not only read.

    """
    if len(sql) > MOST_SIGNS:
        raise RefusedQueryError(f"A query has at most {MOST_SIGNS:,} signs; this one has {len(sql):,}.")
    tree = _parse(sql)
    inner = {name.lower() for name in _list_inner_names(tree)}
    tables = list(dict.fromkeys(name for name in _list_names(tree) if name.lower() not in inner))
    if len(tables) > MOST_TABLES:
        raise RefusedQueryError(f"A query reads at most {MOST_TABLES} tables; this one names {len(tables)}.")
    return tables


def check_functions(sql: str) -> None:
    """Refuse a statement that could read files, or what is said of them, past the views in which columns are hidden.

    Tables are read by name. Of functions that stand in the place of a table those are taken that make rows of their
    arguments, and of others all but those that plan or run a text of SQL.

    Raises:
        RefusedQueryError: it calls another one.

    """
    for node in _walk(_parse(sql)):
        name = str(node.get("function_name", "")).lower()
        is_table = node.get("type") == "TABLE_FUNCTION"
        called = str((node.get("function") or {}).get("function_name", "")).lower() if is_table else ""
        refused = called if is_table and called not in _MAKES_ROWS else name if name in _TAKES_SQL else ""
        if refused:
            message = (
                f"{refused} is not called here: columns of a table are hidden from you, so tables are read by name."
            )
            raise RefusedQueryError(message)


def cut_end(sql: str) -> str:
    """Return a statement without the semicolons and comments behind it, so that it can stand in brackets."""
    text = sql.encode()
    for offset, kind in reversed(duckdb.tokenize(sql)):
        if kind != duckdb.token_type.comment and text[offset : offset + 1] != b";":
            break
        text = text[:offset]
    return text.decode()


def _parse(sql: str) -> dict[str, Any]:
    """Return the statement as DuckDB's parser understands it."""
    with duckdb.connect(":memory:", config={"threads": "1"}) as parser:
        parser.execute("SET enable_external_access = false")
        text = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0][0]
    tree: dict[str, Any] = json.loads(text)
    if tree["error"] and tree["error_type"] == "not implemented":
        raise RefusedQueryError("A query only reads: write one SELECT.")
    if tree["error"]:
        raise RefusedQueryError(f"This is not SQL that is understood here: {tree['error_message']}{_place(sql, tree)}.")
    if len(tree["statements"]) != 1:
        raise RefusedQueryError(f"Write one SELECT; here are {len(tree['statements'])} statements.")
    return tree


def _place(sql: str, tree: dict[str, Any]) -> str:
    position = str(tree.get("position", ""))
    if not position.isdecimal():
        return ""
    line = sql.encode()[: int(position)].count(b"\n") + 1
    return f" (line {line})"


def _list_names(node: Any) -> Iterator[str]:
    for table in _walk(node):
        if table.get("type") == "BASE_TABLE":
            yield ".".join(table["qualified_name"]["path"])


def _list_inner_names(node: Any) -> Iterator[str]:
    for part in _walk(node):
        if "cte_map" in part:
            yield from (entry["key"] for entry in part["cte_map"]["map"])


def _walk(root: Any) -> Iterator[dict[str, Any]]:
    """Walk all objects of a tree, which may be deeper than a function may call itself."""
    left = [root]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left.extend(reversed(node.values()))
        elif isinstance(node, list):
            left.extend(reversed(node))
