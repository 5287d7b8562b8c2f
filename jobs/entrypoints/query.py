"""Run SQL of people over pinned tables: a QueryRequest in, a folder and a DiffResult out.

    python -m jobs.entrypoints.query request.json

This process sees no file of a table: another one reads them for it (jobs/entrypoints/tables.py).

`rows.parquet` holds the first rows of the result; `summary.json`, written last, its columns, how many rows there are and how
many were read. With a base, `base.parquet` has its result and `difference.parquet` the rows that differ.
"""

from __future__ import annotations

import socket
import sys

from jobs.channel import NUMBER
from jobs.engine.errors import DiffError
from jobs.engine.query.piped import PipedTables
from jobs.engine.query.run import run_query
from jobs.protocol import DiffResult, ProtocolError, QueryRequest, read_message, write_message

_OK, _FAILED, _BAD_REQUEST = 0, 1, 2


def main(path: str) -> int:
    """Run the request in the file at `path`; the exit code only says whether there is a result."""
    try:
        request = read_message(QueryRequest, path)
    except ProtocolError as error:
        sys.stderr.write(f"{error}\n")
        return _BAD_REQUEST
    result = _answer(request)
    if result.status == "failed":
        sys.stderr.write(f"{result.code}: {result.message}\n")
    write_message(request.result_path, result)
    return _OK if result.status == "ok" else _FAILED


def _answer(request: QueryRequest) -> DiffResult:
    try:
        return DiffResult(status="ok", summary=run_query(request, PipedTables(socket.socket(fileno=NUMBER))))
    except DiffError as error:
        return DiffResult(status="failed", code=error.code, message=str(error))  # type: ignore[arg-type]
    except MemoryError:
        message = "The query does not fit into the memory that it may take."
        return DiffResult(status="failed", code="memory_limit", message=message)
    except OSError as error:
        return DiffResult(status="failed", code="unreadable", message=f"The result cannot be stored: {error.strerror}.")
