"""Rows of a table at a snapshot, and the rows in which two snapshots may differ, read by the end's schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask, Table

MEMORY_LIMIT = "1GB"


def connect() -> duckdb.DuckDBPyConnection:
    """Open a database of the job's own that may spill."""
    connection = duckdb.connect(
        config={"memory_limit": MEMORY_LIMIT, "temp_directory": "/tmp/changelog", "threads": "2"}  # noqa: S108 - private
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def quote(name: str) -> str:
    """Quote a column's name."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def listed(names: Iterable[str], prefix: str = "") -> str:
    """Quote and join names."""
    return ", ".join(f"{prefix}{quote(name)}" for name in names)


def same_key(keys: Iterable[str], one: str, other: str) -> str:
    """Compare keys of two relations: NULL is a value."""
    return " AND ".join(f"{one}.{quote(key)} IS NOT DISTINCT FROM {other}.{quote(key)}" for key in keys)


def differing_tasks(table: Table, before: int | None, after: int) -> tuple[list[FileScanTask], list[FileScanTask]]:
    """Return the files that only one of two snapshots reads, or reads with other deletes."""
    old, new = _tasks(table, before), _tasks(table, after)
    return (
        [task for name, task in old.items() if name not in new],
        [task for name, task in new.items() if name not in old],
    )


def all_tasks(table: Table, snapshot_id: int | None) -> list[FileScanTask]:
    """Return everything that a snapshot reads; None is the empty table."""
    return list(_tasks(table, snapshot_id).values())


def read(table: Table, tasks: list[FileScanTask], columns: Iterable[str] | None = None) -> pa.RecordBatchReader:
    """Read files as rows of the table's present schema."""
    schema = table.schema() if columns is None else table.schema().select(*columns)
    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    arrow = schema.as_arrow()
    batches = (batch.cast(arrow) for batch in scan.to_record_batches(tasks)) if tasks else iter(())
    return pa.RecordBatchReader.from_batches(arrow, batches)


def _tasks(table: Table, snapshot_id: int | None) -> dict[tuple[Any, ...], FileScanTask]:
    if snapshot_id is None:
        return {}
    tasks = table.scan(snapshot_id=snapshot_id).plan_files()
    return {(task.file.file_path, *sorted(_delete_name(file) for file in task.delete_files)): task for task in tasks}


def _delete_name(file: Any) -> str:
    """Several deletion vectors may share a file."""
    return f"{file.file_path}@{getattr(file, 'content_offset', None)}"
