"""Deleting branches of datasets, and bringing them back.

A deletion is written down first and carried out per table, so that a crash in between is taken on. For a time the branch can
be brought back: its transactions are kept, and a ref of an internal name keeps its snapshot from being expired.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction as database

from webapp.accounts import services as accounts
from webapp.catalog import queries as catalog_queries
from webapp.catalog import services as catalog
from webapp.catalog.rules.pointers import Pointer
from webapp.core import clock, names
from webapp.core.errors import AppError, Conflict
from webapp.datasets import queries, signals
from webapp.datasets.models import Dataset, DatasetBranch, DeletedBranch
from webapp.datasets.rules import transactions as rules
from webapp.datasets.services.transactions import abort_transaction, check_name_is_free, lock

if TYPE_CHECKING:
    from webapp.accounts.rules.principals import Principal
    from webapp.datasets.models import Transaction

logger = logging.getLogger(__name__)
RESUME_AFTER = timedelta(seconds=10)


def delete_branch(*, dataset: Dataset, name: str, by: Principal | None, abort_open: bool = False) -> None:
    """Delete the pointer; its transactions stay and its children hang off its parent. It can be restored for a time.

    Raises:
        Conflict: it is master, or a transaction is open on it and `abort_open` is not given.

    """
    with database.atomic():
        lock([dataset])
        branch = queries.get_branch(dataset, name)
        if name == names.MASTER:
            message = f"{dataset.path}: master is the table's main branch and cannot be deleted."
            raise Conflict(message, code="master_stays")
        opened = _find_open(branch)
        if opened is not None and not abort_open:
            message = f"Transaction {opened.pk} is open on {dataset.path}, branch {name}: commit or abort it first."
            raise Conflict(message, code="transaction_open", transaction=opened.pk)
        carry_out(deletion=_intend(branch, by=by), by=by)


def intend_deletions(*, folders: Iterable[str], branch: str, by: Principal | None) -> list[int]:
    """Write down that the branch goes on every dataset under these top folders, as it does in Git; return the keys."""
    found = (
        row
        for folder in folders
        for row in DatasetBranch.objects.filter(name=branch, dataset__path__istartswith=f"/{folder.strip('/')}/")
        .select_related("dataset")
        .order_by("dataset_id")
    )
    return [_intend(row, by=by).pk for row in found]


def carry_out_deletions(*, keys: Iterable[int], by: Principal | None = None) -> int:
    """Carry out what was written down, each by itself; what cannot be done now is done later. Return how many were."""
    done = 0
    for deletion in DeletedBranch.objects.filter(pk__in=list(keys), branch__isnull=False).select_related("dataset"):
        try:
            with database.atomic():
                lock([deletion.dataset])
                carry_out(deletion=deletion, by=by)
        except AppError as error:
            logger.warning("branch %s of %s is deleted later: %s", deletion.name, deletion.dataset.path, error.detail)
            continue
        done += 1
    return done


def carry_out(*, deletion: DeletedBranch, by: Principal | None) -> None:
    """Delete a branch as it was written down; called in an atomic block that has the dataset locked."""
    deletion.refresh_from_db()
    dataset, branch = deletion.dataset, deletion.branch
    if branch is None:
        return
    opened = _find_open(branch)
    if opened is not None:
        abort_transaction(transaction=opened, reason=f"Branch {branch.name} was deleted.", by=by)
        branch.refresh_from_db()
    is_kept = _keeps_for() > timedelta(0) and not branch.name.startswith(queries.INTERNAL_PREFIX)
    pointer = catalog.retire_branch(
        table=dataset.table, branch=branch.name, kept_as=deletion.kept_as if is_kept else None
    )
    accounts.record_audit(
        by=by,
        verb="delete_dataset_branch",
        object=f"{dataset.path}@{branch.name}",
        detail={"by": deletion.deleted_by, "restorable": is_kept},
    )
    _retire(deletion, branch, pointer)
    if not is_kept:
        deletion.delete()


def restore_branch(*, deletion: DeletedBranch, by: Principal) -> DatasetBranch:
    """Bring a deleted branch back with its transactions, off the parent that it had, or master where that is gone.

    Raises:
        Conflict: another branch has its name, or its snapshot is gone from the table.

    """
    dataset = deletion.dataset
    with database.atomic():
        lock([dataset])
        deletion.refresh_from_db()
        if deletion.branch_id is not None:
            message = f"Branch {deletion.name} of {dataset.path} is just being deleted: try again."
            raise Conflict(message, code="being_deleted")
        check_name_is_free(dataset, deletion.name)
        if deletion.transaction is not None:
            metadata = catalog_queries.get_metadata(table=dataset.table)
            queries.check_not_expired(dataset, deletion.transaction, metadata)
        branch = DatasetBranch.objects.create(
            dataset=dataset,
            name=deletion.name,
            name_lower=deletion.name.lower(),
            parent=_find_parent(deletion),
            transaction=deletion.transaction,
        )
        pointer = _read_pointer(deletion)
        if pointer is not None:
            catalog.revive_branch(table=dataset.table, branch=branch.name, pointer=pointer, kept_as=deletion.kept_as)
        deletion.own_transactions.update(dataset_branch=branch, deleted_branch=None)
        deletion.delete()
        accounts.record_audit(by=by, verb="restore_dataset_branch", object=f"{dataset.path}@{branch.name}")
    return branch


def forget_branch(*, table: str, branch: str, by: Principal | None) -> None:
    """Drop the pointer of a branch that a client removed from the table.

    It can be restored while the table has its snapshot, which nothing keeps: the client's commit says what is referred to.
    """
    dataset = Dataset.objects.filter(table=table).first()
    pointer = None if dataset is None else queries.find_branch(dataset, branch)
    if dataset is None or pointer is None or branch == names.MASTER:
        return
    committed = queries.committed_of(pointer)
    was = None if committed is None or committed.dataset_branch_id != pointer.pk else queries.pointer_of(committed)
    _retire(_intend(pointer, by=by), pointer, was)


def sweep_deleted_branches() -> dict[str, int]:
    """Carry out deletions that a crash has cut, and end what nobody has restored in time."""
    now = clock.now()
    due = DeletedBranch.objects.filter(branch__isnull=False, deleted_at__lt=now - RESUME_AFTER)
    resumed = carry_out_deletions(keys=due.values_list("pk", flat=True))
    ended = 0
    over = DeletedBranch.objects.filter(branch=None, deleted_at__lt=now - _keeps_for())
    for deletion in over.select_related("dataset"):
        try:
            with database.atomic():
                lock([deletion.dataset])
                catalog.drop_branch(tables=[deletion.dataset.table], branch=deletion.kept_as)
                deletion.delete()
        except AppError:
            # The table is damaged or away: later.
            continue
        ended += 1
    return {"deletions of branches resumed": resumed, "deleted branches ended": ended}


def _intend(branch: DatasetBranch, *, by: Principal | None) -> DeletedBranch:
    deletion, _ = DeletedBranch.objects.get_or_create(
        branch=branch,
        defaults={
            "dataset": branch.dataset,
            "name": branch.name,
            "parent": "" if branch.parent is None else branch.parent.name,
            "deleted_by": "" if by is None else by.username,
        },
    )
    return deletion


def _retire(deletion: DeletedBranch, branch: DatasetBranch, pointer: Pointer | None) -> None:
    """Remove the pointer, and keep what it takes to make it again."""
    deletion.transaction = queries.committed_of(branch)
    if pointer is not None:
        deletion.snapshot_id, deletion.schema_id = pointer.snapshot_id, pointer.schema_id
        deletion.spec_id, deletion.order_id = pointer.spec_id, pointer.order_id
    deletion.branch = None
    deletion.deleted_at = clock.now()
    deletion.save()
    branch.own_transactions.update(deleted_branch=deletion)
    branch.children.update(parent=branch.parent)
    dataset, name = branch.dataset, branch.name
    branch.delete()
    signals.branch_removed.send(sender=DatasetBranch, dataset=dataset, branch=name)


def _read_pointer(deletion: DeletedBranch) -> Pointer | None:
    if deletion.schema_id is None or deletion.spec_id is None or deletion.order_id is None:
        return None
    return Pointer(
        snapshot_id=deletion.snapshot_id,
        schema_id=deletion.schema_id,
        spec_id=deletion.spec_id,
        order_id=deletion.order_id,
    )


def _find_parent(deletion: DeletedBranch) -> DatasetBranch | None:
    if not deletion.parent:
        return None
    parent = queries.find_branch(deletion.dataset, deletion.parent)
    return parent or queries.find_branch(deletion.dataset, names.MASTER)


def _find_open(branch: DatasetBranch) -> Transaction | None:
    return branch.own_transactions.filter(state=rules.OPEN).select_related("dataset").first()


def _keeps_for() -> timedelta:
    return timedelta(hours=settings.TRIBUTARY_DELETED_BRANCH_HOURS)
