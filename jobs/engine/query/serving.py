"""The live rows of pinned tables for a process that runs a user's SQL: the columns that the user can see, and no others.

This side opens the files and never sees the SQL. It answers questions over a channel (jobs/channel.py), each with the
members `base` and `table`, which choose a table of the request:

``{"ask": "count", "base"}``: ``{"tables"}``.
``{"ask": "describe", ...}``: ``{"names", "columns"}``, each column [name, DuckDB type, alias], with the Arrow schema
behind it. The alias of a hidden column is empty: no question can name the column.
``{"ask": "scan", ..., "columns", "tests"}``: ``{"scan"}`` with a socket, on which the rows follow as an Arrow stream.
``{"ask": "finish", "scan"}`` after its end: ``{"rows"}``, how many rows of files were read.

The other side runs a user's text, so each question is checked. A failure is ``{"failure", "message"}``. Its message
names the dataset and never quotes a value or the path of a file: a path holds values of partition columns.
"""

from __future__ import annotations

import json
import socket
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from jobs.channel import Channel, Closed
from jobs.engine.errors import DiffError, ForeignFileError, MemoryLimitError, RefusedQueryError, UnreadableTableError
from jobs.engine.plan.planner import plan_diff
from jobs.engine.read.connections import connect
from jobs.engine.read.fields import duckdb_type, literal
from jobs.engine.read.scan import ScanColumn, Scanner
from jobs.protocol import fold_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.engine.read.live_files import LiveFile
    from jobs.engine.read.metadata import TableMetadata
    from jobs.protocol import QueryTable, ReadTablesRequest

MOST_QUESTION_BYTES = 1024 * 1024
MOST_SCANS = 64
"""At a time."""
_BATCH_ROWS = 8_192
_COUNTED = "n"
"""A column without values, so that rows can be counted even if all columns are hidden."""
_OPERATORS = {">": ">", "<": "<", ">=": ">=", "<=": "<=", "==": "=", "!=": "<>"}


@dataclass
class ServedTable:
    """A pinned table, planned once, with the columns that can be asked for."""

    table: QueryTable
    metadata: TableMetadata
    files: Sequence[LiveFile]
    columns: tuple[ScanColumn, ...]
    """All that DuckDB has a type for."""
    idle: list[duckdb.DuckDBPyConnection] = field(default_factory=list)
    """Databases in which its rows are a view, and which run no scan."""

    @classmethod
    def open(cls, table: QueryTable) -> ServedTable:
        """Read the metadata and manifests of a table.

        Raises:
            DiffError: it cannot be read, or has no columns.

        """
        plan = plan_diff(before=None, after=table.side, io_properties=table.io)
        if plan.after.metadata is None or plan.after.schema is None:
            raise RefusedQueryError(f"{table.names[0]} has no columns.")
        columns = tuple(
            ScanColumn(f"x{place}", column)
            for place, column in enumerate(plan.after.schema.fields)
            if duckdb_type(column.type) is not None
        )
        if not columns:
            raise RefusedQueryError(f"{table.names[0]} has no columns that can be read by SQL.")
        return cls(table, plan.after.metadata, plan.after_files, columns)

    @property
    def seen(self) -> dict[str, ScanColumn]:
        """The columns that the user can see, by alias."""
        return {
            column.alias: column for column in self.columns if fold_column(column.field.name) not in self.table.masked
        }

    def describe(self) -> list[list[str]]:
        """Return each column as [name, type, alias]; hidden ones have no alias."""
        return [
            [column.field.name, str(duckdb_type(column.field.type)), column.alias if column.alias in self.seen else ""]
            for column in self.columns
        ]

    def prepare(self, request: ReadTablesRequest, spill: Path) -> duckdb.DuckDBPyConnection:
        """Open a database that has the rows of the table as the view `rows`."""
        connection = connect(memory_bytes=request.memory_bytes, threads=request.threads, spill=spill)
        try:
            connection.execute(f"SET max_temp_directory_size = '{request.spill_bytes // 2**20}MiB'")
            connection.execute("SET enable_profiling = 'no_output'")
            scanner = Scanner(connection, self.metadata, self.table.io)
            scanner.load_positions("dead", self.files)
            # rows are counted by any column, which is not read for that
            read = list(self.seen.values()) or list(self.columns[:1])
            live = scanner.live_rows(self.files, read, dead="dead")
            values = ", ".join([f"0::TINYINT AS {_COUNTED}", *self.seen])
            end = " WHERE false" if self.table.is_empty else ""
            connection.execute(f"CREATE TEMP VIEW rows AS SELECT {values} FROM ({live}) live{end}")
        except BaseException:
            connection.close()
            raise
        return connection

    def select(self, columns: Sequence[str], tests: Sequence[Sequence[str]]) -> str:
        """Return the SQL of one scan.

        Raises:
            RefusedQueryError: a name is no visible column, or an operator is unknown.

        """
        visible = {_COUNTED, *self.seen}
        names = [*columns, *(test[0] for test in tests)]
        if not columns or not visible.issuperset(names):
            raise RefusedQueryError("A scan names columns that are not there.")
        where = " AND ".join(self._write_test(*test) for test in tests)
        return f"SELECT {', '.join(columns)} FROM rows{f' WHERE {where}' if where else ''}"

    def _write_test(self, name: str, operator: str, value: str) -> str:
        if operator == "is_valid":
            return f"{name} IS NOT NULL"
        if operator not in _OPERATORS or name not in self.seen:
            raise RefusedQueryError("A scan compares in an unknown way.")
        return f"{name} {_OPERATORS[operator]} CAST({literal(value)} AS {duckdb_type(self.seen[name].field.type)})"


@dataclass
class _Scan:
    """One scan: the thread that sends it leaves here how it ended."""

    rows: int = 0
    failure: DiffError | None = None
    is_abandoned: bool = False
    """Whether the query needed no more of its rows, so that nobody asks for its end."""
    thread: Thread | None = None


class TableServer:
    """Answers one process until that closes the channel."""

    def __init__(self, request: ReadTablesRequest, connection: socket.socket) -> None:
        self._request = request
        self._channel = Channel(connection, at_most=MOST_QUESTION_BYTES)
        self._served: dict[tuple[bool, int], ServedTable] = {}
        self._scans: dict[int, _Scan] = {}
        self._numbers = count()
        self._lock = Lock()

    def serve(self) -> None:
        """Answer until nobody asks."""
        with suppress(Closed, OSError):
            while True:
                question = self._channel.receive().body
                try:
                    self._answer(question)
                except (DiffError, duckdb.Error, pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
                    self._refuse(_explain(error, self._name(question)))

    def _refuse(self, failure: DiffError) -> None:
        self._channel.send({"failure": failure.code, "message": str(failure)})

    def _answer(self, question: dict[str, Any]) -> None:
        match question["ask"]:
            case "count":
                self._channel.send({"tables": len(self._list_tables(is_base=bool(question["base"])))})
            case "describe":
                self._describe(self._find(question))
            case "scan":
                self._scan(self._find(question), question)
            case "finish":
                scan = self._scans.pop(int(question["scan"]))
                if scan.thread is not None:
                    scan.thread.join()
                if scan.failure is None:
                    self._channel.send({"rows": scan.rows})
                else:
                    self._refuse(scan.failure)
            case _:
                raise RefusedQueryError("Unknown question.")

    def _list_tables(self, *, is_base: bool) -> Sequence[QueryTable]:
        return (self._request.base or ()) if is_base else self._request.tables

    def _name(self, question: dict[str, Any]) -> str:
        """Return the table that a question is about, as the user calls it."""
        try:
            return self._list_tables(is_base=bool(question["base"]))[int(question["table"])].names[0]
        except (KeyError, IndexError, TypeError, ValueError):
            return "a table"

    def _find(self, question: dict[str, Any]) -> ServedTable:
        place = (bool(question["base"]), int(question["table"]))
        if place not in self._served:
            tables = self._list_tables(is_base=place[0])
            if not 0 <= place[1] < len(tables):
                raise RefusedQueryError("There is no such table in this query.")
            self._served[place] = ServedTable.open(tables[place[1]])
        return self._served[place]

    def _take(self, served: ServedTable) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if served.idle:
                return served.idle.pop()
        return served.prepare(self._request, Path(self._request.folder) / f".spill-{next(self._numbers)}")

    def _describe(self, served: ServedTable) -> None:
        connection = self._take(served)
        schema = connection.sql(served.select([_COUNTED, *served.seen], ())).limit(0).to_arrow_reader(1).schema
        served.idle.append(connection)
        names = {"names": list(served.table.names), "columns": served.describe()}
        self._channel.send(names, payload=schema.serialize().to_pybytes())

    def _scan(self, served: ServedTable, question: dict[str, Any]) -> None:
        sql = served.select(question["columns"], question["tests"])
        self._scans = {number: scan for number, scan in self._scans.items() if not scan.is_abandoned}
        if sum(scan.thread is not None and scan.thread.is_alive() for scan in self._scans.values()) >= MOST_SCANS:
            raise RefusedQueryError(f"A query reads its tables in at most {MOST_SCANS} places at a time.")
        connection = self._take(served)
        number, scan = next(self._numbers), _Scan()
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        scan.thread = Thread(target=self._send, args=(scan, served, connection, sql, near), daemon=True)
        self._scans[number] = scan
        scan.thread.start()
        with closing(far):
            self._channel.send({"scan": number}, descriptor=far.fileno())

    def _send(
        self, scan: _Scan, served: ServedTable, connection: duckdb.DuckDBPyConnection, sql: str, stream: socket.socket
    ) -> None:
        """Send the rows of a scan, until its end or until nobody takes them."""
        is_finished = False
        try:
            with closing(stream), stream.makefile("wb") as file:
                with (
                    connection.sql(sql).to_arrow_reader(_BATCH_ROWS) as batches,
                    pa.ipc.new_stream(pa.PythonFile(file), batches.schema) as sink,
                ):
                    for batch in batches:
                        sink.write_batch(batch)
                scan.rows = count_read(connection) or 0
                is_finished = True
        except (BrokenPipeError, ConnectionResetError):
            scan.is_abandoned = True
        except Exception as error:  # whatever libraries raise over files that others wrote
            scan.failure = _explain(error, served.table.names[0])
        finally:
            if is_finished:
                served.idle.append(connection)
            else:
                connection.close()


def count_read(connection: duckdb.DuckDBPyConnection) -> int | None:
    """Return how many rows of files the last query read; None if it was cut off before its end."""
    left: list[Any] = [json.loads(connection.get_profiling_information(format="json"))]
    if "operator" not in left[0]:
        return None
    rows = 0
    while left:
        node = left.pop()
        if isinstance(node, dict):
            if (node.get("extra_info") or {}).get("Function") == "READ_PARQUET":
                rows += node.get("rows_scanned") or 0
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)
    return rows


def _explain(error: Exception, name: str) -> DiffError:
    """Return a failure whose text quotes nothing that was read."""
    if isinstance(error, RefusedQueryError):  # its text is of this module
        return error
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException):
        return MemoryLimitError("The query does not fit into the memory that it may take.")
    if isinstance(error, ForeignFileError):
        return ForeignFileError(f"{name} cannot be read: it lists a file of another table.")
    if isinstance(error, DiffError):
        return type(error)(f"{name} cannot be read: its files are missing, damaged or of a kind that is not read here.")
    return UnreadableTableError(f"{name} cannot be read: one of its files is missing or damaged.")
