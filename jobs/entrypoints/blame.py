"""Find who changed one row: a BlameRequest in, a folder and a DiffResult out.

    python -m jobs.entrypoints.blame request.json

`summary.json` lists the changes, newest first; `<n>-before.parquet` and `<n>-after.parquet` hold the rows of the n-th.
"""

from __future__ import annotations

import argparse
import sys

import duckdb

from jobs.engine.compare.blame import find_blame
from jobs.engine.errors import DiffError
from jobs.protocol import BlameRequest, DiffResult, ProtocolError, read_message, write_message

_OK, _FAILED, _BAD_REQUEST = 0, 1, 2


def main(path: str) -> int:
    """Run the request in the file at `path`; the exit code only says whether there is an answer."""
    try:
        request = read_message(BlameRequest, path)
    except ProtocolError as error:
        sys.stderr.write(f"{error}\n")
        return _BAD_REQUEST
    result = _answer(request)
    if result.status == "failed":
        sys.stderr.write(f"{result.code}: {result.message}\n")
    write_message(request.result_path, result)
    return _OK if result.status == "ok" else _FAILED


def _answer(request: BlameRequest) -> DiffResult:
    try:
        return DiffResult(status="ok", summary=find_blame(request))
    except DiffError as error:
        return DiffResult(status="failed", code=error.code, message=str(error))  # type: ignore[arg-type]
    except (MemoryError, duckdb.OutOfMemoryException):
        message = "The rows of this key do not fit into the memory of their process."
        return DiffResult(status="failed", code="memory_limit", message=message)
    except (OSError, duckdb.Error) as error:
        message = f"A file of the table cannot be read: {error}"
        return DiffResult(status="failed", code="unreadable", message=message)


def _command_line() -> int:
    parser = argparse.ArgumentParser(prog="python -m jobs.entrypoints.blame", description=__doc__.splitlines()[0])
    parser.add_argument("request", help="the file with the BlameRequest")
    return main(parser.parse_args().request)


if __name__ == "__main__":
    sys.exit(_command_line())
