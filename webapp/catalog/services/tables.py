"""Make, change, rename and drop tables."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from uuid import uuid4

from django.db import IntegrityError, transaction

from webapp.accounts.services import record_audit
from webapp.catalog import permissions, ports, queries, signals
from webapp.catalog.models import Namespace, Table, View
from webapp.catalog.queries import TableRow, TableView, find_table, get_chain, load_table, locate, view_of
from webapp.catalog.rules import commits, lens
from webapp.catalog.rules.access import check_own_files
from webapp.catalog.rules.branch_properties import MASTER
from webapp.catalog.rules.commits import CommitRequest, CreateRequest
from webapp.catalog.rules.errors import AlreadyExists, CommitFailed, DamagedTable, Forbidden, Malformed, NoSuchNamespace
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import no_snapshot, normalise, placeholder, uuid_of
from webapp.catalog.rules.readable import check_foreign
from webapp.catalog.rules.refs import SEPARATOR, TableRef, check_levels, check_name, is_internal, table_ref
from webapp.catalog.rules.updates import find_location
from webapp.catalog.services.folders import (
    check_location,
    check_register_folder,
    check_register_source,
    find_root,
    make_folders,
    new_location,
    place,
    stage_location,
    take_location,
)
from webapp.catalog.services.idempotency import act
from webapp.catalog.services.namespaces import ensure_namespace
from webapp.catalog.services.swaps import ATTEMPTS, LostRace, Move, now_ms, swap, write_next, writing
from webapp.catalog.services.turns import take_turn
from webapp.catalog.storage import metadata_files
from webapp.core.errors import Unavailable
from webapp.core.principals import JobScope, Principal


def create_empty_table(*, table: str, by: Principal | None) -> TableView:
    """Make a dataset's table: on master, with no columns and no data; its namespaces come with it.

    Raises:
        AlreadyExists: it is there.

    """
    ref = table_ref(table)
    check_levels([*ref.namespace, ref.name])
    permissions.check_write(by, ref, MASTER)
    ensure_namespace(levels=ref.namespace)
    location = new_location(ref)
    metadata = placeholder(uuid=str(uuid4()), location=location, version=2, now_ms=now_ms())
    return _insert(ref, metadata, by=by)


def create_table(*, ref: TableRef, request: CreateRequest, by: Principal | None) -> TableView:
    """Make a table, or with `stage` only say what it would be.

    Raises:
        AlreadyExists: it is there, and on this branch more than a placeholder.
        NoSuchNamespace: its namespace is not there.

    """
    check_name(ref.name, what="table")
    _check_create(ref, by=by)
    for _attempt in range(ATTEMPTS):
        try:
            return _create_once(ref, request, by=by)
        except LostRace:
            continue
    raise _too_busy(ref)


def _create_once(ref: TableRef, request: CreateRequest, *, by: Principal | None) -> TableView:
    row = find_table(ref)
    if row is None:
        return _create_new(ref, request, by=by)
    base = metadata_files.read(row).metadata
    chain = get_chain(ref, by=by)
    if ref.branch is None:
        raise _exists(ref)
    try:
        commits.placeholder_for(base, ref.branch, chain)
    except AlreadyExists:
        raise _exists(ref) from None
    check_location(request.location, row.location)
    updates = commits.creation_updates(request, base)
    commit = CommitRequest(requirements=(), updates=updates, branch=ref.branch, chain=chain)
    after = commits.create_on_branch(base, commit, now_ms=now_ms())
    if request.stage:
        staged = commits.staged(lens.get(after, ref.branch))
        return TableView(lambda: staged)
    move = Move(ref, row, base, write_next(row, base, after), frozenset({ref.branch}))
    swap([move], by=by)
    return load_table(ref, by=by)


def _create_new(ref: TableRef, request: CreateRequest, *, by: Principal | None) -> TableView:
    location = place(request.location, ref, by=by)
    updates = commits.creation_updates(request, None)
    commit = CommitRequest(requirements=(), updates=updates, branch=None if request.stage else ref.branch)
    metadata = commits.create(commit, uuid=str(uuid4()), location=location, version=request.version, now_ms=now_ms())
    if request.stage:
        stage_location(location, by=by)
        make_folders(location)
        return TableView(lambda: metadata)
    return _insert(ref, metadata, by=by)


def commit_table(*, ref: TableRef, request: CommitRequest, by: Principal | None) -> TableView:
    """Commit updates to a table on the branch of the request; makes the table where the commit says so.

    Raises:
        CommitFailed: a requirement failed, or the writer's numbers are stale.
        NoSuchTable: there is no such table.

    """
    if request.creates and find_table(ref) is None:
        return _create_by_commit(ref, request, by=by)
    for _attempt in range(ATTEMPTS):
        with take_turn(ref):
            try:
                return _commit_once(ref, request, by=by)
            except LostRace:
                continue
    raise _too_busy(ref)


def _commit_once(ref: TableRef, request: CommitRequest, *, by: Principal | None) -> TableView:
    ref, row = locate(ref, by=by)
    move = _prepare(ref, row, replace(request, branch=ref.branch if ref.branch != MASTER else None), by=by)
    if move is not None:
        swap([move], by=by)
        return view_of(move.file, ref, by=by)
    with act():
        pass  # nothing is changed, and that is what a request with the same key is to hear, too
    return load_table(ref, by=by)


def commit_tables(*, changes: Sequence[tuple[TableRef, CommitRequest]], by: Principal | None) -> None:
    """Commit to several tables, all or none.

    Raises:
        CommitFailed: a requirement failed on one of them.

    """
    if len({(ref.namespace, ref.name) for ref, _ in changes}) != len(changes):
        message = "A transaction may name each table once"
        raise Malformed(message)
    for _attempt in range(ATTEMPTS):
        moves: list[Move] = []
        try:
            for ref, request in changes:
                located, row = locate(ref, by=by)
                move = _prepare(located, row, request, by=by)
                moves += [move] if move is not None else []
        except BaseException:
            for move in moves:
                metadata_files.delete(move.file)
            raise
        try:
            swap(moves, by=by)
        except LostRace:
            continue
        return
    raise _too_busy(changes[0][0])


def _prepare(ref: TableRef, row: TableRow, request: CommitRequest, *, by: Principal | None) -> Move | None:
    """Apply a commit and write its file; None when it changes nothing."""
    base = metadata_files.read(row).metadata
    chain = _chain_for_write(ref, base, by=by)
    request = request.with_chain(chain)
    touched = commits.touched_branches(base, request)
    # What is staged is for the branch that its chain begins with.
    staged_for = {branch: chain[0] if chain and is_internal(branch) else None for branch in touched}
    for branch, target in staged_for.items():
        permissions.check_write(by, ref, branch, staged_for=target)
    if by is not None and by.job is not None:
        check_own_files(request.updates, base, who=by.job.folder)
    if request.creates and request.branch is not None:
        after = commits.create_on_branch(base, request, now_ms=now_ms())
    else:
        new_place = _find_new_place(ref, base, request, by=by)
        after = commits.commit(base, request, now_ms=now_ms(), place=new_place)
    if after is base:
        return None
    leaves_room = MASTER not in {target or branch for branch, target in staged_for.items()}
    return Move(ref, row, base, write_next(row, base, after, leaves_room=leaves_room), frozenset(touched))


def _find_new_place(ref: TableRef, base: Metadata, request: CommitRequest, *, by: Principal | None) -> str:
    """Return where a commit moves a table to, which as yet has no files but its metadata; empty if it does not move."""
    location = find_location(request.updates)
    if base["snapshots"] or request.branch is not None or location in (None, base["location"]):
        return ""
    return place(location, ref, by=by)


def _chain_for_write(ref: TableRef, base: Metadata, *, by: Principal | None) -> tuple[str, ...]:
    """Return the fallbacks of a commit's branch; not asked for while the branch has a state of its own."""
    if ref.branch in (None, MASTER):
        return ()
    is_staging = is_internal(str(ref.branch)) and (by is None or by.job is None)
    if not is_staging and lens.own_state(base, str(ref.branch)) is not None:
        return ()
    return get_chain(ref, by=by)


def _create_by_commit(ref: TableRef, request: CommitRequest, *, by: Principal | None) -> TableView:
    check_name(ref.name, what="table")
    _check_create(ref, by=by)
    if by is not None and by.job is not None:
        message = f"{ref.table} is gone: a job writes tables that were there when it began"
        raise Forbidden(message)
    location = place(find_location(request.updates), ref, by=by)
    metadata = commits.create(
        replace(request, branch=ref.branch), uuid=str(uuid4()), location=location, now_ms=now_ms()
    )
    try:
        return _insert(ref, metadata, by=by)
    except AlreadyExists:
        message = "Requirement failed: table already exists"
        raise CommitFailed(message) from None


def register_table(*, ref: TableRef, metadata_location: str, overwrite: bool, by: Principal | None) -> TableView:
    """Take a table over from a metadata file, which lies where the actor may take tables over.

    Raises:
        AlreadyExists: a table of that name or at that location is there.

    """
    check_name(ref.name, what="table")
    if overwrite and ref.branch is not None:
        message = "register with overwrite cannot be called from a branch: call it without the X-PLTR-Branch header"
        raise Forbidden(message)
    plain = replace(ref, branch=None)
    _check_create(plain, by=by)
    row = find_table(plain)
    check_register_source(metadata_location, ref=plain, own=None if row is None else row.location, by=by)
    raw = metadata_files.read_foreign(metadata_location, root=str(find_root(metadata_location)))
    metadata = normalise(raw, new_uuid=(row.uuid if row is not None else "") or str(uuid4()))
    check_register_folder(metadata["location"], metadata_location=metadata_location, of=Table)
    check_foreign(metadata, now_ms=now_ms())
    if MASTER in metadata["refs"]:
        message = "A table with a ref called master cannot be registered: master is the branch that Iceberg calls main"
        raise Malformed(message)
    if row is None:
        return _insert(plain, metadata, by=by, is_registered=True)
    if not overwrite:
        raise _exists(ref)
    base = _read_undamaged(row)
    uuid = row.uuid or ("" if base is None else uuid_of(base))
    if row.location != metadata["location"] or uuid not in ("", uuid_of(metadata)):
        way_back = f". {metadata_files.describe_way_back(row)}" if base is None else ""
        message = f"Cannot overwrite {ref.table}: the metadata is of another table{way_back}"
        raise Malformed(message)
    # Nobody can commit to damaged metadata, and nothing open is to keep it from being replaced.
    first = partial(signals.table_repairing.send, sender=Table, table=ref.table, principal=by) if base is None else None
    try:
        swap([_overwrite(plain, row, base, metadata)], by=by, first=first)
    except LostRace:
        raise _too_busy(ref) from None
    return load_table(plain, by=by)


def _read_undamaged(row: TableRow) -> Metadata | None:
    try:
        return metadata_files.read(row).metadata
    except DamagedTable:
        return None


def _overwrite(ref: TableRef, row: TableRow, base: Metadata | None, metadata: Metadata) -> Move:
    """Return a table's move to other metadata of it; without a base, which is damaged, back to earlier metadata."""
    if base is not None:
        file = write_next(row, base, metadata)
    else:
        base = {**lens.forget(metadata, lens.branches_of(metadata)), "current-snapshot-id": no_snapshot(metadata)}
        file = metadata_files.write(metadata, location=row.location, version=row.version + 1)
    branches = frozenset({MASTER, *lens.branches_of(base), *lens.branches_of(metadata)})
    return Move(ref, row, base, file, branches)


def rename_table(*, source: TableRef, target: TableRef, by: Principal | None) -> None:
    """Give a table another name; its files stay where they are.

    Raises:
        AlreadyExists: the new name is taken.

    """
    check_name(target.name, what="table")
    permissions.check_write(by, source, MASTER)
    row = find_table(source)
    if row is None:
        raise permissions.no_such_table(source)
    namespace = get_namespace(target)
    permissions.check_write(by, target, MASTER)
    if View.objects.filter(namespace=namespace, name=target.name).exists():
        raise cannot_rename(source, target, kind="View")
    try:
        with transaction.atomic():
            moved = Table.objects.filter(pk=row.id).update(namespace=namespace, name=target.name)
            if not moved:
                raise permissions.no_such_table(source)
            if source.is_dataset or target.is_dataset:
                signals.table_renamed.send(sender=Table, table=source.table, new_table=target.table, principal=by)
            record_audit(by=by, verb="rename_table", object=source.path, detail={"to": target.path})
    except IntegrityError:
        raise cannot_rename(source, target, kind="Table") from None


def drop_table(*, table: str, purge: bool, by: Principal | None) -> None:
    """Drop a dataset's table on all its branches; with `purge` its files too.

    Raises:
        NoSuchTable: there is no such table.

    """
    drop_table_at(ref=table_ref(table), purge=purge, by=by)


def drop_table_at(*, ref: TableRef, purge: bool, by: Principal | None) -> TableRow:
    """Drop a table on all its branches; with `purge` its files too. Answers what it was.

    Raises:
        NoSuchTable: there is no such table.

    """
    permissions.check_write(by, ref, MASTER)
    for _attempt in range(ATTEMPTS):
        row = find_table(ref)
        if row is None:
            raise permissions.no_such_table(ref)
        try:
            _drop_row(ref, row, by=by)
        except LostRace:
            continue
        if purge:
            transaction.on_commit(lambda location=row.location: _remove_files(location))  # type: ignore[misc]
        return row
    raise _too_busy(ref)


def _drop_row(ref: TableRef, row: TableRow, *, by: Principal | None) -> None:
    with transaction.atomic():
        ports.lock_tables(tables=[ref.table])
        # The version is taken as a commit takes it: what was committed before is in the row, what comes after fails.
        if not Table.objects.filter(pk=row.id, version=row.version).update(version=row.version + 1):
            raise LostRace
        Table.objects.filter(pk=row.id).delete()
        if ref.is_dataset:
            signals.table_dropped.send(sender=Table, table=ref.table, principal=by)
        record_audit(by=by, verb="drop_table", object=ref.path, detail={"location": row.location})


def _remove_files(location: str) -> None:
    root = find_root(location)
    if root is not None:
        metadata_files.remove_tree(location, root=root)


def _insert(ref: TableRef, metadata: Metadata, *, by: Principal | None, is_registered: bool = False) -> TableView:
    """Write a table's first file and its row."""
    namespace = get_namespace(ref)
    location = metadata["location"]
    make_folders(location)
    file = metadata_files.write(metadata, location=location, version=0)
    try:
        with writing():
            take_location(location, file=file.location, by=by, shared_with=Table if is_registered else None)
            Table.objects.create(
                namespace=namespace,
                name=ref.name,
                location=location,
                metadata_location=file.location,
                version=0,
                uuid=file.uuid,
            )
            _announce_created(ref, metadata, by=by)
            if by is not None:
                record_audit(
                    by=by,
                    verb="create_table",
                    object=ref.path,
                    branch=ref.branch or MASTER,
                    detail={"location": location, "uuid": metadata["table-uuid"]},
                )
    except IntegrityError:
        metadata_files.delete(file)
        raise _exists(ref) from None
    except BaseException:
        metadata_files.delete(file)
        raise
    return load_table(ref, by=by)


def _announce_created(ref: TableRef, metadata: Metadata, *, by: Principal | None) -> None:
    if not ref.is_dataset:
        return
    branch = ref.branch or MASTER
    signals.table_created.send(sender=Table, table=ref.table, branch=branch, principal=by)
    # A table that is taken over may have more branches than the one it is made on.
    others = sorted(name for name in lens.branches_of(metadata) - {branch} if not is_internal(name))
    for name in (branch, *others):
        after = lens.pointer(metadata, name)
        if after is not None and (after.snapshot_id is not None or name != MASTER):
            signals.table_committed.send(
                sender=Table,
                table=ref.table,
                branch=name,
                before=None,
                after=after,
                metadata=metadata,
                shared=(),
                principal=by,
            )


def get_namespace(ref: TableRef) -> Namespace:
    """Return the namespace that a table or view is to be in."""
    namespace = Namespace.objects.filter(path=SEPARATOR.join(ref.namespace)).first()
    if namespace is None:
        message = f"Namespace does not exist: {'.'.join(ref.namespace)}"
        raise NoSuchNamespace(message)
    return namespace


def _check_create(ref: TableRef, *, by: Principal | None) -> None:
    if by is None or by.job is None:
        permissions.check_namespace(by, ref.namespace, "read")
    namespace = get_namespace(ref)
    branch = ref.branch or MASTER
    chain = get_chain(ref, by=by) if is_internal(branch) else ()
    permissions.check_write(by, ref, branch, staged_for=chain[0] if chain else None)
    if View.objects.filter(namespace=namespace, name=ref.name).exists():
        message = f"View with same name already exists: {ref.table}"
        raise AlreadyExists(message)


def _exists(ref: TableRef) -> AlreadyExists:
    return AlreadyExists(f"Table already exists: {ref.table}")


def cannot_rename(source: TableRef, target: TableRef, *, kind: str) -> AlreadyExists:
    """Return the refusal of a rename whose new name is taken."""
    return AlreadyExists(f"Cannot rename {source.table} to {target.table}. {kind} already exists")


def _too_busy(ref: TableRef) -> Unavailable:
    return Unavailable(f"{ref.table} is being changed by too many writers and nothing was changed: try again")


def render_input(*, table: str, scope: JobScope) -> bytes | None:
    """Return what the catalog answers to a job that loads an input; None if the job must ask for it itself."""
    return queries.render_input(table=table, scope=scope, now=now_ms())
