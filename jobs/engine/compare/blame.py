"""Which transactions changed the row of one key, newest first.

Each step compares a transaction with what it stands on. Only the files that differ between the two are looked at, of
them only those whose bounds can hold the key, and of them only the rows with the key; so a step costs what its
transaction wrote near that key. A row that was only carried over or rewritten with equal values is no change.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.engine.compare.key_change import find_key_change
from jobs.engine.compare.row_key import KeyBounds, bind_key
from jobs.engine.errors import ExpiredSnapshotError
from jobs.engine.plan.planner import plan_diff
from jobs.engine.read.connections import connect
from jobs.engine.write.artifact import PROGRESS, SUMMARY, write_json

if TYPE_CHECKING:
    import duckdb

    from jobs.engine.compare.row_key import RowKey
    from jobs.engine.plan.planner import DiffPlan
    from jobs.protocol import BlameRequest, BlameStep


def find_blame(request: BlameRequest) -> dict[str, Any]:
    """Look at the steps until they or the time are over; returns the summary."""
    folder, deadline = Path(request.folder), time.monotonic() + request.time_limit_s
    changes: list[dict[str, Any]] = []
    looked_at, files_read, following, ended = 0, 0, None, ""
    with _connect(request) as connection:
        bounds: KeyBounds | None = None
        for step in request.steps:
            if looked_at and time.monotonic() > deadline:
                following = step.transaction
                break
            try:
                whole = _plan(request, step)
            except ExpiredSnapshotError:
                ended = "expired"
                break
            # fixed where the walk begins
            bounds = bounds or KeyBounds(bind_key(request.key, whole, connection), connection)
            plan = bounds.prune(whole)
            change = None if plan.is_empty else _look(request, plan, bounds.key, len(changes))
            looked_at += 1
            files_read += plan.files
            changes += [{"transaction": step.transaction, **change}] if change is not None else []
            write_json(folder / PROGRESS, {"phase": "looking", "steps": looked_at, "changes": len(changes)})
    summary = {
        "changes": changes,
        "looked_at": looked_at,
        "next": following,
        "ended": ended,
        "files_read": files_read,
    }
    write_json(folder / SUMMARY, summary)
    return summary


def _plan(request: BlameRequest, step: BlameStep) -> DiffPlan:
    return plan_diff(before=step.before, after=step.after, ignore=request.ignore, io_properties=request.io)


def _look(request: BlameRequest, plan: DiffPlan, key: RowKey, number: int) -> dict[str, Any] | None:
    """Compare one transaction with what it stands on, and store both ends' rows of the key where they differ."""
    with _connect(request) as connection:
        change = find_key_change(connection, plan, key, request.io)
        described = change.describe()
        if described is not None:
            change.store(Path(request.folder), number)
    return described


def _connect(request: BlameRequest) -> duckdb.DuckDBPyConnection:
    return connect(memory_bytes=request.memory_bytes, threads=2, spill=Path(request.folder) / ".spill")
