"""TakeSamplesRequest → DiffResult: the first rows of tables, taken for a preview.

No code of a repository runs here: this process sees the files of the tables, and those that run the code do not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jobs.engine.errors import DiffError
from jobs.engine.read.file_io import TableFileIO
from jobs.engine.read.first_rows import read_sample
from jobs.parsing import load_json
from jobs.protocol import DiffResult, TakeSamplesRequest, read_message, write_message
from jobs.transforms.sampled import write_sample


def main(path: str) -> int:
    """Take the samples that the request in the file at `path` asks for; the exit code only says whether there are some."""
    request = read_message(TakeSamplesRequest, path)
    result = _take(request)
    write_message(request.result_path, result)
    return 0 if result.status == "ok" else 1


def _take(request: TakeSamplesRequest) -> DiffResult:
    samples = {}
    for table in request.tables:
        try:
            metadata = load_json(Path(table.metadata_location).read_bytes())
            sample = read_sample(
                metadata,
                TableFileIO(table.io, metadata["location"]),
                masked=table.masked,
                row_limit=request.row_limit,
                byte_limit=request.byte_limit,
            )
            write_sample(sample, table.file)
        except MemoryError:
            message = f"The first rows of {table.path} do not fit into the memory that a preview may take."
            return DiffResult(status="failed", code="memory_limit", message=message)
        except DiffError as error:
            return DiffResult(status="failed", code=error.code, message=f"{table.path}: {error}")  # type: ignore[arg-type]
        except Exception as error:  # what libraries raise over such files is not written anywhere
            sys.stderr.write(f"{table.path}: {error}\n")
            message = f"The files of {table.path} cannot be read: {type(error).__name__}."
            return DiffResult(status="failed", code="unreadable", message=message)
        samples[table.path] = {"rows": sample.rows.num_rows, "is_whole": sample.is_whole}
    return DiffResult(status="ok", summary=samples)
