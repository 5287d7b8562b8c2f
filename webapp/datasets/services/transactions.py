"""Everything that writes datasets, their branches and transactions.

Services trust their callers about rights: pages and endpoints ask `queries.get_dataset(..., action=...)` first, the
catalog its own permissions, and builds the rights of who started them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError
from django.db import transaction as database

from webapp.accounts import permissions
from webapp.accounts import services as accounts
from webapp.catalog import queries as catalog_queries
from webapp.catalog import services as catalog
from webapp.catalog.rules import lens
from webapp.catalog.rules.pointers import Pointer
from webapp.core import clock, names
from webapp.core.errors import Conflict, InvalidInput
from webapp.core.prepared import Prepared
from webapp.datasets import permissions as rights
from webapp.datasets import queries, signals
from webapp.datasets.models import Dataset, DatasetBranch, Leftover, Transaction
from webapp.datasets.rules import ancestry, summaries
from webapp.datasets.rules import transactions as rules
from webapp.datasets.rules.transactions import TransactionState
from webapp.datasets.services import recording, removals
from webapp.dispatch.sweeps import take_each

if TYPE_CHECKING:
    from webapp.core.principals import Principal

logger = logging.getLogger(__name__)
_WHOLE = Prepared(
    lambda ids: (
        Transaction.objects.filter(pk__in=ids)
        .select_related("dataset", "parent", "dataset_branch")
        .order_by("dataset__table")
    ),
    list,
)
"""Transactions with what they belong to."""


def get_or_create_dataset(*, path: str, by: Principal) -> Dataset:
    """Return the dataset of this path; where there is none, make it with an empty root branch master.

    A top folder that nobody has claimed becomes the maker's.

    Raises:
        PermissionDenied: the maker may not write in the folder.

    """
    table = names.table_name(path)
    dataset = queries.find_dataset(path)
    if dataset is not None:
        return dataset
    with database.atomic():
        accounts.claim_folder(folder=names.folder_of(path), creator=by)
        permissions.check_dataset(by, path, "write")
        dataset = recording.register_dataset(table=table, by=by)
        # The application makes the empty table itself: whoever writes a branch only still needs its master.
        catalog.create_empty_table(table=table, by=None)
    return dataset


def create_dataset(*, path: str, description: str = "", by: Principal) -> Dataset:
    """Make a dataset that must not be there yet.

    Raises:
        Conflict: it is there.

    """
    names.split_dataset_path(path)
    with database.atomic():
        if queries.find_dataset(path) is not None:
            permissions.check_dataset(by, path, "read")
            message = f"The dataset {path} is there already."
            raise Conflict(message, code="dataset_exists", errors={"path": [message]})
        dataset = get_or_create_dataset(path=path, by=by)
        dataset.description = description
        dataset.save(update_fields=["description"])
        accounts.record_audit(by=by, verb="create_dataset", object=path)
    return dataset


def rename_dataset(*, table: str, to: str) -> None:
    """Follow a table to its new name; branches and history stay."""
    path = "/" + to.replace(".", "/")
    for old in Dataset.objects.filter(table=table).values_list("path", flat=True):
        accounts.copy_sensitive(path=old, to=path)
    Dataset.objects.filter(table=table).update(table=to, path=path)


def forget_dataset(*, table: str, by: Principal | None) -> None:
    """Drop the record of a table that the catalog dropped, unless a transaction is open on it or a job reads it."""
    dataset = Dataset.objects.filter(table=table).first()
    if dataset is None:
        return
    check_nothing_open(dataset)
    removals.check_droppable(dataset, by)
    dataset.delete()


def check_nothing_open(dataset: Dataset) -> None:
    """Refuse what would take the table from under a writer."""
    opened = dataset.transactions.filter(state=TransactionState.OPEN).first()
    if opened is not None:
        message = f"Transaction {opened.pk} is open on {dataset.path}, branch {opened.branch_name}: close it first."
        raise Conflict(message, code="transaction_open", transaction=opened.pk)


def create_branch(
    *, dataset: Dataset, name: str, parent: str | None = None, transaction: str | None = None, by: Principal
) -> DatasetBranch:
    """Make a branch: a root, a child of a branch, or a child that starts from any transaction.

    A child points to what its parent points to. Where that is open, the child reads the last committed one, cannot
    start its own, and shares it once it is committed.
    """
    names.check_branch_name(name)
    with database.atomic():
        recording.lock([dataset])
        recording.check_name_is_free(dataset, name)
        start = None if transaction is None else queries.get_transaction(dataset, transaction)
        if start is not None:
            queries.check_usable_base(dataset, start)
        parent_branch = _choose_parent(dataset, parent=parent, start=start)
        if start is None and parent_branch is not None:
            start = parent_branch.transaction
        branch = recording.add_branch(dataset, name, parent=parent_branch, transaction=start)
        if start is None or start.state == TransactionState.COMMITTED:
            _pin(branch, start)
        accounts.record_audit(
            by=by, verb="create_dataset_branch", object=f"{dataset.path}@{name}", detail={"parent": parent}
        )
    return branch


def set_parent(*, dataset: Dataset, name: str, parent: str | None, by: Principal) -> DatasetBranch:
    """Set the parent of a branch, or make it a root. Only the ancestry record changes; no transaction moves.

    Raises:
        Conflict: it is master, or it shares an open transaction of the parent that it has.
        InvalidInput: the new parent is the branch itself or comes from it.

    """
    with database.atomic():
        recording.lock([dataset])
        branch = queries.get_branch(dataset, name)
        if name == names.MASTER:
            raise Conflict(f"{dataset.path}: master is the root and has no parent.", code="master_stays")
        _check_shares_nothing(branch)
        target = None if parent is None else queries.get_branch(dataset, parent)
        if target is not None and name in (target.name, *queries.branch_ancestors(dataset, target.name)):
            message = f"Branch {target.name} of {dataset.path} comes from {name} and cannot be its parent."
            raise InvalidInput(message, code="parent_below", errors={"parent": [message]})
        before = None if branch.parent is None else branch.parent.name
        if before == parent:
            return branch
        branch.parent = target
        branch.save(update_fields=["parent"])
        accounts.record_audit(
            by=by,
            verb="set_dataset_branch_parent",
            object=f"{dataset.path}@{name}",
            branch=name,
            detail={"from": before, "to": parent},
        )
    return branch


def _check_shares_nothing(branch: DatasetBranch) -> None:
    """Refuse to move a branch that follows a transaction which is open on its parent."""
    latest = branch.transaction
    if latest is not None and latest.is_open and latest.dataset_branch_id != branch.pk:
        message = f"Branch {branch.name} of {branch.dataset.path} shares open transaction {latest.pk}: close it first."
        raise Conflict(message, code="transaction_open", transaction=latest.pk)


def open_transaction(
    *,
    dataset: Dataset,
    branch: str,
    chain: Sequence[str] = (),
    type: str,
    by: Principal,
    build_id: int | None = None,
    job_id: str = "",
    staging_branch: str = "",
) -> Transaction:
    """Start a transaction; only its staging branch is written until it is committed.

    Where the dataset has no such branch, it is made off the first branch of the chain that exists, or as a root. It
    starts from what can be read there, so that work on one branch does not wait for work on another.
    """
    rules.check_type(type)
    with database.atomic():
        recording.lock([dataset])
        pointer = queries.find_branch(dataset, branch) or _add_branch_from_chain(dataset, branch, chain)
        rules.check_may_open(dataset=dataset.path, branch=branch, standing=queries.standing_of(pointer))
        _start_from_parent(pointer)
        _track(pointer)
        opened = recording.add_transaction(pointer, type_=type, by=by.username, build_id=build_id, job_id=job_id)
        opened.staging_branch = staging_branch or f"{queries.STAGING_PREFIX}{job_id or opened.pk}"
        opened.save()
        recording.point(pointer, opened)
    return opened


def start_transaction(*, dataset: Dataset, branch: str, type: str, by: Principal) -> Transaction:
    """Start a transaction that its opener writes and closes; the branch is made as a plain client's write would."""
    names.check_branch_name(branch)
    chain = (branch, *queries.get_fallback_chain(path=dataset.path, branch=branch))
    with database.atomic():
        opened = open_transaction(dataset=dataset, branch=branch, chain=chain, type=type, by=by)
        accounts.record_audit(
            by=by,
            verb="open_transaction",
            object=dataset.path,
            branch=branch,
            detail={"transaction": opened.pk, "type": type},
        )
    return opened


def commit_transactions(
    *, transactions: Sequence[Transaction], branch: str, staging: str, by: Principal
) -> list[Transaction]:
    """Make what was staged visible on the branch, for all the transactions at once or for none."""
    with database.atomic():
        recording.lock([row.dataset for row in transactions])
        rows = {row.dataset.table: row for row in _reload(transactions)}
        for row in rows.values():
            _check_may_commit(row, branch=branch, staging=staging)
        staged = [table for table in rows if catalog_queries.branch_pointer(table=table, branch=staging) is not None]

        def mark(pointers: Mapping[str, Pointer | None]) -> None:
            for table in staged:
                recording.commit_staged(rows[table], _check_moved(table, pointers[table]))

        if staged:
            catalog.publish_staging(moves=staged, staging=staging, branch=branch, by=by, on_swap=mark)
        for table in rows.keys() - set(staged):
            recording.mark_committed(rows[table], *_find_unchanged(rows[table]))
        for row in rows.values():
            _share_with_children(row)
            accounts.record_audit(
                by=by,
                verb="commit_transaction",
                object=row.dataset.path,
                branch=row.branch_name,
                job_id=row.job_id,
                detail={"transaction": row.pk, "type": row.type, "snapshot": str(row.snapshot_id or "")},
            )
            signals.transaction_committed.send(sender=Transaction, transaction=row)
    return list(rows.values())


def abort_transaction(*, transaction: Transaction, reason: str, by: Principal | None = None) -> Transaction:
    """End a transaction without effect: nothing of it is visible, and its branch points to the last committed one.

    This needs the database alone. What it leaves in the table is removed at once, or as soon as the table can be written.
    """
    with database.atomic():
        recording.lock([transaction.dataset])
        (row,) = _reload([transaction])
        rules.check_transition(transaction=row.pk, state=row.state, to=TransactionState.ABORTED)
        closed_at = rules.not_before(clock.now(), row.started_at)
        Transaction.objects.bring(row, to=TransactionState.ABORTED, reason=reason[:400], closed_at=closed_at)
        shared = [pointer for pointer in row.pointers.select_related("dataset") if pointer.pk != row.dataset_branch_id]
        for pointer in list(row.pointers.select_related("dataset")):
            recording.point(pointer, row.parent)
        accounts.record_audit(
            by=by,
            verb="abort_transaction",
            object=row.dataset.path,
            branch=row.branch_name,
            job_id=row.job_id,
            detail={"transaction": row.pk, "reason": reason[:400]},
        )
        signals.transaction_aborted.send(sender=Transaction, transaction=row, reason=reason)
        try:
            with database.atomic():
                _clean_table(row, shared)
        except DatabaseError:
            raise
        except Exception as error:
            # Damaged in whatever way, full, away, or others keep committing: the transaction is over all the same.
            logger.warning("transaction %s is aborted, and its table is cleaned later: %r", row.pk, error)
            Leftover.objects.create(transaction=row, branches=[pointer.pk for pointer in shared])
    return row


def commit_by_hand(*, transaction: Transaction, by: Principal) -> Transaction:
    """Commit a transaction that a person opened.

    Raises:
        Conflict: a build opened it.
        PermissionDenied: they may not commit it.

    """
    rights.check_commit(by, transaction)
    (committed,) = commit_transactions(
        transactions=[transaction], branch=transaction.branch_name, staging=transaction.staging_branch, by=by
    )
    return committed


def abort_by_hand(*, transaction: Transaction, by: Principal) -> Transaction:
    """Abort a transaction that a person opened.

    Raises:
        Conflict: a build opened it.
        PermissionDenied: they may not abort it, or not yet.

    """
    rights.check_abort(by, transaction)
    return abort_transaction(transaction=transaction, reason=f"Aborted by {by.username}.", by=by)


def abort_open_transactions(*, table: str, reason: str, by: Principal | None) -> int:
    """Abort what is open on a table; return how many that were."""
    opened = Transaction.objects.filter(dataset__table=table, state=TransactionState.OPEN).select_related("dataset")
    for row in opened:
        abort_transaction(transaction=row, reason=reason, by=by)
    return len(opened)


def sweep_leftovers() -> dict[str, int]:
    """Clean tables that could not be written when a transaction on them was aborted."""
    leftovers = Leftover.objects.select_related("transaction__dataset").order_by("pk")
    # Readers do not see what is left of those that cannot be cleaned yet.
    cleaned = take_each(leftovers, _clean_leftover, what="Nobody can clean the table behind what is left")
    return {"tables cleaned after aborted transactions": cleaned}


def _clean_leftover(leftover: Leftover) -> bool:
    row = leftover.transaction
    with database.atomic():
        recording.lock([row.dataset])
        shared = row.dataset.branches.filter(pk__in=leftover.branches, transaction=row.parent_id)
        _clean_table(row, shared.select_related("dataset"))
        leftover.delete()
    return True


def _clean_table(row: Transaction, shared: Iterable[DatasetBranch]) -> None:
    """Remove what an aborted transaction had staged, and give those that shared it a place of their own."""
    for pointer in shared:
        _pin(pointer, row.parent)
    if row.staging_branch:
        catalog.drop_staging(tables=[row.dataset.table], staging=row.staging_branch)


def check_commit(*, table: str, branch: str, by: Principal | None) -> None:
    """Refuse a client's commit to a branch that is not for clients; called in the atomic block of the commit.

    Whether an open transaction is in its way is looked at where the commit is recorded.
    """
    if queries.is_staging(branch):
        opened = queries.check_staging_use(table=table, branch=branch, principal=by)
        if opened.build_id is None:
            Transaction.objects.filter(pk=opened.pk).update(written_at=clock.now())
        return
    queries.check_not_internal(branch)


def _reload(transactions: Iterable[Transaction]) -> list[Transaction]:
    return _WHOLE.all([row.pk for row in transactions])


def _choose_parent(dataset: Dataset, *, parent: str | None, start: Transaction | None) -> DatasetBranch | None:
    """Return the parent of a new branch: the one named, else the one whose transaction it starts from."""
    if parent is None:
        return None if start is None else recording.find_branch_of(dataset, start)
    branch = queries.get_branch(dataset, parent)
    if start is not None and start.pk not in queries.list_history_ids(branch):
        message = f"Transaction {start.pk} is not in the history of {parent}."
        raise InvalidInput(message, errors={"transaction": [message]})
    return branch


def _add_branch_from_chain(dataset: Dataset, name: str, chain: Sequence[str]) -> DatasetBranch:
    existing = {branch.name: branch for branch in dataset.branches.select_related("transaction__parent")}
    names.check_spelling(name, existing)
    origin = ancestry.first_existing((fallback for fallback in chain if fallback != name), existing)
    if origin is None:
        return recording.add_branch(dataset, name, parent=None, transaction=None)
    parent = existing[origin]
    branch = recording.add_branch(dataset, name, parent=parent, transaction=queries.committed_of(parent))
    if branch.transaction is not None:
        _pin(branch, branch.transaction)
    return branch


def _start_from_parent(pointer: DatasetBranch) -> None:
    """Let the first write on an empty branch that reads by fallback start from what it reads.

    An empty branch that was made by hand has a pointer of its own in the catalog and stays empty.
    """
    if pointer.transaction is not None or pointer.parent is None:
        return
    if catalog_queries.branch_pointer(table=pointer.dataset.table, branch=pointer.name) is not None:
        return
    chain = queries.branch_ancestors(pointer.dataset, pointer.name)
    source = queries.resolve_input(path=pointer.dataset.path, chain=chain)
    if source is not None:
        recording.point(pointer, source[1])
        _pin(pointer, source[1])


def _track(pointer: DatasetBranch) -> None:
    """Let a branch that a plain client made keep its schema, spec and order while a transaction is open on it."""
    metadata = catalog_queries.get_metadata(table=pointer.dataset.table)
    if pointer.transaction is not None and pointer.name in lens.list_followers(metadata):
        _pin(pointer, pointer.transaction)


def _check_may_commit(row: Transaction, *, branch: str, staging: str) -> None:
    rules.check_transition(transaction=row.pk, state=row.state, to=TransactionState.COMMITTED)
    if row.branch_name != branch or row.staging_branch != staging:
        message = (
            f"Transaction {row.pk} writes {row.branch_name} through {row.staging_branch}, "
            f"not {branch} through {staging}."
        )
        raise Conflict(message, code="other_branch")


def _check_moved(table: str, pointer: Pointer | None) -> Pointer:
    if pointer is None:
        message = f"What was staged for {table} has been removed meanwhile."
        raise Conflict(message, code="staging_removed")
    return pointer


def _find_unchanged(row: Transaction) -> tuple[Pointer, dict[str, int]]:
    """Return the pointer and summary of a transaction that wrote nothing: those of the one it stands on."""
    if row.parent is not None:
        summary = {key: value for key, value in row.parent.summary.items() if key != "changes"}
        return queries.pointer_of(row.parent), {**summary, "added": 0, "deleted": 0}
    chain = queries.get_fallback_chain(path=row.dataset.path, branch=row.branch_name)
    view = catalog_queries.load_view(table=row.dataset.table, branch=row.branch_name, chain=chain).metadata
    empty = Pointer(
        snapshot_id=None,
        schema_id=view["current-schema-id"],
        spec_id=view["default-spec-id"],
        order_id=view["default-sort-order-id"],
    )
    return empty, summaries.summarize(summaries.find_way([], before=None, after=None))


def _share_with_children(row: Transaction) -> None:
    """Pin in the catalog the branches that were made off the transaction while it was open."""
    for pointer in row.pointers.exclude(own_transactions=row).select_related("dataset"):
        _pin(pointer, row)


def _pin(branch: DatasetBranch, transaction: Transaction | None) -> None:
    """Give a branch its own pointer in the catalog, so that it no longer follows the one it reads by fallback."""
    table = branch.dataset.table
    if catalog_queries.branch_pointer(table=table, branch=branch.name) is not None:
        # A leftover of a branch of that name that no dataset branch stood for.
        catalog.drop_branch(tables=[table], branch=branch.name)
    if transaction is None:
        catalog.create_branch(table=table, branch=branch.name, pointer=_empty_pointer(branch))
        return
    queries.check_not_expired(branch.dataset, transaction, catalog_queries.get_metadata(table=table))
    catalog.create_branch(table=table, branch=branch.name, pointer=queries.pointer_of(transaction))


def _empty_pointer(branch: DatasetBranch) -> Pointer:
    """Return a place without rows, and without columns where the table still has its first, empty schema."""
    source = names.MASTER if branch.parent is None else branch.parent.name
    chain = queries.get_fallback_chain(path=branch.dataset.path, branch=source)
    view = catalog_queries.load_view(table=branch.dataset.table, branch=source, chain=chain).metadata
    schema = _find_empty(view["schemas"], "schema-id")
    is_bare = schema is not None
    spec = _find_empty(view["partition-specs"], "spec-id") if is_bare else None
    order = _find_empty(view["sort-orders"], "order-id") if is_bare else None
    return Pointer(
        snapshot_id=None,
        schema_id=view["current-schema-id"] if schema is None else schema,
        spec_id=view["default-spec-id"] if spec is None else spec,
        order_id=view["default-sort-order-id"] if order is None else order,
    )


def _find_empty(items: Iterable[Mapping[str, Any]], key: str) -> int | None:
    return next((item[key] for item in items if not item["fields"]), None)
