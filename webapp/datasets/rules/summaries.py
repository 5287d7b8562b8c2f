"""What a transaction did, from the summaries that Iceberg writers leave in their snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from webapp.catalog.rules.metadata import walk_back
from webapp.catalog.rules.record_counts import read_counter

if TYPE_CHECKING:
    from webapp.catalog.rules.iceberg import Snapshot
    from webapp.catalog.rules.pointers import Pointer

TOTALS = {"rows": "total-records", "files": "total-data-files", "bytes": "total-files-size"}
UNDOING = {"append": "delete", "delete": "append"}
"""What taking a snapshot back does to rows, where that is another thing than the snapshot did."""


@dataclass(frozen=True)
class SnapshotChange:
    """What one snapshot added and removed, and what the table held after it; None where its writer did not say."""

    rows_added: int
    rows_removed: int
    files_added: int
    files_removed: int
    delete_files: int
    equality_deletes: int
    rows: int | None
    files: int | None
    bytes: int | None


def describe_change(snapshot: Snapshot) -> SnapshotChange:
    """Return what a snapshot's own summary says."""
    summary = snapshot.get("summary") or {}
    totals = {key: _count(snapshot, name) if name in summary else None for key, name in TOTALS.items()}
    # A delete file that replaces another one counts all its rows again.
    marked = _count(snapshot, "added-position-deletes") - _count(snapshot, "removed-position-deletes")
    return SnapshotChange(
        rows_added=_count(snapshot, "added-records"),
        rows_removed=_count(snapshot, "deleted-records") + max(0, marked),
        files_added=_count(snapshot, "added-data-files"),
        files_removed=_count(snapshot, "deleted-data-files"),
        delete_files=_count(snapshot, "added-delete-files"),
        equality_deletes=_count(snapshot, "added-equality-deletes"),
        **totals,
    )


@dataclass(frozen=True)
class Way:
    """What lies between two heads of a table."""

    head: Snapshot | None
    """The new one; None where the table has no snapshot there."""
    done: Sequence[Snapshot]
    """Those that the new head has and the old one has not, newest first."""
    undone: Sequence[Snapshot] = ()
    """Those that only the old head has: more than none where a branch was rolled back or went to another line."""
    is_replaced: bool = False
    """Whether the two have nothing in common, so that all that the old head held is gone."""
    lost: Snapshot | None = None
    """That old head, where the table still has it."""

    @property
    def operations(self) -> set[str]:
        """What happened to rows on the way, as Iceberg names it; what is undone the other way round."""
        done = {_operation(snapshot) for snapshot in self.done}
        return done | {UNDOING.get(name, name) for name in map(_operation, self.undone)}

    @property
    def hides_deletes(self) -> bool:
        """Whether some rows were removed by values, which no summary counts."""
        return any(_count(snapshot, "added-equality-deletes") for snapshot in self.done)


def find_way(snapshots: Sequence[Snapshot], *, before: int | None, after: int | None) -> Way:
    """Return what lies between two heads; nothing is replaced where there was none before."""
    head = next(walk_back(snapshots, after), None)
    done = list(takewhile(lambda snapshot: snapshot["snapshot-id"] != before, walk_back(snapshots, after)))
    if before is None or after == before or (done and done[-1].get("parent-snapshot-id") == before):
        return Way(head, done)
    ids = {snapshot["snapshot-id"] for snapshot in done}
    undone = list(takewhile(lambda snapshot: snapshot["snapshot-id"] not in ids, walk_back(snapshots, before)))
    common = undone[-1].get("parent-snapshot-id") if undone else None
    if common not in ids:
        return Way(head, done, is_replaced=True, lost=undone[0] if undone else None)
    own = takewhile(lambda snapshot: snapshot["snapshot-id"] != common, done)
    return Way(head, list(own), undone)


def summarize(way: Way) -> dict[str, int]:
    """Return rows, files and bytes at the new head, and rows added and deleted on the way to it."""
    totals = {key: _count(way.head, name) for key, name in TOTALS.items()}
    totals["rows"] = _count_rows(way.head)
    added = sum(_count(snapshot, "added-records") for snapshot in way.done) + sum(map(_count_deleted, way.undone))
    deleted = sum(map(_count_deleted, way.done)) + sum(_count(snapshot, "added-records") for snapshot in way.undone)
    if way.is_replaced:
        # A replace starts a new line of snapshots: what the old line held is gone, though no snapshot says so.
        deleted += _count_rows(way.lost)
    return {**totals, "added": added, "deleted": deleted}


def list_changes(before: Pointer, after: Pointer) -> list[str]:
    """Return what differs between two places of a table besides rows, in words."""
    pairs = {
        "schema": (before.schema_id, after.schema_id),
        "partition spec": (before.spec_id, after.spec_id),
        "sort order": (before.order_id, after.order_id),
    }
    return [name for name, (old, new) in pairs.items() if old != new]


def _count_rows(head: Snapshot | None) -> int:
    # the records of data files, of which position deletes and deletion vectors take some away
    return max(0, _count(head, TOTALS["rows"]) - _count(head, "total-position-deletes"))


def _operation(snapshot: Snapshot) -> str:
    return str((snapshot.get("summary") or {}).get("operation", "overwrite"))


def _count_deleted(snapshot: Snapshot) -> int:
    """Return the rows that left: a file that goes with its deletes takes rows along that had left before."""
    marked = _count(snapshot, "added-position-deletes") - _count(snapshot, "removed-position-deletes")
    return max(0, _count(snapshot, "deleted-records") + marked)


def _count(snapshot: Snapshot | None, name: str) -> int:
    """Return a counter of a snapshot's summary; 0 where there is no snapshot."""
    return 0 if snapshot is None else read_counter(snapshot.get("summary") or {}, name)
