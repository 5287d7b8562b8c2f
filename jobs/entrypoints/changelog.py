"""Store the changelog of a range of a table's history: a ChangelogRequest in, a folder and a DiffResult out.

    python -m jobs.entrypoints.changelog request.json

`rows.parquet` holds the rows as transforms get them, in the order of emission; `summary.json`, written last, the columns,
the counts by change type and which snapshot each ordinal means.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable, Table

from jobs.changelog import errors, read_changelog
from jobs.changelog.plan import ORDINAL, TYPE
from jobs.changelog.ranges import list_range, number_snapshots
from jobs.engine.errors import DiffError
from jobs.engine.read.metadata import find_head
from jobs.engine.write.artifact import ROWS, SUMMARY, write_json
from jobs.protocol import ChangelogRequest, DiffResult, ProtocolError, read_message, write_message
from jobs.whole_files import whole_file

_OK, _FAILED, _BAD_REQUEST = 0, 1, 2
_ROW_GROUP = 8_192


def main(path: str) -> int:
    """Run the request in the file at `path`; the exit code only says whether there is a changelog."""
    try:
        request = read_message(ChangelogRequest, path)
    except ProtocolError as error:
        sys.stderr.write(f"{error}\n")
        return _BAD_REQUEST
    result = _answer(request)
    if result.status == "failed":
        sys.stderr.write(f"{result.code}: {result.message}\n")
    write_message(request.result_path, result)
    return _OK if result.status == "ok" else _FAILED


def _answer(request: ChangelogRequest) -> DiffResult:
    try:
        return DiffResult(status="ok", summary=store_changelog(request))
    except (MemoryError, duckdb.OutOfMemoryException, pa.ArrowMemoryError):
        message = "This changelog does not fit into the memory of its process; ask for a shorter range."
        return DiffResult(status="failed", code="memory_limit", message=message)
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        message = f"A file of the table cannot be read: {error}"
        return DiffResult(status="failed", code="unreadable", message=message)
    except DiffError as error:
        return DiffResult(status="failed", code=error.code, message=str(error))  # type: ignore[arg-type]
    except ValueError as error:
        is_duplicate = request.keys is not None and str(error) == str(errors.duplicate_rows(request.keys))
        return DiffResult(status="failed", code="duplicate_rows" if is_duplicate else "refused", message=str(error))


def store_changelog(request: ChangelogRequest) -> dict[str, Any]:
    """Compute and store the changelog; returns the summary."""
    table = StaticTable.from_metadata(request.metadata_location, dict(request.io))
    rows = read_changelog(table, keys=request.keys, start=request.start, end=request.end, images=request.images)
    folder = Path(request.folder)
    with whole_file(folder / ROWS) as partial:
        pq.write_table(rows, partial, compression="zstd", row_group_size=_ROW_GROUP)
    counted = pc.value_counts(rows[TYPE]).to_pylist()
    summary = {
        "rows": rows.num_rows,
        "counts": {entry["values"]: entry["counts"] for entry in counted},
        "columns": [
            {"id": field.field_id, "name": field.name, "type": str(field.field_type), "required": field.required}
            for field in table.schema().fields
        ],
        "ordinals": _list_ordinals(table, request),
        "type_column": TYPE,
        "ordinal_column": ORDINAL,
    }
    write_json(folder / SUMMARY, summary)
    return summary


def _list_ordinals(table: Table, request: ChangelogRequest) -> list[dict[str, Any]]:
    """List which snapshot each ordinal of the range means, oldest first."""
    head = find_head(table.metadata)
    end = request.end if request.end is not None else (head.snapshot_id if head else None)
    snapshots = [] if end is None else list_range(table, request.start, end)
    return [
        {"ordinal": ordinal, "snapshot_id": str(snapshot.snapshot_id)}
        for ordinal, snapshot in number_snapshots(table, request.start, snapshots)
    ]


def _command_line() -> int:
    parser = argparse.ArgumentParser(prog="python -m jobs.entrypoints.changelog", description=__doc__.splitlines()[0])
    parser.add_argument("request", help="the file with the ChangelogRequest")
    return main(parser.parse_args().request)


if __name__ == "__main__":
    sys.exit(_command_line())
