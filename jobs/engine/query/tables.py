"""The tables of a query as views of a database, which is then locked: it opens no file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from jobs.engine.errors import RefusedQueryError
from jobs.engine.read.fields import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.engine.query.piped import PipedColumn, PipedTable


def view_table(connection: duckdb.DuckDBPyConnection, table: PipedTable, *, number: int) -> None:
    """Make a view of a table under each of its names. Hidden columns are NULL.

    Raises:
        RefusedQueryError: two names in one query differ in case alone.

    """
    source = f"rows of table {number}"  # no dataset is called so
    connection.register(source, table.dataset)
    values = ", ".join(map(_write_column, table.columns))
    _name(connection, f"SELECT {values} FROM {quote(source)}", table.names)


def _write_column(column: PipedColumn) -> str:
    # Arrow has no type of its own for some of DuckDB's
    return f"CAST({column.alias or 'NULL'} AS {column.type}) AS {quote(column.name)}"


def _name(connection: duckdb.DuckDBPyConnection, rows: str, names: Sequence[str]) -> None:
    for name in names:
        try:
            connection.execute(f"CREATE VIEW {quote(name)} AS {rows}")
        except duckdb.CatalogException as error:
            message = f"{name}: another table of this query has that name but for upper and lower case."
            raise RefusedQueryError(message) from error


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Let a database open no file from now on, nor load, reach or change anything."""
    for setting in (
        "python_enable_replacements = false",  # a variable of this program is no table
        "allow_community_extensions = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")
