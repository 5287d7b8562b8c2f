"""One diff from its request to its artifact, in bounded memory with spill."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from jobs.engine.compare.changes import find_changes
from jobs.engine.compare.compared_rows import view_rows
from jobs.engine.compare.comparison import RowComparison
from jobs.engine.compare.decoded import check_decoded
from jobs.engine.compare.file_rows import FileRows
from jobs.engine.compare.lineage import count_versions
from jobs.engine.compare.reduced import Reduction
from jobs.engine.compare.summary import summarize
from jobs.engine.errors import DiskLimitError, MemoryLimitError, UnreadableTableError
from jobs.engine.measure import statistics
from jobs.engine.plan.planner import plan_diff
from jobs.engine.plan.router import Decision
from jobs.engine.plan.rules import check_tolerance, read_filter
from jobs.engine.read.connections import connect, first_row
from jobs.engine.write import artifact
from jobs.engine.write.changed_rows import write_changed_rows
from jobs.protocol import DiffRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobs.engine.plan.planner import DiffPlan

    Reduce = Callable[[RowComparison], Reduction]
    OnConnect = Callable[[duckdb.DuckDBPyConnection | None], None]

_LARGE_BYTES = 256 * 2**20
"""Compressed bytes to compare, from which on counts by row ids are there seconds before the compared ones."""
_MIB_OF_A_COLUMN = 2
"""Buffers of both images of a column, however few rows there are: beyond the first hundred they have memory of their own."""
_FEW_COLUMNS = 100
_MOST_MIB = 2048


def run_diff(
    request: DiffRequest, *, on_connect: OnConnect | None = None, reduce: Reduce | None = None
) -> dict[str, Any]:
    """Make the artifact of one diff; returns its summary.

    `on_connect` gets the connection, to interrupt it from another thread, and None before it is closed. `reduce` may
    have another executor find the rows that differ; without it this process reads all of them.
    """
    folder = Path(request.folder)
    spill = folder / ".spill"
    progress = artifact.ProgressReporter(folder)
    connection = connect(
        memory_bytes=request.memory_bytes, threads=request.threads, spill=spill, preserve_insertion_order=False
    )
    try:
        if on_connect is not None:
            on_connect(connection)
        with _explaining(connection, progress):
            return _make_artifact(_plan_comparison(request, connection, progress), reduce)
    finally:
        if on_connect is not None:
            on_connect(None)
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)


def _plan_comparison(
    request: DiffRequest, connection: duckdb.DuckDBPyConnection, progress: artifact.ProgressReporter
) -> RowComparison:
    progress.enter("planning")
    check_tolerance(request.tolerance)
    plan = plan_diff(
        before=request.before,
        after=request.after,
        key=request.key or (),
        ignore=request.ignore,
        row_filter=read_filter(request.row_filter),
        tolerances=request.tolerance,
        io_properties=request.io,
    )
    return RowComparison(request, FileRows(connection, plan, request.io), progress)


def _make_artifact(comparison: RowComparison, reduce: Reduce | None) -> dict[str, Any]:
    request, plan, progress = comparison.request, comparison.plan, comparison.progress
    connection, folder = comparison.connection, progress.folder
    artifact.write_json(folder / artifact.SCHEMA, artifact.describe_schema(plan, request.before, request.after))
    progress.enter("comparing", files=plan.files, bytes=plan.bytes, rows=plan.rows, executor="embedded")
    _make_room_for_columns(connection, plan, request.memory_bytes)
    reduction = _reduce(comparison, reduce)
    rows = view_rows(comparison, reduction.reduced)
    summary = summarize(rows, find_changes(rows), reduction.decision)
    progress.enter("writing", summary=summary)
    write_changed_rows(connection, folder, plan.rules, summary)
    progress.enter("statistics")
    ends = statistics.Measurable(
        connection, plan.rules, request.memory_bytes, whole=comparison.files.whole, elsewhere=reduction.measured
    )
    measured, warnings = statistics.collect(ends, summary)
    artifact.write_json(folder / artifact.STATISTICS, measured)
    summary["warnings"] += warnings
    progress.enter("ready")
    summary["timings_s"] = progress.timings
    artifact.write_json(folder / artifact.SUMMARY, summary)
    return summary


def _make_room_for_columns(connection: duckdb.DuckDBPyConnection, plan: DiffPlan, memory_bytes: int) -> None:
    usual = memory_bytes // 2**20
    wide = min(usual + (len(plan.pairs) - _FEW_COLUMNS) * _MIB_OF_A_COLUMN, _MOST_MIB)
    if wide > usual:
        connection.execute(f"SET memory_limit = '{wide}MiB'")


def _reduce(comparison: RowComparison, reduce: Reduce | None) -> Reduction:
    """Have whoever else can do it find the rows that differ; what this process reads must not be too much for it."""
    files, progress = comparison.files, comparison.progress
    check_decoded(files, with_rows=reduce is None)
    if comparison.plan.bytes >= _LARGE_BYTES:
        progress.enter("comparing", by_row_ids=count_versions(files))
    if reduce is None:
        return Reduction(Decision("embedded", ""))
    reduction = reduce(comparison)
    progress.enter("comparing", executor=reduction.decision.executor)
    if reduction.decision.executor == "embedded":
        check_decoded(files, with_rows=True)
    return reduction


@contextmanager
def _explaining(connection: duckdb.DuckDBPyConnection, progress: artifact.ProgressReporter) -> Iterator[None]:
    """Say what failed in DuckDB as people read it."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        if "max_temp_directory_size" in str(error) or "No space left" in str(error):
            raise DiskLimitError("There is no room left on the disk to compare these rows.") from error
        raise MemoryLimitError(
            f"Comparing {progress.facts.get('rows', 'these')} rows does not fit into {_read_limit(connection)} of memory."
        ) from error
    except duckdb.IOException as error:
        if "No space left" in str(error):
            raise DiskLimitError("There is no room left on the disk to compare these rows.") from error
        raise UnreadableTableError(f"A file of the table cannot be read: {error}") from error
    except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
        raise UnreadableTableError(f"A file of the table does not fit its schema: {error}") from error


def _read_limit(connection: duckdb.DuckDBPyConnection) -> str:
    return str(first_row(connection, "SELECT current_setting('memory_limit')")[0]).replace(".0 ", " ")
