"""The live rows of pinned tables as views of a database, which is then locked: it opens their files and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from jobs.engine.errors import RefusedQueryError
from jobs.engine.plan.planner import plan_diff
from jobs.engine.read.fields import duckdb_type, literal, quote
from jobs.engine.read.scan import ScanColumn, Scanner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobs.engine.read.live_files import LiveFile
    from jobs.protocol import QueryTable


@dataclass(frozen=True)
class ViewedTable:
    """A pinned table that stands in a database as views."""

    paths: tuple[str, ...]
    """Its data files, as DuckDB opens them."""
    rows: int
    """In these, deleted ones among them."""


def view_table(connection: duckdb.DuckDBPyConnection, table: QueryTable, *, number: int) -> ViewedTable:
    """Make a view of a table under each of its names; a column of a type that DuckDB lacks is left out, a hidden one NULL.

    Raises:
        RefusedQueryError: two names in one query differ in case alone.

    """
    plan = plan_diff(before=None, after=table.side, io_properties=table.io)
    end, files = plan.after, plan.after_files
    if end.metadata is None or end.schema is None:
        raise RefusedQueryError(f"{table.names[0]} has no columns.")
    scanner = Scanner(connection, end.metadata, table.io)
    dead = f"dead_{number}"
    scanner.load_positions(dead, files)
    columns = [
        ScanColumn(f"x{place}", field)
        for place, field in enumerate(end.schema.fields)
        if duckdb_type(field.type) is not None
    ]
    if not columns:
        raise RefusedQueryError(f"{table.names[0]} has no columns that can be read by SQL.")
    seen = [column for column in columns if column.field.name.casefold() not in table.masked]
    # What is hidden is no part of the view, so that no expression can tell what it is; rows are counted by any column.
    names = ", ".join(_write_column(column, is_hidden=column not in seen) for column in columns)
    live = scanner.live_rows(files, seen or columns[:1], dead=dead)
    rows = f"SELECT {names} FROM ({live}) live{' WHERE false' if table.is_empty else ''}"
    _name(connection, rows, table.names)
    return ViewedTable(tuple(_list_paths(scanner, files)), sum(file.data.records for file in files))


def _write_column(column: ScanColumn, *, is_hidden: bool) -> str:
    value = f"CAST(NULL AS {duckdb_type(column.field.type)})" if is_hidden else column.alias
    return f"{value} AS {quote(column.field.name)}"


def _name(connection: duckdb.DuckDBPyConnection, rows: str, names: Sequence[str]) -> None:
    for name in names:
        try:
            connection.execute(f"CREATE VIEW {quote(name)} AS {rows}")
        except duckdb.CatalogException as error:
            message = f"{name}: another table of this query has that name but for upper and lower case."
            raise RefusedQueryError(message) from error


def _list_paths(scanner: Scanner, files: Sequence[LiveFile]) -> list[str]:
    return [scanner.shown_path(file.data.path) for file in files]


def lock(connection: duckdb.DuckDBPyConnection, paths: Iterable[str]) -> None:
    """Let a database open these files and nothing else from now on, nor load, reach or change anything."""
    connection.execute(f"SET allowed_paths = [{', '.join(map(literal, paths))}]")
    for setting in (
        "python_enable_replacements = false",  # a variable of this program is no table
        "allow_community_extensions = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")
