"""UploadManifest -> JobResult: staged files into one table, in their order, all or nothing, in the sandbox."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import requests
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, RESTError, ServiceUnavailableError
from pyiceberg.table import Table

from jobs.engine.plan.counts import count_rows
from jobs.engine.read.catalog import open_catalog
from jobs.engine.read.files import open_file
from jobs.engine.read.opened import MOST_WARNINGS, CsvFormat, FileError
from jobs.engine.write.schemas import SchemaError
from jobs.engine.write.writer import Written, write_table
from jobs.entrypoints.address_space import leave_room
from jobs.protocol import (
    JobError,
    JobResult,
    LoadedColumn,
    OutputResult,
    Progress,
    StagedFile,
    UploadManifest,
    read_message,
    write_message,
)
from jobs.transforms.context import say

FAILED = 1
APPEND = "append"
ROOM_BYTES = 2 * 1024**3
"""For DuckDB's gigabyte, and for what is decoded and written."""


def main(manifest_path: str) -> int:
    """Read an UploadManifest, load the files, write the JobResult. 0 when it is ok."""
    manifest = read_message(UploadManifest, manifest_path)
    leave_room(ROOM_BYTES)
    try:
        result = upload(manifest)
    except FileError as error:
        result = _failed(str(error), code=error.code, line=error.line)
    except SchemaError as error:
        result = _failed(str(error), code="schema")
    except (CommitFailedException, ServiceUnavailableError) as error:
        # not the file's fault: the worker runs the job again
        result = _failed(f"the catalog is busy: {error}", code=type(error).__name__)
    except (RESTError, NoSuchTableError, requests.RequestException) as error:
        result = _failed(f"the catalog refused the write: {error}", code="catalog")
    except (MemoryError, duckdb.OutOfMemoryException):  # Arrow's own is both, so this comes first
        result = _failed("the file needs more memory than an upload may use", code="memory")
    except (pa.ArrowException, OSError) as error:
        result = _explain(error)
    write_message(manifest.result_path, result)
    return 0 if result.status == "ok" else FAILED


def _explain(error: Exception) -> JobResult:
    """Say what an error means; Arrow keeps the number of the system's error in its text alone."""
    if os.strerror(errno.ENOSPC) in str(error) or os.strerror(errno.EDQUOT) in str(error):
        return _failed("the warehouse is full: nothing was loaded; free some space and try again", code="storage_full")
    return _failed(f"the file cannot be read: {error}", code="broken_file")


def upload(manifest: UploadManifest) -> JobResult:
    """Load each file as one snapshot on the staging branch."""
    catalog = open_catalog(uri=manifest.catalog_uri, token=manifest.token, branch=manifest.branch)
    rows, snapshot_id = 0, None
    columns: dict[str, LoadedColumn] = {}
    for number, staged in enumerate(manifest.files, start=1):
        _check_bytes(staged)
        if len(manifest.files) > 1:
            say(f"file {number} of {len(manifest.files)}, {staged.mode}")
        table = catalog.load_table(manifest.table)
        written, loaded = _load_file(table, staged, manifest)
        rows, snapshot_id = rows + written.rows, written.snapshot_id
        columns = _combine(columns if staged.mode == APPEND else {}, loaded)
    say(f"wrote {rows:,} rows to {manifest.path} on the staging branch")
    output = OutputResult(
        rows=count_rows(table),
        snapshot_id=snapshot_id,
        added_rows=rows,
        mode="append" if all(staged.mode == APPEND for staged in manifest.files) else "replace",
        columns=tuple(columns.values()),
    )
    return JobResult("ok", outputs={manifest.path: output})


def _check_bytes(staged: StagedFile) -> None:
    """Refuse a file that is not what was loaded, and reviewed, before."""
    if not staged.sha256:
        return
    with Path(staged.file).open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != staged.sha256:
            message = "the file that was kept has other bytes than what was loaded on the branch; load it there again"
            raise FileError(message, code="file_changed")


def _combine(columns: Mapping[str, LoadedColumn], loaded: Iterable[LoadedColumn]) -> dict[str, LoadedColumn]:
    """Add the columns of one more file to those of the files that its rows are appended to."""
    combined = dict(columns)
    for column in loaded:
        earlier = combined.get(column.name)
        nulls = column.nulls + (earlier.nulls if earlier else 0)
        warnings = dict.fromkeys([*(earlier.warnings if earlier else ()), *column.warnings])
        combined[column.name] = replace(column, nulls=nulls, warnings=tuple(warnings)[:MOST_WARNINGS])
    return combined


def _load_file(table: Table, staged: StagedFile, manifest: UploadManifest) -> tuple[Written, tuple[LoadedColumn, ...]]:
    """Read one file into a table as one snapshot."""
    is_append = staged.mode == APPEND
    form = CsvFormat(staged.delimiter, staged.has_header, staged.types)
    with open_file(Path(staged.file), staged.format, form, table.schema() if is_append else None) as source:
        say(f"read {source.rows:,} rows, {len(source.schema.names)} columns: {_columns(source.schema)}")
        for sentence in source.warnings.sentences():
            say(f"warning: {sentence}")
        batches = _watch(source.batches(), manifest.result_path, source.rows)
        written = write_table(table, source.schema, batches, is_append=is_append, job_id=manifest.job_id)
        return written, source.describe(table.schema())


def _watch(batches: Iterator[pa.RecordBatch], result_path: str, total: int) -> Iterator[pa.RecordBatch]:
    done = reported = 0
    path = Path(result_path).with_name(Progress.FILE)
    for batch in batches:
        yield batch
        done += batch.num_rows
        if done - reported > total // 50:
            reported = done
            write_message(path, Progress(done, total, "rows"))


def _columns(schema: pa.Schema) -> str:
    shown = [f"{field.name} {field.type}" for field in schema]
    return ", ".join(shown[:30]) + (f" and {len(shown) - 30} more" if len(shown) > 30 else "")


def _failed(message: str, *, code: str, line: int = 0) -> JobResult:
    say(f"Error: {message}")
    return JobResult("failed", error=JobError(message, line=line, code=code))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
