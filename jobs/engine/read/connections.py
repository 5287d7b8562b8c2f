"""Connections to DuckDB: each is a database of its own in memory, which spills into a folder what memory does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    from pathlib import Path


def connect(
    *, memory_bytes: int, threads: int, spill: Path, preserve_insertion_order: bool = True
) -> duckdb.DuckDBPyConnection:
    """Open a database that loads no extension and tells times in UTC."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_bytes // 2**20}MiB",
            "threads": str(threads),
            "temp_directory": str(spill),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "preserve_insertion_order": str(preserve_insertion_order).lower(),
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def first_row(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    """Return the first row of a query; empty where it has none."""
    # all rows are fetched: a result that is not read to its end blocks the connection
    rows = connection.execute(sql).fetchall()
    return rows[0] if rows else ()
