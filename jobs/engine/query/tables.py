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
    """Make a view of a table under each of its names; a column of a type that DuckDB lacks is left out.

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
    names = ", ".join(f"{column.alias} AS {quote(column.field.name)}" for column in columns)
    rows = f"SELECT {names} FROM ({scanner.live_rows(files, columns, dead=dead)}) live"
    _name(connection, rows, table.names)
    return ViewedTable(tuple(_list_paths(scanner, files)), sum(file.data.records for file in files))


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
