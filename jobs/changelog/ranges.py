"""Which snapshots a changelog tells of, and the number of each."""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from jobs.changelog import errors
from jobs.engine.plan.ranges import lineage


def list_range(table: Table, start: int | None, end: int) -> list[Snapshot]:
    """Return the snapshots after `start` up to `end`, oldest first.

    Where the history between has expired, the oldest snapshot that is left tells of everything since `start`.
    """
    for snapshot_id in (start, end):
        if snapshot_id is not None and table.metadata.snapshot_by_id(snapshot_id) is None:
            raise errors.expired(snapshot_id)
    snapshots: list[Snapshot] = []
    for snapshot in lineage(table, end):
        if snapshot.snapshot_id == start:
            return snapshots[::-1]
        snapshots.append(snapshot)
    first = None if start is None else table.metadata.snapshot_by_id(start)
    if first is not None and not _may_come_from(first, snapshots):
        raise errors.no_ancestor(first.snapshot_id, end)
    # where the first snapshots are gone, what they held counts as inserted by the oldest one left
    return snapshots[::-1]


def _may_come_from(start: Snapshot, snapshots: list[Snapshot]) -> bool:
    """Return whether the line of history breaks off at an expired snapshot that is younger than `start`."""
    if not snapshots or snapshots[-1].parent_snapshot_id is None:
        return False
    return _age(snapshots[-1]) > _age(start)


def _age(snapshot: Snapshot) -> tuple[int, int]:
    """Return the key that orders snapshots; those of version 1 have no sequence number, even in a table of version 2."""
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def number_snapshots(table: Table, start: int | None, snapshots: list[Snapshot]) -> list[tuple[int, Snapshot]]:
    """Give the snapshots after `start` their numbers, from 0 for the lineage's first, whatever the range.

    The sequence number tells, also after others have expired. Snapshots of version 1 have none: they are numbered by
    their line of history, and those of a table that has become one of version 2 since go on from there.
    """
    passed = [] if start is None else list(lineage(table, start))
    unnumbered = sum(1 for snapshot in (*passed, *snapshots) if not snapshot.sequence_number)
    return [
        (unnumbered + snapshot.sequence_number - 1 if snapshot.sequence_number else position, snapshot)
        for position, snapshot in enumerate(snapshots, len(passed))
    ]
