"""One query from its request to its stored result, in bounded time, memory and size."""

from __future__ import annotations

import json
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
from jobs.engine.query.statement import check_functions, cut_end, list_tables
from jobs.engine.query.tables import lock, view_table
from jobs.engine.read.connections import connect
from jobs.engine.write.artifact import ROWS, SUMMARY, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobs.protocol import QueryRequest, QueryTable

BASE_ROWS, DIFFERENCE = "base.parquet", "difference.parquet"
"""Beside the rows of the result, where there is a base."""


def run_query(request: QueryRequest) -> dict[str, Any]:
    """Run a query over its tables and store its result in the request's folder; return the summary.

    Raises:
        DiffError: it cannot be run, or takes more than it may.

    """
    list_tables(request.sql)  # that it only reads
    if any(table.masked for table in (*request.tables, *(request.base or ()))):
        check_functions(request.sql)
    folder = Path(request.folder)
    until = time.monotonic() + request.time_limit_s
    began = time.monotonic()
    result, rows_read = _run(request, request.tables, folder / ROWS, until=until)
    summary = {**result.as_json(), "rows_read": rows_read}
    if request.base is not None:
        summary.update(_run_on_base(request, request.base, result, folder, until=until))
    summary["seconds"] = round(time.monotonic() - began, 3)
    write_json(folder / SUMMARY, summary)
    return summary


def _run(
    request: QueryRequest, tables: Sequence[QueryTable], path: Path, *, until: float
) -> tuple[StoredResult, int | None]:
    """Run the query over some tables and store its result; return it, and how many rows of files were read."""
    with _connect(request, until=until) as connection:
        viewed = [view_table(connection, table, number=number) for number, table in enumerate(tables)]
        connection.execute("SET enable_profiling = 'no_output'")
        lock(connection, [path for table in viewed for path in table.paths])
        partial = path.with_name(f".{path.name}")
        result = store_result(
            connection.sql(cut_end(request.sql)),
            partial,
            row_limit=request.row_limit,
            byte_limit=request.byte_limit,
        )
        rows_read = _count_read(connection)
    partial.replace(path)
    return result, rows_read


def _run_on_base(
    request: QueryRequest, tables: Sequence[QueryTable], after: StoredResult, folder: Path, *, until: float
) -> dict[str, Any]:
    """Run the query over the base's tables, too, and compare: the parts of the summary that say what came of it."""
    try:
        before, rows_read = _run(request, tables, folder / BASE_ROWS, until=until)
    except DiffError as error:
        # The base may lack a column that the branch brings: what the branch gives is a result all the same.
        reason = f"On the base the query cannot be run: {error}"
        return {"base": None, "difference": ResultDifference(NOT_COMPARED, reason).as_json()}
    base = {**before.as_json(), "rows_read": rows_read}
    try:
        with _connect(request, until=until) as connection:
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
def _connect(request: QueryRequest, *, until: float) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database that takes no more than the request allows, and is stopped when the time is over."""
    spill = Path(request.folder) / ".spill"
    connection = connect(memory_bytes=request.memory_bytes, threads=request.threads, spill=spill)
    try:
        with _explaining(request, connection, until=until):
            connection.execute(f"SET max_temp_directory_size = '{request.spill_bytes // 2**20}MiB'")
            yield connection
    finally:
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)


def _count_read(connection: duckdb.DuckDBPyConnection) -> int | None:
    """Return how many rows of files the last query read; None where it was cut off before its end."""
    left: list[Any] = [json.loads(connection.get_profiling_information(format="json"))]
    if "operator" not in left[0]:
        return None
    count = 0
    while left:
        node = left.pop()
        if isinstance(node, dict):
            if (node.get("extra_info") or {}).get("Function") == "READ_PARQUET":
                count += node.get("rows_scanned") or 0
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)
    return count


@contextmanager
def _explaining(request: QueryRequest, connection: duckdb.DuckDBPyConnection, *, until: float) -> Iterator[None]:
    """Say in one sentence why a query failed, and end it when its time is over."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeLimitError(_say_over_time(request))
    is_over = Event()

    def stop() -> None:
        is_over.set()
        connection.interrupt()

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
        raise RefusedQueryError(str(error)) from error
    finally:
        timer.cancel()


def _say_over_time(request: QueryRequest) -> str:
    return f"The query took longer than {request.time_limit_s:g} s and was stopped."
