"""Which snapshots a changelog tells of, and the number of each."""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from jobs.changelog import errors
from jobs.engine.ranges import lineage


def list_range(table: Table, start: int | None, end: int) -> list[Snapshot]:
    """Return the snapshots after `start` up to `end`, oldest first.

    Where the history between has expired, the oldest snapshot that is left tells of everything since `start`.
    """
    first = None if start is None else table.metadata.snapshot_by_id(start)
    if start is not None and first is None:
        raise errors.expired(start)
    found: list[Snapshot] = []
    for snapshot in lineage(table, end):
        if snapshot.snapshot_id == start:
            return found[::-1]
        found.append(snapshot)
    if first is not None and not _may_come_from(table, first, found):
        raise errors.no_ancestor(first.snapshot_id, end)
    # where the first snapshots are gone, what they held counts as inserted by the oldest one left
    return found[::-1]


def _may_come_from(table: Table, start: Snapshot, found: list[Snapshot]) -> bool:
    """Whether the line of history breaks off at an expired snapshot that is younger than `start`."""
    if not found or found[-1].parent_snapshot_id is None:
        return False
    if table.metadata.format_version == 1:
        return bool(found[-1].timestamp_ms > start.timestamp_ms)
    return bool((found[-1].sequence_number or 0) > (start.sequence_number or 0))


def number_snapshots(table: Table, start: int | None, snapshots: list[Snapshot]) -> list[tuple[int, Snapshot]]:
    """Number the snapshots after `start` from 0 for the lineage's first, whatever the range.

    The sequence number tells, also after others have expired; a table of version 1 has only its line of history.
    """
    passed = 0 if start is None else sum(1 for _ in lineage(table, start))
    return [
        (position if table.metadata.format_version == 1 else int(snapshot.sequence_number or 1) - 1, snapshot)
        for position, snapshot in enumerate(snapshots, passed)
    ]
