"""What datasets and builds do with the branches of tables: make, publish, drop."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from webapp.catalog.queries import TableRow, find_table
from webapp.catalog.rules import lens
from webapp.catalog.rules.access import is_made_by
from webapp.catalog.rules.branch_properties import MASTER
from webapp.catalog.rules.errors import AlreadyExists, CommitFailed, Forbidden, NoSuchTable
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import snapshot_of
from webapp.catalog.rules.pointers import BranchPlace, Pointer
from webapp.catalog.rules.refs import TableRef, table_ref
from webapp.catalog.services.swaps import ATTEMPTS, LostRace, Move, now_ms, swap, write_next
from webapp.catalog.storage import metadata_files
from webapp.core.principals import Principal, start_of_folders

Change = Callable[[Metadata], Metadata]


def create_branch(*, table: str, branch: str, pointer: Pointer) -> None:
    """Make a branch on a table that points where another one does, or did.

    Raises:
        AlreadyExists: the branch has something on this table already.

    """

    def change(metadata: Metadata) -> Metadata:
        if lens.own_state(metadata, branch) is not None:
            message = f"Branch {branch} exists on {table} already"
            raise AlreadyExists(message)
        return lens.set_state(metadata, branch, pointer.state, now_ms=now_ms())

    _change_all([table], change, by=None)


def drop_branch(*, tables: Iterable[str], branch: str) -> None:
    """Remove a branch from tables: its ref, what it tracks, and the protection of both. Absent tables are passed over."""
    if branch == MASTER:
        message = "Branch master cannot be dropped: drop the table instead"
        raise Forbidden(message)
    _change_all(list(tables), lambda metadata: _without(metadata, branch), by=None, absent_is_fine=True)


def retire_branch(*, table: str, branch: str, kept_as: str | None) -> BranchPlace | None:
    """Remove a branch from a table, and keep its snapshot under an internal name; None for not at all.

    Returns where it stood; None where it had nothing of its own.
    """
    if branch == MASTER:
        message = "Branch master cannot be dropped: drop the table instead"
        raise Forbidden(message)
    before: list[BranchPlace | None] = []

    def change(metadata: Metadata) -> Metadata:
        place = lens.place(metadata, branch)
        before[:] = [place]
        if place is None:
            return metadata
        without = lens.forget(metadata, {branch})
        return without if kept_as is None else lens.keep(without, kept_as, place.pointer.snapshot_id)

    _change_all([table], change, by=None, absent_is_fine=True)
    return before[0] if before else None


def keep_snapshot(*, table: str, snapshot_id: int, kept_as: str) -> None:
    """Keep a snapshot of a table under an internal name; nothing where the table has it no more."""

    def change(metadata: Metadata) -> Metadata:
        return metadata if snapshot_of(metadata, snapshot_id) is None else lens.keep(metadata, kept_as, snapshot_id)

    _change_all([table], change, by=None)


def revive_branch(*, table: str, branch: str, place: BranchPlace, kept_as: str) -> Pointer:
    """Make a retired branch again, where it stood; return where it points now.

    Raises:
        AlreadyExists: there is another one of its name.

    """
    after: list[Pointer] = []

    def change(metadata: Metadata) -> Metadata:
        if lens.own_state(metadata, branch) is not None:
            message = f"Branch {branch} exists on {table} already"
            raise AlreadyExists(message)
        whole, pointer = lens.bring_back(lens.forget(metadata, {kept_as}), place)
        after[:] = [pointer]
        return lens.set_state(whole, branch, pointer.state, now_ms=now_ms())

    _change_all([table], change, by=None)
    return after[0]


def drop_staging(*, tables: Iterable[str], staging: str) -> None:
    """Remove what a job or a transaction that was given up had written."""
    start = start_of_folders(staging)

    def change(metadata: Metadata) -> Metadata:
        is_own = partial(is_made_by, location=metadata["location"], start=start)
        return lens.give_up(metadata, staging, is_own=is_own)

    _change_all(list(tables), change, by=None, absent_is_fine=True)


def publish_staging(
    *,
    moves: Sequence[str],
    staging: str,
    branch: str,
    by: Principal | None,
    on_swap: Callable[[dict[str, Pointer | None]], None],
) -> None:
    """Point a branch to what was staged, on all tables at once, together with what `on_swap` writes.

    Args:
        moves: the tables.
        staging: the internal branch that was written.
        branch: the branch to move.
        by: the actor.
        on_swap: gets the branch's new pointer per table, in the atomic block; None where neither branch has anything.

    Raises:
        CommitFailed: other commits kept winning.

    """

    def change(metadata: Metadata) -> Metadata:
        staged = lens.own_state(metadata, staging)
        if staged is None:
            return metadata
        return lens.forget(lens.set_state(metadata, branch, staged, now_ms=now_ms()), {staging})

    _change_all(list(moves), change, by=by, branch=branch, on_swap=on_swap)


def _without(metadata: Metadata, branch: str) -> Metadata:
    return metadata if lens.own_state(metadata, branch) is None else lens.forget(metadata, {branch})


def _change_all(
    tables: Sequence[str],
    change: Change,
    *,
    by: Principal | None,
    branch: str = "",
    on_swap: Callable[[dict[str, Pointer | None]], None] | None = None,
    absent_is_fine: bool = False,
) -> None:
    """Change the metadata of tables together. Nothing is announced: the caller knows what it does."""
    refs = [table_ref(table) for table in dict.fromkeys(tables)]
    for _attempt in range(ATTEMPTS):
        changes = [
            item for item in (_apply(ref, change, absent_is_fine=absent_is_fine) for ref in refs) if item is not None
        ]
        pointers = {ref.table: lens.pointer(after, branch) for ref, _, _, after in changes} if branch else {}
        moves = [
            Move(ref, row, base, write_next(row, base, after)) for ref, row, base, after in changes if after is not base
        ]
        try:
            swap(moves, by=by, check=False, then=None if on_swap is None else partial(on_swap, pointers))
        except LostRace:
            continue
        return
    message = f"{', '.join(tables)}: other commits kept moving the tables, nothing was changed"
    raise CommitFailed(message)


def _apply(
    ref: TableRef, change: Change, *, absent_is_fine: bool
) -> tuple[TableRef, TableRow, Metadata, Metadata] | None:
    row = find_table(ref)
    if row is None:
        if absent_is_fine:
            return None
        message = f"Table does not exist: {ref.table}"
        raise NoSuchTable(message)
    base = metadata_files.read(row).metadata
    return ref, row, base, change(base)
