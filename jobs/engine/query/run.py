"""One query from its request to its stored result, in bounded time, memory and size."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING, Any

import duckdb

from jobs.engine.errors import DiffError, DiskLimitError, MemoryLimitError, RefusedQueryError, TimeLimitError
from jobs.engine.query.difference import NOT_COMPARED, ResultDifference, Stored, compare_results
from jobs.engine.query.result import StoredResult, store_result
from jobs.engine.query.statement import check_functions, check_names, cut_end, list_tables
from jobs.engine.query.tables import lock, view_table
from jobs.engine.read.connections import connect
from jobs.engine.write.artifact import ROWS, SUMMARY, write_json
from jobs.whole_files import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobs.engine.query.piped import PipedTables
    from jobs.protocol import QueryRequest

BASE_ROWS, DIFFERENCE = "base.parquet", "difference.parquet"
"""Beside the rows of the result, where there is a base."""


def run_query(request: QueryRequest, reader: PipedTables) -> dict[str, Any]:
    """Run a query over the tables of a reader and store its result in the request's folder; return the summary.

    Raises:
        DiffError: it cannot be run, or takes more than it may.

    """
    list_tables(request.sql)  # that it only reads
    check_functions(request.sql)
    folder = Path(request.folder)
    until = time.monotonic() + request.time_limit_s
    began = time.monotonic()
    result, rows_read = _run(request, reader, folder / ROWS, until=until, is_base=False)
    summary = {**result.as_json(), "rows_read": rows_read}
    if request.has_base:
        summary.update(_run_on_base(request, reader, result, folder, until=until))
    summary["seconds"] = round(time.monotonic() - began, 3)
    write_json(folder / SUMMARY, summary)
    return summary


def _run(
    request: QueryRequest, reader: PipedTables, path: Path, *, until: float, is_base: bool
) -> tuple[StoredResult, int | None]:
    """Run the query over the tables of one branch and store its result; return it, and how many rows of files were read."""
    reader.begin(seconds=until - time.monotonic())
    tables = reader.list_tables(is_base=is_base)
    check_names(request.sql, {name for table in tables for name in table.names})
    with whole_file(path) as partial, _connect(request, reader, until=until) as connection:
        for number, table in enumerate(tables):
            view_table(connection, table, number=number)
        lock(connection)
        result = store_result(
            connection.sql(cut_end(request.sql)),
            partial,
            row_limit=request.row_limit,
            byte_limit=request.byte_limit,
        )
    return result, None if result.is_cut else reader.rows_read


def _run_on_base(
    request: QueryRequest, reader: PipedTables, after: StoredResult, folder: Path, *, until: float
) -> dict[str, Any]:
    """Run the query over the base's tables, too, and compare: the parts of the summary that say what came of it."""
    try:
        before, rows_read = _run(request, reader, folder / BASE_ROWS, until=until, is_base=True)
    except DiffError as error:
        # The base may lack a column that the branch brings: what the branch gives is a result all the same.
        reason = f"On the base the query cannot be run: {error}"
        return {"base": None, "difference": ResultDifference(NOT_COMPARED, reason).as_json()}
    base = {**before.as_json(), "rows_read": rows_read}
    try:
        with _connect(request, reader, until=until) as connection:
            difference = compare_results(
                connection,
                before=Stored(before, folder / BASE_ROWS),
                after=Stored(after, folder / ROWS),
                path=folder / DIFFERENCE,
                row_limit=request.row_limit,
            )
    except DiffError as error:
        difference = ResultDifference(NOT_COMPARED, f"The two results cannot be compared: {error}")
    return {"base": base, "difference": difference.as_json()}


@contextmanager
def _connect(request: QueryRequest, reader: PipedTables, *, until: float) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database that takes no more than the request allows, and is stopped when the time is over."""
    spill = Path(request.folder) / ".spill"
    connection = connect(memory_bytes=request.memory_bytes, threads=request.threads, spill=spill)
    try:
        with _explaining(request, connection, reader, until=until):
            connection.execute(f"SET max_temp_directory_size = '{request.spill_bytes // 2**20}MiB'")
            yield connection
    finally:
        reader.end_scans()
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)


@contextmanager
def _explaining(
    request: QueryRequest, connection: duckdb.DuckDBPyConnection, reader: PipedTables, *, until: float
) -> Iterator[None]:
    """Say in one sentence why a query failed, and end it when its time is over."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeLimitError(_say_over_time(request))
    is_over = Event()

    def stop() -> None:
        is_over.set()
        connection.interrupt()
        reader.stop()

    timer = Timer(left, stop)
    timer.start()
    try:
        yield
    except (MemoryError, duckdb.OutOfMemoryException) as error:
        if "temp" in str(error) and "directory" in str(error):
            raise DiskLimitError("The query needs more room to spill than it may take.") from error
        raise MemoryLimitError("The query does not fit into the memory that it may take.") from error
    except duckdb.Error as error:
        if is_over.is_set():
            raise TimeLimitError(_say_over_time(request)) from error
        if reader.failure is not None:
            raise reader.failure from error
        raise RefusedQueryError(str(error)) from error
    finally:
        timer.cancel()


def _say_over_time(request: QueryRequest) -> str:
    return f"The query took longer than {request.time_limit_s:g} s and was stopped."
