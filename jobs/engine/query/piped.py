"""Tables that another process reads: DuckDB asks for columns and gets batches of rows, and this process opens no file.

The other side is `jobs.engine.query.serving`. It knows which columns the user can see, and it has no others to give.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from jobs.channel import Channel, Closed
from jobs.engine.errors import (
    DiffError,
    ExpiredSnapshotError,
    MemoryLimitError,
    RefusedQueryError,
    TimeLimitError,
    UnreadableTableError,
    UnsupportedTableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobs.channel import Heard

MOST_ANSWER_BYTES = 16 * 1024 * 1024
_FAILURES = {
    kind.code: kind
    for kind in (
        ExpiredSnapshotError,
        MemoryLimitError,
        RefusedQueryError,
        UnreadableTableError,
        UnsupportedTableError,
    )
}
_NAMES = re.compile(r"\b(?:x\d+|n)\b")
_TEST = re.compile(r"\(([a-z]\d*) (>=|<=|==|!=|>|<) ([^()]+)\)|is_valid\(([a-z]\d*)\)")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">": lambda column, value: column > value,
    "<": lambda column, value: column < value,
    ">=": lambda column, value: column >= value,
    "<=": lambda column, value: column <= value,
    "==": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
}


@dataclass(frozen=True)
class PipedColumn:
    """A column of a table as a user sees it."""

    name: str
    type: str
    """Of DuckDB."""
    alias: str
    """Its name in batches. Empty if the column is hidden."""


@dataclass(frozen=True)
class PipedTable:
    """A table as its reader describes it."""

    names: tuple[str, ...]
    columns: tuple[PipedColumn, ...]
    dataset: ds.Dataset


@dataclass
class PipedTables:
    """The reader's end of a channel, asked by the threads of DuckDB."""

    connection: socket.socket
    failure: DiffError | None = None
    """Why the reader could not go on."""
    rows_read: int = 0
    """Rows in the files of finished scans, and those received of others."""
    _lock: Lock = field(default_factory=Lock)
    _streams: set[socket.socket] = field(default_factory=set)
    _is_stopped: bool = False

    def __post_init__(self) -> None:
        self._channel = Channel(self.connection, at_most=MOST_ANSWER_BYTES)

    def begin(self, *, seconds: float) -> None:
        """Count rows from here on, and forget an earlier failure. Answers may take so long."""
        self.rows_read, self.failure = 0, None
        self._channel.allow(seconds)

    def list_tables(self, *, is_base: bool) -> list[PipedTable]:
        """Return the tables of the branch, or of the base.

        Raises:
            DiffError: one of them cannot be read.

        """
        count = int(self._ask({"ask": "count", "base": is_base}).body["tables"])
        return [self._describe(is_base=is_base, number=number) for number in range(count)]

    def stop(self) -> None:
        """End all scans, also those that begin later; threads that wait for rows get an error."""
        self._is_stopped = True
        self.end_scans()

    def end_scans(self) -> None:
        """End the scans that still run, such as those of a query that needs no more rows."""
        for stream in list(self._streams):
            _shut(stream)

    def _describe(self, *, is_base: bool, number: int) -> PipedTable:
        place = {"base": is_base, "table": number}
        heard = self._ask({"ask": "describe", **place})
        schema = pa.ipc.read_schema(pa.py_buffer(heard.payload))
        columns = tuple(PipedColumn(*column) for column in heard.body["columns"])
        return PipedTable(tuple(heard.body["names"]), columns, _Dataset(self, place, schema))

    def _ask(self, question: dict[str, Any]) -> Heard:
        with self._lock:
            try:
                self._channel.send(question)
                heard = self._channel.receive()
            except TimeoutError as error:
                self.failure = TimeLimitError("The tables could not be read in the time that the query has.")
                raise self.failure from error
            except (Closed, OSError) as error:
                self.failure = self.failure or UnreadableTableError("The process that reads the tables has ended.")
                raise self.failure from error
        if "failure" in heard.body:
            kind = _FAILURES.get(heard.body["failure"], UnreadableTableError)
            self.failure = kind(str(heard.body.get("message")))
            raise self.failure
        return heard

    def scan(self, place: dict[str, Any], columns: Sequence[str], tests: Sequence[Sequence[str]]) -> Iterator[Any]:
        """Yield the batches of one scan. It begins with the first batch that DuckDB asks for."""
        heard = self._ask({"ask": "scan", **place, "columns": list(columns), "tests": [list(test) for test in tests]})
        if heard.descriptor is None:
            raise UnreadableTableError("The process that reads the tables gave no rows.")
        received = 0
        with socket.socket(fileno=heard.descriptor) as stream:
            self._streams.add(stream)
            if self._is_stopped:
                _shut(stream)
            try:
                for batch in _read_batches(stream):
                    received += batch.num_rows
                    yield batch
                # A reader that fails closes the stream early, which can look like its end.
                received = self._finish(heard)
            except (pa.ArrowException, OSError) as error:
                _shut(stream)  # or the reader could wait for the rest to be taken
                self._finish(heard)
                self.failure = UnreadableTableError("The rows of a table could not be sent.")
                raise self.failure from error
            finally:
                self._streams.discard(stream)
                self.rows_read += received
                _shut(stream)

    def _finish(self, scan: Heard) -> int:
        """Return how many rows of files a scan has read.

        Raises:
            DiffError: it failed.

        """
        return int(self._ask({"ask": "finish", "scan": scan.body["scan"]}).body["rows"])


def _read_batches(stream: socket.socket) -> Iterator[pa.RecordBatch]:
    with stream.makefile("rb") as file, pa.ipc.open_stream(pa.PythonFile(file)) as batches:
        yield from batches


class _Dataset(ds.Dataset):  # type: ignore[misc]
    """A table for DuckDB, which asks it for a scan of some columns and rows."""

    def __init__(self, reader: PipedTables, place: dict[str, Any], schema: pa.Schema) -> None:
        self._reader = reader
        self._place = place
        self._columns = schema

    @property
    def schema(self) -> pa.Schema:
        return self._columns

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None) -> Any:
        """Scan columns; rows that the filter drops are dropped here, and by the reader if it understands the filter."""
        names = list(self._columns.names if columns is None else columns)
        needed = [*names]
        if filter is not None:
            needed += [name for name in dict.fromkeys(_NAMES.findall(str(filter))) if name not in names]
        needed = [name for name in needed if name in self._columns.names]
        fields = [self._columns.field(name) for name in needed]
        tests = [] if filter is None else read_tests(filter, self._columns)
        batches = self._reader.scan(self._place, needed, tests)
        rows = pa.RecordBatchReader.from_batches(pa.schema(fields), batches)
        return ds.Scanner.from_batches(rows, columns=names, filter=filter)


def read_tests(expression: pc.Expression, schema: pa.Schema) -> list[list[str]]:
    """Return a filter as comparisons that all hold, each [column, operator, value]; none if it is anything else.

    Arrow shows no parts of an expression, only its text. What was read from the text is put together and compared
    with the expression, so a text that was misread counts as one that was not understood.
    """
    tests = [
        [valid, "is_valid", ""] if valid else [name, operator, value.strip('"')]
        for name, operator, value, valid in _TEST.findall(str(expression))
    ]
    try:
        parts = [_build_test(test, schema) for test in tests]
    except (pa.ArrowException, KeyError, ValueError):
        return []
    return tests if any(joined.equals(expression) for joined in _join_tests(parts)) else []


def _build_test(test: Sequence[str], schema: pa.Schema) -> pc.Expression:
    name, operator, value = test
    column = pc.field(name)
    if operator == "is_valid":
        return column.is_valid()
    return _OPERATORS[operator](column, pc.scalar(pa.scalar(value).cast(schema.field(name).type)))


def _join_tests(parts: Sequence[pc.Expression]) -> Iterator[pc.Expression]:
    """Yield the ways in which DuckDB joins comparisons: from the first on, or from the last on."""
    if not parts:
        return
    joined = parts[0]
    for part in parts[1:]:
        joined = joined & part
    yield joined
    joined = parts[-1]
    for part in reversed(parts[:-1]):
        joined = part & joined
    yield joined


def _shut(stream: socket.socket) -> None:
    try:
        stream.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other side has closed it
