"""Questions about the snapshots between two points of a table's history."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot


def lineage(table: Table, until: int) -> Iterator[Snapshot]:
    """Yield every snapshot from `until` back to the first that is still known."""
    snapshot = table.metadata.snapshot_by_id(until)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.metadata.snapshot_by_id(parent)


def added_files_only(table: Table, since: int, until: int) -> bool:
    """Return whether `until` comes from `since` by appends alone."""
    for snapshot in lineage(table, until):
        if snapshot.snapshot_id == since:
            return True
        if snapshot.summary is None or snapshot.summary.operation is not Operation.APPEND:
            return False
    return False
