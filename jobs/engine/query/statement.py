"""What a text of SQL asks for, found without running it.

The text is parsed by the DuckDB that later runs it: another parser could understand a text differently.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import duckdb

from jobs.engine.errors import RefusedQueryError
from jobs.engine.query.functions import FUNCTIONS, TABLE_FUNCTIONS
from jobs.parsing import load_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MOST_SIGNS = 100_000
MOST_TABLES = 50
_PLAIN = re.compile(r"\w{1,200}", re.ASCII)
_NODES = frozenset(
    {
        "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE",
        "BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "PIVOT", "SHOW_REF", "EMPTY",
        "ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER",
        "ORDER_DEFAULT", "ASCENDING", "DESCENDING",
    }
)  # fmt: skip
"""Parts of a statement that are not expressions. Others are refused, such as those that a later DuckDB adds."""


def list_tables(sql: str) -> list[str]:
    """Return the tables that one reading statement names, parts of a name joined by dots, in the order of the text.

    A name that a `WITH` defines is no table in the places where SQL finds the `WITH`, and a table everywhere else.

    Raises:
        RefusedQueryError: it is not SQL, not one statement, or does not only read.

    """
    if len(sql) > MOST_SIGNS:
        raise RefusedQueryError(f"A query has at most {MOST_SIGNS:,} signs; this one has {len(sql):,}.")
    tables = list(dict.fromkeys(".".join(path) for path in _list_paths(_parse(sql))))
    if len(tables) > MOST_TABLES:
        raise RefusedQueryError(f"A query reads at most {MOST_TABLES} tables; this one names {len(tables)}.")
    return tables


def check_names(sql: str, names: Collection[str]) -> None:
    """Refuse a statement that names a table other than these.

    Raises:
        RefusedQueryError: it names another one, or one in a schema.

    """
    for path in _list_paths(_parse(sql)):
        if len(path) > 1 or path[0] not in names:
            raise RefusedQueryError(f"{'.'.join(path)} is not a table of this query.")


def check_functions(sql: str) -> None:
    """Refuse a statement that calls a function outside the lists in `functions`.

    Raises:
        RefusedQueryError: it calls another one.

    """
    for node in _walk(_parse(sql)):
        if node.get("type") == "TABLE_FUNCTION":
            name = str(node["function"].get("function_name", "")).lower()
            if name not in TABLE_FUNCTIONS:
                raise RefusedQueryError(f"{name} is not called here in the place of a table: tables are read by name.")
        elif "function_name" in node:
            name = str(node["function_name"]).lower()
            if name not in FUNCTIONS and name not in TABLE_FUNCTIONS:
                raise RefusedQueryError(f"{name} is not called here: it is not on the list of functions for queries.")


def cut_end(sql: str) -> str:
    """Return a statement without the semicolons and comments behind it, so that it can stand in brackets."""
    text = sql.encode()
    for offset, kind in reversed(duckdb.tokenize(sql)):
        if kind != duckdb.token_type.comment and text[offset : offset + 1] != b";":
            break
        text = text[:offset]
    return text.decode()


@lru_cache(maxsize=1)
def _parse(sql: str) -> dict[str, Any]:
    """Return the statement as DuckDB's parser understands it."""
    with duckdb.connect(":memory:", config={"threads": "1"}) as parser:
        parser.execute("SET enable_external_access = false")
        text = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0][0]
    try:
        tree: dict[str, Any] = load_json(text)
    except ValueError:
        raise RefusedQueryError("This query is nested too deeply.") from None
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


def _list_paths(tree: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the name of each table that is not a `WITH` in scope, as its parts.

    Raises:
        RefusedQueryError: the statement has parts that are not read here.

    """
    left: list[tuple[Any, frozenset[str]]] = [(tree["statements"], frozenset())]
    while left:
        node, scope = left.pop()
        if isinstance(node, list):
            left.extend((part, scope) for part in reversed(node))
        if not isinstance(node, dict):
            continue
        kind = node.get("type")
        if isinstance(kind, str) and "class" not in node and kind not in _NODES:
            raise RefusedQueryError(f"{kind} is not supported in a query: write one SELECT.")
        path = node.get("qualified_name", {}).get("path", [])
        if kind == "SHOW_REF" and path:
            raise RefusedQueryError("SHOW is not supported here: the repository's page lists its datasets.")
        if kind == "BASE_TABLE" and not (len(path) == 1 and _fold(path[0]) in scope):
            yield path
        left.extend(reversed(list(_list_parts(node, scope))))


def _list_parts(node: dict[str, Any], scope: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """Yield the parts of a node, each with the names of `WITH` that it can use."""
    for entry in node.get("cte_map", {}).get("map", ()):
        name = str(entry["key"])
        if not _PLAIN.fullmatch(name):
            raise RefusedQueryError("The name of a WITH consists of letters from A to Z, digits and _.")
        yield entry["value"], scope
        scope |= {_fold(name)}
    own = scope | {_fold(str(node["cte_name"]))} if node.get("type") == "RECURSIVE_CTE_NODE" else scope
    for name, part in node.items():
        if name != "cte_map":
            yield part, own if name == "right" else scope


def _fold(name: str) -> str:
    """Return a name in lower case as DuckDB compares names: it has no case but that of ASCII."""
    return name.lower() if name.isascii() else name


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
