"""Files of users once they are opened: columns, rows, warnings, and why a file cannot be loaded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa
from pyiceberg.schema import Schema

from jobs import lfs
from jobs.engine.read.column_names import fold
from jobs.protocol import LoadedColumn

MEMORY_LIMIT = "1GB"
SAMPLE_ROWS = 2_000
MAX_LINE_BYTES = 32 * 1024 * 1024
MOST_COLUMNS = 5_000
"""Columns of a file, those inside others too."""
SHOWN_CHARACTERS = 200
MOST_WARNINGS = 100
"""Warnings that are kept of a column, and lines of the log about a file."""


@dataclass(frozen=True)
class CsvFormat:
    """How to read a CSV file, where somebody said so."""

    delimiter: str = ""
    """One character; found from the first line where it is empty."""
    has_header: bool = True
    types: Mapping[str, str] = field(default_factory=dict)
    """Column → Iceberg type; the others' types come from the whole file."""


class FileError(ValueError):
    """The file cannot be loaded; `line` is where, 0 for the whole file."""

    def __init__(self, message: str, *, code: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.code = code
        self.line = line


class Warnings:
    """What could not be kept of a file, or was read as something else, by column."""

    def __init__(self) -> None:
        self.by_column: dict[str, list[str]] = defaultdict(list)

    def add(self, column: str, message: str) -> None:
        """Add one; nothing of the file's values may be in it, since not everybody who sees it may see the column."""
        self.by_column[column].append(message)

    def sentences(self) -> list[str]:
        """Return the first of them, each with its column."""
        texts = [f"column {name!r}: {text}" for name, texts in self.by_column.items() for text in texts]
        left = len(texts) - MOST_WARNINGS
        return texts[:MOST_WARNINGS] + ([f"{left:,} more warnings about other columns"] if left > 0 else [])


class OpenedFile:
    """An opened file: its columns, its number of rows, and its rows once."""

    def __init__(
        self,
        schema: pa.Schema,
        rows: int,
        reader: Iterator[pa.RecordBatch],
        *,
        connection: duckdb.DuckDBPyConnection | None = None,
        warnings: Warnings | None = None,
    ) -> None:
        self.schema = schema
        self.rows = rows
        self.warnings = warnings or Warnings()
        self._reader = reader
        self._connection = connection
        self._nulls = [0] * len(schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        for batch in self._reader:
            self._nulls = [nulls + column.null_count for nulls, column in zip(self._nulls, batch.columns, strict=True)]
            yield batch

    def describe(self, table: Schema) -> tuple[LoadedColumn, ...]:
        """Return what the columns became in a table to which all rows have been written."""
        types = {fold(column.name): str(column.field_type) for column in table.fields}
        return tuple(
            LoadedColumn(name, types[fold(name)], nulls, tuple(self.warnings.by_column.get(name, ())[:MOST_WARNINGS]))
            for name, nulls in zip(self.schema.names, self._nulls, strict=True)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()


@dataclass(frozen=True)
class Sample:
    """The beginning of a file, for somebody to look at before it is loaded."""

    columns: Sequence[tuple[str, str]]
    """Names with the types that these rows suggest, in Iceberg's words for CSV."""
    rows: Sequence[Sequence[str | None]]
    delimiter: str = ""
    warnings: Sequence[str] = ()


def connect() -> duckdb.DuckDBPyConnection:
    """Open a DuckDB of bounded memory, for one file."""
    connection = duckdb.connect(
        config={"memory_limit": MEMORY_LIMIT, "temp_directory": "/tmp/upload", "threads": "2"}  # noqa: S108 - private
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def cut(row: Iterable[object]) -> list[str | None]:
    """Return the values of a row as texts that a page can show."""
    return [None if value is None else str(value)[:SHOWN_CHARACTERS] for value in row]


def check_width(columns: int) -> None:
    """Refuse a file of too many columns."""
    if columns > MOST_COLUMNS:
        message = f"the file has {columns:,} columns, more than the {MOST_COLUMNS:,} that a file may have"
        raise FileError(message, code="too_many_columns")


def is_blank(path: Path) -> bool:
    """Return whether a file holds nothing but white space."""
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            if chunk.strip(b"\xef\xbb\xbf\r\n\t "):
                return False
    return True


def check_content(path: Path) -> None:
    """Refuse a pointer of Git LFS: its text is not the file's content."""
    if lfs.is_pointer(path):
        raise FileError(lfs.EXPLANATION, code="lfs_pointer")


def refuse_empty() -> FileError:
    """Return the refusal of an empty file."""
    return FileError("the file is empty", code="empty_file")
