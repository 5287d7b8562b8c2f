"""DescribePreviewRequest → DiffResult: what a preview has written, described and compared."""

from __future__ import annotations

import sys

import pyarrow as pa

from jobs.engine.errors import DiffError
from jobs.engine.query.preview import describe_outputs
from jobs.protocol import DescribePreviewRequest, DiffResult, read_message, write_message


def main(path: str) -> int:
    """Describe what the request in the file at `path` names; the exit code only says whether there is a result."""
    request = read_message(DescribePreviewRequest, path)
    result = _answer(request)
    if result.status == "failed":
        sys.stderr.write(f"{result.code}: {result.message}\n")
    write_message(request.result_path, result)
    return 0 if result.status == "ok" else 1


def _answer(request: DescribePreviewRequest) -> DiffResult:
    try:
        return DiffResult(status="ok", summary={"outputs": describe_outputs(request)})
    except DiffError as error:
        return DiffResult(status="failed", code=error.code, message=str(error))  # type: ignore[arg-type]
    except MemoryError:
        message = "What was written does not fit into the memory that a preview may take."
        return DiffResult(status="failed", code="memory_limit", message=message)
    except (OSError, pa.ArrowException) as error:
        return DiffResult(status="failed", code="unreadable", message=f"What was written cannot be read: {error}")
