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
from webapp.catalog.rules import lens
from webapp.catalog.rules.pointers import BranchPlace, Pointer
from webapp.core import clock, names
from webapp.core.errors import AppError, Conflict
from webapp.datasets import queries, signals
from webapp.datasets.models import Dataset, DatasetBranch, DeletedBranch
from webapp.datasets.rules import transactions as rules
from webapp.datasets.rules.transactions import TransactionState
from webapp.datasets.services.recording import check_name_is_free, lock
from webapp.datasets.services.transactions import abort_transaction
from webapp.dispatch.sweeps import take_each

if TYPE_CHECKING:
    from webapp.core.principals import Principal
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


def remove_branches(*, branches: Iterable[DatasetBranch]) -> int:
    """Delete branches that the installation made for itself and needs no more, with what is open on them; return how many.

    One of a damaged table stays until that is mended, and holds up none of the others.
    """
    return take_each(branches, _remove, what="Nobody can delete the branch")


def _remove(branch: DatasetBranch) -> bool:
    delete_branch(dataset=branch.dataset, name=branch.name, by=None, abort_open=True)
    return True


def intend_deletions(*, folders: Iterable[str], branch: str, git_head: str, by: Principal | None) -> list[int]:
    """Write down that the branch goes on every dataset under these top folders, as it does in Git; return the keys."""
    rows = (
        row
        for folder in folders
        for row in DatasetBranch.objects.filter(name=branch, dataset__folder=folder.strip("/").lower())
        .select_related("dataset")
        .order_by("dataset_id")
    )
    return [_intend(row, git_head=git_head, by=by).pk for row in rows]


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
    is_kept = _is_kept(branch)
    place = catalog.retire_branch(
        table=dataset.table, branch=branch.name, kept_as=deletion.kept_as if is_kept else None
    )
    accounts.record_audit(
        by=by,
        verb="delete_dataset_branch",
        object=f"{dataset.path}@{branch.name}",
        detail={"by": deletion.deleted_by, "restorable": is_kept},
    )
    _retire(deletion, branch, place)
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
        place = _read_place(deletion)
        if deletion.transaction is not None:
            metadata = catalog_queries.get_metadata(table=dataset.table)
            whole = metadata if place is None else lens.bring_back(metadata, place)[0]
            queries.check_not_expired(dataset, deletion.transaction, whole)
        branch = DatasetBranch.objects.create(
            dataset=dataset,
            name=deletion.name,
            name_lower=deletion.name.lower(),
            parent=_find_parent(deletion),
            transaction=deletion.transaction,
        )
        if place is not None:
            pointer = catalog.revive_branch(
                table=dataset.table, branch=branch.name, place=place, kept_as=deletion.kept_as
            )
            _renumber(deletion, place.pointer, pointer)
        deletion.own_transactions.update(dataset_branch=branch, deleted_branch=None, deleted_line="")
        deletion.delete()
        accounts.record_audit(by=by, verb="restore_dataset_branch", object=f"{dataset.path}@{branch.name}")
    return queries.get_branch(dataset, deletion.name)


def forget_branch(*, table: str, branch: str, place: BranchPlace, by: Principal | None) -> None:
    """Drop the pointer of a branch that a client removed from the table; it can be restored as a deleted one can.

    Its snapshot is kept unless the client's own commit removed that as well.
    """
    dataset = Dataset.objects.filter(table=table).first()
    pointer = None if dataset is None else queries.find_branch(dataset, branch)
    if dataset is None or pointer is None or branch == names.MASTER:
        return
    rules.check_may_open(dataset=dataset.path, branch=branch, standing=queries.standing_of(pointer))
    is_kept = _is_kept(pointer)
    deletion = _intend(pointer, by=by)
    _retire(deletion, pointer, place)
    if not is_kept:
        deletion.delete()
    elif place.pointer.snapshot_id is not None:
        catalog.keep_snapshot(table=table, snapshot_id=place.pointer.snapshot_id, kept_as=deletion.kept_as)


def sweep_deleted_branches() -> dict[str, int]:
    """Carry out deletions that a crash has cut, and end what nobody has restored in time."""
    due = DeletedBranch.objects.filter(branch__isnull=False, deleted_at__lt=clock.settled_now() - RESUME_AFTER)
    resumed = carry_out_deletions(keys=due.values_list("pk", flat=True))
    ended = 0
    over = DeletedBranch.objects.filter(branch=None, deleted_at__lt=clock.cautious_now() - _keeps_for())
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


def _intend(branch: DatasetBranch, *, git_head: str = "", by: Principal | None) -> DeletedBranch:
    deletion, _ = DeletedBranch.objects.get_or_create(
        branch=branch,
        defaults={
            "dataset": branch.dataset,
            "name": branch.name,
            "parent": "" if branch.parent is None else branch.parent.name,
            "git_head": git_head,
            "deleted_by": "" if by is None else by.username,
        },
    )
    return deletion


def _retire(deletion: DeletedBranch, branch: DatasetBranch, place: BranchPlace | None) -> None:
    """Remove the pointer, and keep what it takes to make it again."""
    deletion.transaction = queries.committed_of(branch)
    if place is not None:
        pointer = place.pointer
        deletion.snapshot_id, deletion.schema_id = pointer.snapshot_id, pointer.schema_id
        deletion.spec_id, deletion.order_id = pointer.spec_id, pointer.order_id
        deletion.definitions = dict(place.definitions)
    deletion.branch = None
    deletion.deleted_at = clock.now()
    deletion.save()
    first = branch.own_transactions.order_by("number").values_list("pk", flat=True).first() or ""
    branch.own_transactions.update(deleted_branch=deletion, deleted_line=first)
    branch.children.update(parent=branch.parent)
    dataset, name = branch.dataset, branch.name
    branch.delete()
    signals.branch_removed.send(sender=DatasetBranch, dataset=dataset, branch=name)


def _is_kept(branch: DatasetBranch) -> bool:
    return _keeps_for() > timedelta(0) and not branch.name.startswith(queries.INTERNAL_PREFIX)


def _renumber(deletion: DeletedBranch, before: Pointer, after: Pointer) -> None:
    """Have the branch's transactions name what it stands on by the numbers that this has now."""
    for field in ("schema_id", "spec_id", "order_id"):
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            deletion.own_transactions.filter(**{field: old}).update(**{field: new})


def _read_place(deletion: DeletedBranch) -> BranchPlace | None:
    if deletion.schema_id is None or deletion.spec_id is None or deletion.order_id is None:
        return None
    pointer = Pointer(
        snapshot_id=deletion.snapshot_id,
        schema_id=deletion.schema_id,
        spec_id=deletion.spec_id,
        order_id=deletion.order_id,
    )
    return BranchPlace(pointer, deletion.definitions)


def _find_parent(deletion: DeletedBranch) -> DatasetBranch | None:
    if not deletion.parent:
        return None
    parent = queries.find_branch(deletion.dataset, deletion.parent)
    return parent or queries.find_branch(deletion.dataset, names.MASTER)


def _find_open(branch: DatasetBranch) -> Transaction | None:
    return branch.own_transactions.filter(state=TransactionState.OPEN).select_related("dataset").first()


def _keeps_for() -> timedelta:
    return timedelta(hours=settings.TRIBUTARY_DELETED_BRANCH_HOURS)
