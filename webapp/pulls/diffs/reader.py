"""Reads the Parquet files of stored diffs.

Its libraries take half a second to import, which processes that show no rows need not pay: import this module late.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ERRORS = (duckdb.Error, pa.ArrowException)


def describe(path: Path, values: Sequence[str] = ()) -> dict[str, str]:
    """Return the columns of a file, and SQL of values inside them, with their DuckDB types."""
    with _cursor() as cursor:
        rows = cursor.execute(f"DESCRIBE SELECT {', '.join(['*', *values])} FROM {_source(path)}").fetchall()
    names = [*(row[0] for row in rows[: len(rows) - len(values)]), *values]
    return {name: row[1] for name, row in zip(names, rows, strict=True)}


def count(path: Path, *, where: str, parameters: Sequence[Any]) -> int:
    """Return how many lines of a file a condition keeps."""
    with _cursor() as cursor:
        row = cursor.execute(f"SELECT count(*) FROM {_source(path)} WHERE {where}", list(parameters)).fetchone()
    return int(row[0]) if row is not None else 0


def select(path: Path, *, where: str, parameters: Sequence[Any], order: str) -> list[dict[str, Any]]:
    """Return the lines of a file that a condition keeps; `order` also says how many."""
    with _cursor() as cursor:
        sql = f"SELECT * FROM {_source(path)} WHERE {where} ORDER BY {order}"
        table = cursor.sql(sql, params=list(parameters)).to_arrow_table()
    return to_rows(table)


def read_all(path: Path) -> list[dict[str, Any]]:
    """Return all lines of a small file."""
    return to_rows(pq.read_table(path))


def read_slice(path: Path, start: int, limit: int) -> list[dict[str, Any]]:
    """Return a range of lines, from the row groups that hold it."""
    with pq.ParquetFile(path) as source:
        first = 0
        groups: list[int] = []
        offset = start
        for group in range(source.num_row_groups):
            lines = source.metadata.row_group(group).num_rows
            if first + lines > start and first < start + limit:
                offset = start - first if not groups else offset
                groups.append(group)
            first += lines
        table = source.read_row_groups(groups) if groups else source.schema_arrow.empty_table()
    return to_rows(table.slice(offset if groups else 0, limit))


def read_batches(path: Path, size: int) -> Iterator[pa.RecordBatch]:
    """Walk a file in batches of at most so many lines, leaving out empty ones."""
    with pq.ParquetFile(path) as source:
        for batch in source.iter_batches(batch_size=size):
            if batch.num_rows:
                yield batch


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Python values, with times that Python's own types cannot hold as text."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            columns.append([_nanoseconds(value, column.type.tz) for value in column.cast(pa.int64()).to_pylist()])
        else:
            columns.append(_to_values(column))
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def _to_values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return cast("list[Any]", column.to_pylist())
    except (OverflowError, ValueError):
        # a date outside of the years 1 to 9999
        return cast("list[Any]", column.cast(pa.string()).to_pylist())


def _nanoseconds(value: int | None, zone: str | None) -> str | None:
    if value is None:
        return None
    seconds, rest = divmod(value, 1_000_000_000)
    text = pa.scalar(seconds, pa.timestamp("s")).as_py().isoformat()
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{text}{fraction}{'+00:00' if zone else ''}"


@lru_cache(maxsize=1)
def _database() -> duckdb.DuckDBPyConnection:
    """One small reader for the whole process; each use gets its own cursor."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": "256MiB",
            "threads": "2",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET temp_directory = ''")
    return connection


def _cursor() -> duckdb.DuckDBPyConnection:
    return _database().cursor()


def _source(path: Path) -> str:
    """A path as SQL, not taken for a pattern."""
    plain = re.sub(r"([*?\[])", r"[\1]", str(path))
    return "read_parquet('" + plain.replace("'", "''") + "')"
