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

from jobs.engine.errors import DiskLimitError, MemoryLimitError, RefusedQueryError, TimeLimitError
from jobs.engine.query.result import store_result
from jobs.engine.query.statement import check_functions, cut_end, list_tables
from jobs.engine.query.tables import lock, view_table
from jobs.engine.read.connections import connect
from jobs.engine.write.artifact import ROWS, SUMMARY, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobs.protocol import QueryRequest


def run_query(request: QueryRequest) -> dict[str, Any]:
    """Run a query over its tables and store its result in the request's folder; return the summary.

    Raises:
        DiffError: it cannot be run, or takes more than it may.

    """
    list_tables(request.sql)  # that it only reads
    if any(table.masked for table in request.tables):
        check_functions(request.sql)
    folder = Path(request.folder)
    spill = folder / ".spill"
    connection = connect(memory_bytes=request.memory_bytes, threads=request.threads, spill=spill)
    try:
        with _explaining(request, connection):
            return _run(request, connection, folder)
    finally:
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)


def _run(request: QueryRequest, connection: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, Any]:
    connection.execute(f"SET max_temp_directory_size = '{request.spill_bytes // 2**20}MiB'")
    viewed = [view_table(connection, table, number=number) for number, table in enumerate(request.tables)]
    connection.execute("SET enable_profiling = 'no_output'")
    lock(connection, [path for table in viewed for path in table.paths])
    began = time.monotonic()
    result = store_result(
        connection.sql(cut_end(request.sql)),
        folder / f".{ROWS}",
        row_limit=request.row_limit,
        byte_limit=request.byte_limit,
    )
    summary = {
        **result.as_json(),
        "rows_read": _count_read(connection),
        "seconds": round(time.monotonic() - began, 3),
    }
    (folder / f".{ROWS}").replace(folder / ROWS)
    write_json(folder / SUMMARY, summary)
    return summary


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
def _explaining(request: QueryRequest, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Say in one sentence why a query failed, and end it when its time is over."""
    is_over = Event()

    def stop() -> None:
        is_over.set()
        connection.interrupt()

    timer = Timer(request.time_limit_s, stop)
    timer.start()
    try:
        yield
    except (MemoryError, duckdb.OutOfMemoryException) as error:
        if "temp" in str(error) and "directory" in str(error):
            raise DiskLimitError("The query needs more room to spill than it may take.") from error
        raise MemoryLimitError("The query does not fit into the memory that it may take.") from error
    except duckdb.Error as error:
        if is_over.is_set():
            message = f"The query took longer than {request.time_limit_s:g} s and was stopped."
            raise TimeLimitError(message) from error
        raise RefusedQueryError(str(error)) from error
    finally:
        timer.cancel()
