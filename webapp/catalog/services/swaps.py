"""The one way a table's pointer moves: write the file, then swap the pointer, all tables in one atomic block.

What is certain decides what happens to the file. Lost or refused before COMMIT: the file is removed. No answer to COMMIT:
the pointer is read again on a fresh connection; if that fails too, the outcome is unknown, the file stays, and the client is
told so, because a client that hears "failed" deletes what a successful commit needs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from django.db import DatabaseError, DataError, IntegrityError, connection, transaction

from webapp.accounts.services import record_audit
from webapp.catalog import ports, signals
from webapp.catalog.models import Table
from webapp.catalog.queries import TableRow
from webapp.catalog.rules import lens
from webapp.catalog.rules.branch_properties import MASTER, is_reserved
from webapp.catalog.rules.iceberg import Metadata, MetadataLogEntry
from webapp.catalog.rules.pointers import Pointer
from webapp.catalog.rules.refs import TableRef
from webapp.catalog.rules.updates import last_updated
from webapp.catalog.services.folders import make_folders, take_location
from webapp.catalog.services.idempotency import act
from webapp.catalog.services.turns import take_writers_turn
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.metadata_files import MetadataFile
from webapp.core import clock
from webapp.core.errors import AppError, Unavailable
from webapp.core.numbers import read_count
from webapp.core.principals import Principal

ATTEMPTS = 50
METADATA_LOG_KEPT = 100


class LostRace(Exception):
    """Another commit moved the pointer first; nothing has changed."""


class OutcomeUnknown(AppError):
    """The database did not say whether the commit happened."""

    status = 500
    title = "Outcome unknown"
    default_code = "commit_state_unknown"
    iceberg_type = "CommitStateUnknownException"


@dataclass(frozen=True, slots=True)
class Move:
    """One table's pointer from one metadata file to the next."""

    ref: TableRef
    row: TableRow
    base: Metadata
    file: MetadataFile
    branches: frozenset[str] = field(default_factory=frozenset)
    """The branches that this may move; each one that did is announced."""


@contextmanager
def writing() -> Iterator[None]:
    """Open an atomic block that writes. SQLite has one writer at a time and lets others sleep: ours queue."""
    # Who is in a block already has the database's lock, and must not wait for somebody who waits for that one.
    is_queued = connection.vendor == "sqlite" and not connection.in_atomic_block
    with take_writers_turn() if is_queued else nullcontext(), act():
        yield


def now_ms() -> int:
    """Return the current moment as metadata writes it."""
    return int(clock.now().timestamp() * 1000)


def write_next(row: TableRow, base: Metadata, after: Metadata, *, leaves_room: bool = False) -> MetadataFile:
    """Write the file that follows the current one, whose room for master may be kept; its log leads back to that one."""
    entry: MetadataLogEntry = {"metadata-file": row.metadata_location, "timestamp-ms": base["last-updated-ms"]}
    limit = _kept(after)
    log = [*base["metadata-log"], entry][-limit:]
    following: Metadata = {**after, "metadata-log": log}
    following["last-updated-ms"] = max(
        last_updated(following, now_ms=now_ms()),
        # A snapshot may be dated up to a minute ahead of this machine; the table is never older than its snapshot.
        after["last-updated-ms"] if after["last-updated-ms"] != base["last-updated-ms"] else 0,
    )
    current, location = metadata_files.read(row), after["location"]
    if location != row.location:
        make_folders(location)
    return metadata_files.write(
        following, location=location, version=row.version + 1, after=current, leaves_room=leaves_room
    )


def swap(
    moves: Sequence[Move],
    *,
    by: Principal | None,
    check: bool = True,
    first: Callable[[], object] | None = None,
    then: Callable[[], None] | None = None,
) -> None:
    """Move the pointers of all tables, or of none.

    Args:
        moves: what to move; the files are on disk already.
        by: the actor, None for the application itself.
        check: whether the layers above may object to the writes.
        first: called in the atomic block before anything is checked or moved.
        then: called in the atomic block after the pointers moved; what it raises undoes them.

    Raises:
        LostRace: a pointer had moved already; nothing has changed.
        OutcomeUnknown: nobody can say; nothing may be deleted.

    """
    asked_to_commit = False
    try:
        with writing():
            if first is not None:
                first()
            ports.lock_tables(tables=[move.ref.table for move in moves])
            # In one order, so that two commits to the same tables never wait in a circle.
            for move in sorted(moves, key=lambda move: move.row.id):
                _move(move, by=by, check=check)
                if check:
                    _record(move, by=by)
            if then is not None:
                then()
            asked_to_commit = True
    except DatabaseError as error:
        if asked_to_commit and not isinstance(error, IntegrityError):
            _settle(moves, error)
            return
        _discard(moves)
        if isinstance(error, IntegrityError | DataError):
            raise
        message = "The database is busy and nothing was changed: try again"
        raise Unavailable(message) from error
    except BaseException:
        _discard(moves)
        raise


def _move(move: Move, *, by: Principal | None, check: bool) -> None:
    shared = _list_shared_changes(move.base, move.file.metadata)
    announced = _list_announced(move, is_shared_changed=bool(shared)) if move.ref.is_dataset else []
    if check:
        for branch, _before, _after in announced:
            ports.check_commit(table=move.ref.table, branch=branch, by=by)
    location = move.file.metadata["location"]
    if location != move.row.location:
        take_location(location, file=move.file.location, by=by)
    moved = Table.objects.filter(pk=move.row.id, version=move.row.version).update(
        location=location,
        metadata_location=move.file.location,
        version=move.row.version + 1,
        uuid=move.file.uuid,
        updated_at=clock.now(),
    )
    if moved != 1:
        raise LostRace
    for branch, before, after in announced:
        if after is None:
            signals.table_branch_removed.send(
                sender=Table, table=move.ref.table, branch=branch, place=lens.place(move.base, branch), principal=by
            )
        else:
            signals.table_committed.send(
                sender=Table,
                table=move.ref.table,
                branch=branch,
                before=before,
                after=after,
                metadata=move.file.metadata,
                shared=shared,
                principal=by,
            )
    if check:
        _check_removed(move, by=by)


def _check_removed(move: Move, *, by: Principal | None) -> None:
    """Ask the layers above about the snapshots that a commit removes, whichever updates removed them."""
    before, after = move.base["snapshots"], move.file.metadata["snapshots"]
    if before is after or not move.ref.is_dataset:
        return
    removed = {snapshot["snapshot-id"] for snapshot in before} - {snapshot["snapshot-id"] for snapshot in after}
    if removed:
        ports.check_removal(table=move.ref.table, snapshots=removed, by=by)


def _list_announced(move: Move, *, is_shared_changed: bool) -> list[tuple[str, Pointer | None, Pointer | None]]:
    """List the branches that a commit changed, with where they stood and stand.

    What all branches share has changed on the branch that the commit was for, where it moved none.
    """
    pointers = [
        (branch, lens.pointer(move.base, branch), lens.pointer(move.file.metadata, branch))
        for branch in sorted(move.branches)
    ]
    changed = [(branch, before, after) for branch, before, after in pointers if before != after]
    if changed or not is_shared_changed:
        return changed
    return sorted(pointers, key=lambda pointer: pointer[0] != MASTER)[:1]


def _list_shared_changes(base: Metadata, after: Metadata) -> tuple[str, ...]:
    """List what a commit changed of all branches at once, in words."""
    versions = base["format-version"], after["format-version"]
    changes = ("format version",) if versions[0] != versions[1] else ()
    if base["properties"] == after["properties"]:
        return changes
    properties = [_own_properties(metadata) for metadata in (base, after)]
    return (*changes, "properties") if properties[0] != properties[1] else changes


def _own_properties(metadata: Metadata) -> dict[str, str]:
    """Return a table's properties without those by which branches track their ids."""
    return {key: value for key, value in metadata["properties"].items() if not is_reserved(key)}


def _record(move: Move, *, by: Principal | None) -> None:
    """Write a client's commit into the audit log: the branches that it moved, their snapshots, and what it took away."""
    snapshots = {}
    for branch in sorted(move.branches):
        before, after = lens.pointer(move.base, branch), lens.pointer(move.file.metadata, branch)
        if before != after:
            # As text: programs that read JSON numbers as floats would make another snapshot of it.
            snapshots[branch] = "" if after is None else str(after.snapshot_id or "")
    record_audit(
        by=by,
        verb="commit_table",
        object=move.ref.path,
        branch=next(iter(snapshots), move.ref.branch or MASTER),
        detail={"snapshots": snapshots, "version": move.row.version + 1, **_list_removals(move)},
    )


def _list_removals(move: Move) -> dict[str, list[int]]:
    """List the ids of the schemas and partition specs that a commit removed, where it did."""
    base, after = move.base, move.file.metadata
    schemas = {schema["schema-id"] for schema in base["schemas"]} - {schema["schema-id"] for schema in after["schemas"]}
    specs = {spec["spec-id"] for spec in base["partition-specs"]} - {
        spec["spec-id"] for spec in after["partition-specs"]
    }
    removals = {"removed_schemas": sorted(schemas), "removed_specs": sorted(specs)}
    return {name: ids for name, ids in removals.items() if ids}


def _settle(moves: Sequence[Move], error: DatabaseError) -> None:
    """Settle the moves after a COMMIT without an answer: done, not done, or unknown."""
    try:
        connection.close()
        with transaction.atomic():
            # Locked, because a server that lost its client may still be at the COMMIT: it then holds these rows.
            tables = Table.objects.select_for_update().filter(pk__in=[move.row.id for move in moves]).order_by("pk")
            rows = {table.pk: table for table in tables}
            transaction.set_rollback(True)
        done = [_reaches(rows.get(move.row.id), move.file.location) for move in moves]
    except (DatabaseError, AppError) as again:
        message = "The database did not answer; the outcome of the commit is unknown"
        raise OutcomeUnknown(message) from again
    if all(done):
        return
    if any(done):
        message = "The database did not answer; the outcome of the commit is unknown"
        raise OutcomeUnknown(message) from error
    _discard(moves)
    message = "The database went away and nothing was changed: try again"
    raise Unavailable(message) from error


def _reaches(table: Table | None, location: str) -> bool:
    """Return whether a table's current metadata is this file or came after it."""
    if table is None or table.metadata_location == location:
        return table is not None
    log = metadata_files.read(table).metadata["metadata-log"]
    return any(entry["metadata-file"] == location for entry in log)


def _discard(moves: Sequence[Move]) -> None:
    for move in moves:
        metadata_files.delete(move.file)


def _kept(metadata: Metadata) -> int:
    text = metadata["properties"].get("write.metadata.previous-versions-max", "")
    count = read_count(text)
    return METADATA_LOG_KEPT if count is None else max(count, 1)
