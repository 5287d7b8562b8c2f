"""The snapshot log of a branch: the ancestry of its head, as if that had always been main's.

A long history is walked once and not with every commit: the log of a new head is that of its parent and one line more.
"""

from dataclasses import dataclass, replace

from webapp.catalog.rules.iceberg import Metadata, Snapshot, SnapshotLogEntry
from webapp.catalog.rules.metadata import ancestry, find, snapshot_of
from webapp.core.byte_cache import ByteCache, Versions
from webapp.core.json_members import goes_on

Log = list[SnapshotLogEntry]
CACHED_BYTES = 16 * 1024 * 1024
LINE_BYTES = 1000
"""Of a line with the snapshot that it is about."""
HEADS = 16
"""Of a table: with each commit a branch has another one, and its log goes on from the one before."""


@dataclass(frozen=True, slots=True)
class _BranchLog:
    """A log, the snapshots from which it was made, and the one before its first line, which was not among them."""

    snapshots: list[Snapshot]
    log: Log
    missing: int | None

    def holds_in(self, snapshots: list[Snapshot]) -> bool:
        """Return whether there is nothing new but snapshots that do not make this line any longer."""
        if self.snapshots is snapshots:
            return True
        return goes_on(self.snapshots, snapshots) and (
            self.missing is None or find(self.added_in(snapshots), "snapshot-id", self.missing) is None
        )

    def added_in(self, snapshots: list[Snapshot]) -> list[Snapshot]:
        """Return what has been added since."""
        return snapshots[len(self.snapshots) :]


_logs = ByteCache[tuple[str, int], _BranchLog](
    CACHED_BYTES,
    lambda branch_log: LINE_BYTES * (1 + len(branch_log.snapshots)),
    versions=Versions(lambda key: key, HEADS),
)


def derived_log(metadata: Metadata, head: int | None) -> Log:
    """Return the log of a branch at this head, never running backwards. Shared: never change it in place."""
    if head is None:
        return []
    branch_log = _recall(metadata, head)
    if branch_log is None or branch_log.snapshots is not metadata["snapshots"]:
        branch_log = branch_log or _extend(metadata, head) or _walk(metadata, head)
        branch_log = replace(branch_log, snapshots=metadata["snapshots"])
        _logs.add((metadata["table-uuid"], head), branch_log)
    return branch_log.log


def walk_log(metadata: Metadata, head: int | None) -> Log:
    """Make the same log from the snapshots alone."""
    log: Log = []
    for snapshot in ancestry(metadata, head):
        log.append(_line(snapshot, after=log))
    return log


def _recall(metadata: Metadata, head: int) -> _BranchLog | None:
    branch_log = _logs.get((metadata["table-uuid"], head))
    return branch_log if branch_log is not None and branch_log.holds_in(metadata["snapshots"]) else None


def _extend(metadata: Metadata, head: int) -> _BranchLog | None:
    """Extend the log of the parent by one line; only for a head that was not there when that log was made."""
    snapshot = snapshot_of(metadata, head)
    parent = None if snapshot is None else snapshot.get("parent-snapshot-id")
    parent_log = None if parent is None else _recall(metadata, parent)
    if (
        snapshot is None
        or parent_log is None
        or find(parent_log.added_in(metadata["snapshots"]), "snapshot-id", head) is None
    ):
        return None
    return replace(parent_log, log=[*parent_log.log, _line(snapshot, after=parent_log.log)])


def _walk(metadata: Metadata, head: int) -> _BranchLog:
    log = walk_log(metadata, head)
    first = snapshot_of(metadata, log[0]["snapshot-id"]) if log else None
    return _BranchLog([], log, head if first is None else first.get("parent-snapshot-id"))


def _line(snapshot: Snapshot, *, after: Log) -> SnapshotLogEntry:
    at = max(after[-1]["timestamp-ms"], snapshot["timestamp-ms"]) if after else snapshot["timestamp-ms"]
    return {"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": at}
