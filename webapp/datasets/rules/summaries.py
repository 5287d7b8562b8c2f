"""What a transaction did, from the summaries that Iceberg writers leave in their snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from webapp.catalog.rules.metadata import walk_back
from webapp.core.numbers import read_count

Snapshot = Mapping[str, Any]
TOTALS = {"rows": "total-records", "files": "total-data-files", "bytes": "total-files-size"}


@dataclass(frozen=True)
class Change:
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


def describe_change(snapshot: Snapshot) -> Change:
    """Return what a snapshot's own summary says."""
    summary = snapshot.get("summary") or {}
    totals = {key: _count(snapshot, name) if name in summary else None for key, name in TOTALS.items()}
    # A delete file that replaces another one counts all its rows again.
    marked = _count(snapshot, "added-position-deletes") - _count(snapshot, "removed-position-deletes")
    return Change(
        rows_added=_count(snapshot, "added-records"),
        rows_removed=_count(snapshot, "deleted-records") + max(0, marked),
        files_added=_count(snapshot, "added-data-files"),
        files_removed=_count(snapshot, "deleted-data-files"),
        delete_files=_count(snapshot, "added-delete-files"),
        equality_deletes=_count(snapshot, "added-equality-deletes"),
        **totals,
    )


def list_new_snapshots(snapshots: Sequence[Snapshot], *, before: int | None, after: int | None) -> list[Snapshot]:
    """Return the snapshots between two heads, newest first; the whole line where `before` is not an ancestor."""
    return list(takewhile(lambda snapshot: snapshot["snapshot-id"] != before, walk_back(snapshots, after)))


def summarize(snapshots: Sequence[Snapshot], *, before: int | None, after: int | None) -> dict[str, int]:
    """Return rows, files and bytes at the head, and rows added and deleted on the way to it."""
    head = next(walk_back(snapshots, after), None)
    totals = {key: _count(head, name) for key, name in TOTALS.items()}
    # the records of data files, of which position deletes and deletion vectors take some away
    totals["rows"] = max(0, totals["rows"] - _count(head, "total-position-deletes"))
    new = list_new_snapshots(snapshots, before=before, after=after)
    added = sum(_count(snapshot, "added-records") for snapshot in new)
    deleted = sum(_count_deleted(snapshot) for snapshot in new)
    if is_replaced(snapshots, before=before, after=after):
        # A replace starts a new line of snapshots: what the old line held is gone, though no snapshot says so.
        old = next(walk_back(snapshots, before), None)
        deleted += max(0, _count(old, TOTALS["rows"]) - _count(old, "total-position-deletes"))
    return {**totals, "added": added, "deleted": deleted}


def is_replaced(snapshots: Sequence[Snapshot], *, before: int | None, after: int | None) -> bool:
    """Return whether the new head stands on another line of snapshots than the old one."""
    new = list_new_snapshots(snapshots, before=before, after=after)
    return bool(new) and before is not None and new[-1].get("parent-snapshot-id") != before


def _count_deleted(snapshot: Snapshot) -> int:
    """Return the rows that left: a file that goes with its deletes takes rows along that had left before."""
    marked = _count(snapshot, "added-position-deletes") - _count(snapshot, "removed-position-deletes")
    return max(0, _count(snapshot, "deleted-records") + marked)


def _count(snapshot: Snapshot | None, name: str) -> int:
    """Return a counter of a snapshot's summary; writers leave out what is zero."""
    return read_count(str((snapshot or {}).get("summary", {}).get(name, "0")), most=2**63 - 1) or 0
