"""What every writer of datasets records: branches, transactions, and what clients commit to tables without asking first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.db import transaction as database
from django.db.models import Max

from webapp.catalog import queries as catalog_queries
from webapp.catalog.rules import lens
from webapp.catalog.rules.metadata import walk_back
from webapp.catalog.rules.pointers import Pointer
from webapp.core import clock, names
from webapp.core.errors import Conflict
from webapp.core.prepared import Prepared
from webapp.datasets import queries, signals
from webapp.datasets.models import Dataset, DatasetBranch, Transaction
from webapp.datasets.rules import ancestry, summaries
from webapp.datasets.rules import transactions as rules
from webapp.datasets.rules.transactions import TransactionState

if TYPE_CHECKING:
    from webapp.catalog.rules.iceberg import Metadata
    from webapp.core.principals import Principal

_LOCKED = Prepared(lambda table: Dataset.objects.select_for_update().filter(table=table), str)
"""A dataset by its table, locked where the database locks rows."""
_LAST = Prepared(
    lambda branch: (
        Transaction.objects.filter(dataset_branch=branch)
        .order_by()
        .values("dataset_branch")
        .annotate(last=Max("number"), closed=Max("closed_at"))
        .values_list("last", "closed")
    ),
    int,
)
"""Of the transactions of a branch: the highest number, and when the last one was closed."""
LOOKED_UP = 100
"""Snapshots of a line that are looked up together."""


def register_dataset(*, table: str, by: Principal | None) -> Dataset:
    """Record the dataset of a table that the catalog has, and its root branch master; once."""
    path = "/" + table.replace(".", "/")
    with database.atomic():
        dataset, _ = Dataset.objects.get_or_create(
            table=table, defaults={"path": path, "created_by_id": None if by is None else by.user_id}
        )
        DatasetBranch.objects.get_or_create(
            dataset=dataset, name_lower=names.MASTER, defaults={"name": names.MASTER, "parent": None}
        )
    return dataset


def record_commit(
    *,
    table: str,
    branch: str,
    before: Pointer | None,
    after: Pointer,
    metadata: Metadata,
    shared: Sequence[str] = (),
    by: Principal | None,
) -> Transaction | None:
    """Record a plain client's commit as one transaction that is committed already.

    Args:
        table: the table.
        branch: the branch that it changed, which is made where the dataset has none of that name.
        before: where the branch stood; None where it had nothing of its own.
        after: where it stands.
        metadata: the table's, with the commit.
        shared: what it changed of all branches at once, such as properties.
        by: the actor.

    Returns:
        The transaction; None where the branch shows what another transaction ended with, as when it is only made.

    """
    with database.atomic(savepoint=False):
        dataset = _LOCKED.first(table)
        if dataset is None:
            dataset = register_dataset(table=table, by=by)
            lock([dataset])
        pointer = queries.find_branch(dataset, branch)
        is_made = False
        if pointer is None or (pointer.transaction is None and before is None):
            chain = queries.get_fallback_chain(path=dataset.path, branch=branch)
            is_made = _is_placeholder(metadata, chain)
            pointer = _start_branch(dataset, branch, pointer, _find_start(dataset, chain, after, metadata))
        rules.check_may_open(dataset=dataset.path, branch=branch, standing=queries.standing_of(pointer))
        shown = pointer.transaction
        if shown is not None and queries.pointer_of(shown) == after and not shared:
            return None
        row = add_transaction(pointer, type_=rules.UPDATE, by="" if by is None else by.username)
        _close(row, after, metadata, shared=shared, is_made=is_made and shown is None)
    return row


def commit_staged(row: Transaction, pointer: Pointer) -> None:
    """Close a transaction where what was staged for it has become what its branch shows."""
    metadata = catalog_queries.get_metadata(table=row.dataset.table)
    way = _find_way(row, pointer, metadata)
    summary = summaries.summarize(way)
    rows = 0 if row.parent is None else int(row.parent.summary.get("rows") or 0)
    keeps_rows = not way.is_replaced and not way.hides_deletes and summary["deleted"] < rows
    row.type = rules.true_type(row.type, way.operations, is_replaced=way.is_replaced, keeps_rows=keeps_rows)
    mark_committed(row, pointer, {**summary, **_list_changes(row, pointer)})
    _record_followers(row, metadata)


def _close(
    row: Transaction, pointer: Pointer, metadata: Metadata, *, shared: Sequence[str] = (), is_made: bool = False
) -> None:
    """Close a client's transaction as what it was."""
    way = _find_way(row, pointer, metadata)
    row.type = rules.type_of(way.operations, is_replaced=way.is_replaced or is_made)
    mark_committed(row, pointer, {**summaries.summarize(way), **_list_changes(row, pointer, shared)})
    signals.transaction_committed.send(sender=Transaction, transaction=row)
    _record_followers(row, metadata)


def _record_followers(row: Transaction, metadata: Metadata) -> None:
    """Record that branches which track no ids of their own have another schema, spec or order, since master has."""
    is_same = row.parent is not None and not summaries.list_changes(
        queries.pointer_of(row.parent), queries.pointer_of(row)
    )
    if row.branch_name != names.MASTER or is_same:
        return
    followers = sorted(lens.list_followers(metadata))
    for pointer in row.dataset.branches.filter(name__in=followers).select_related("dataset", "transaction"):
        shown, after = pointer.transaction, lens.pointer(metadata, pointer.name)
        if after is None or shown is None or shown.is_open or queries.pointer_of(shown) == after:
            continue
        _close(add_transaction(pointer, type_=rules.UPDATE, by=row.by), after, metadata)


def _find_way(row: Transaction, pointer: Pointer, metadata: Metadata) -> summaries.Way:
    before = None if row.parent is None else row.parent.snapshot_id
    return summaries.find_way(metadata["snapshots"], before=before, after=pointer.snapshot_id)


def _list_changes(row: Transaction, pointer: Pointer, shared: Sequence[str] = ()) -> dict[str, list[str]]:
    """Return what a transaction changes besides rows, as its summary says it; nothing where there is nothing to say."""
    before = pointer if row.parent is None else queries.pointer_of(row.parent)
    changes = [*summaries.list_changes(before, pointer), *shared]
    return {"changes": changes} if changes else {}


@dataclass(frozen=True)
class _Start:
    """What a new branch stands on."""

    parent: DatasetBranch | None
    transaction: Transaction | None


def _find_start(dataset: Dataset, chain: Sequence[str], after: Pointer, metadata: Metadata) -> _Start:
    """Return what a client's new branch stands on: what could be read there before, or whose snapshots it shows.

    Several transactions end with one snapshot where only the schema was changed: then what was read there comes first,
    then the one that ended exactly where the branch stands.
    """
    existing = {branch.name: branch for branch in dataset.branches.filter(name__in=chain).select_related("transaction")}
    origin = ancestry.first_existing(chain, existing)
    seen = queries.resolve_view(dataset, chain)
    read = _Start(None if origin is None else existing[origin], None if seen is None else seen[1])
    ended = _list_ended(dataset, after, metadata)
    if not ended or (read.transaction is not None and read.transaction.pk in {row.pk for row in ended}):
        return read
    chosen = next((row for row in ended if queries.pointer_of(row) == after), ended[0])
    return _Start(find_branch_of(dataset, chosen), chosen)


def _list_ended(dataset: Dataset, after: Pointer, metadata: Metadata) -> list[Transaction]:
    """Return the transactions that ended with the newest snapshot of a line that any ended with, the newest first."""
    line = (snapshot["snapshot-id"] for snapshot in walk_back(metadata["snapshots"], after.snapshot_id))
    committed = dataset.transactions.filter(state=TransactionState.COMMITTED).select_related("dataset_branch")
    while numbers := list(islice(line, LOOKED_UP)):
        by_snapshot: dict[int | None, list[Transaction]] = {}
        for row in committed.filter(snapshot_id__in=numbers).order_by("-closed_at", "-number"):
            by_snapshot.setdefault(row.snapshot_id, []).append(row)
        for number in numbers:
            if number in by_snapshot:
                return by_snapshot[number]
    return []


def _start_branch(dataset: Dataset, name: str, pointer: DatasetBranch | None, start: _Start) -> DatasetBranch:
    if pointer is None:
        return add_branch(dataset, name, parent=start.parent, transaction=start.transaction)
    point(pointer, start.transaction)
    return pointer


def _is_placeholder(metadata: Metadata, chain: Sequence[str]) -> bool:
    """Return whether a branch with these fallbacks had nothing to read, not even columns; a commit makes the table."""
    resolved = lens.resolve(metadata, chain[0], chain[1:]) if chain else None
    return resolved is None or lens.is_empty(metadata, resolved[1])


def lock(datasets: Iterable[Dataset]) -> None:
    """Let one writer at a time decide about a dataset's branches; in one order, so that two never wait in a circle."""
    _lock(pk__in={dataset.pk for dataset in datasets})


def lock_paths(paths: Collection[str]) -> None:
    """Lock the datasets of these paths, in the same order as everybody."""
    _lock(path__in=paths)


def lock_tables(*, tables: Sequence[str]) -> None:
    """Lock the datasets of these tables, in the same order as everybody."""
    _lock(table__in=tables)


def _lock(**which: Collection[object]) -> None:
    # Where the database locks no rows, whoever writes has locked it whole.
    if connection.features.has_select_for_update:
        list(Dataset.objects.select_for_update().filter(**which).order_by("pk").values_list("pk"))


def check_name_is_free(dataset: Dataset, name: str) -> None:
    """Refuse a name that another branch of the dataset has, in whatever case."""
    taken = dataset.branches.filter(name_lower=name.lower()).values_list("name", flat=True).first()
    if taken is not None:
        message = f"{dataset.path} already has the branch {taken}."
        raise Conflict(message, code="branch_exists", errors={"name": [message]})


def find_branch_of(dataset: Dataset, transaction: Transaction) -> DatasetBranch | None:
    """Return the branch that a transaction was made on; master where that one is deleted."""
    return transaction.dataset_branch or queries.find_branch(dataset, names.MASTER)


def add_branch(
    dataset: Dataset, name: str, *, parent: DatasetBranch | None, transaction: Transaction | None
) -> DatasetBranch:
    """Make the row of a branch whose name is free: whoever makes one, a person, a job or a client of the catalog, does it here."""
    names.check_is_no_ref(name)
    return DatasetBranch.objects.create(
        dataset=dataset, name=name, name_lower=name.lower(), parent=parent, transaction=transaction
    )


def add_transaction(
    pointer: DatasetBranch, *, type_: str, by: str, build_id: int | None = None, job_id: str = ""
) -> Transaction:
    """Return a new transaction at the end of a branch, not saved yet."""
    last, closed_at = _LAST.first(pointer.pk) or (0, None)
    return Transaction(
        dataset=pointer.dataset,
        dataset_branch=pointer,
        branch_name=pointer.name,
        number=last + 1,
        parent=pointer.transaction,
        type=type_,
        by=by,
        build_id=build_id,
        job_id=job_id,
        started_at=rules.not_before(clock.now(), closed_at),
    )


def point(pointer: DatasetBranch, transaction: Transaction | None) -> None:
    """Move a branch to a transaction."""
    pointer.transaction = transaction
    pointer.save(update_fields=["transaction"])


def mark_committed(row: Transaction, pointer: Pointer, summary: Mapping[str, Any]) -> None:
    """Close a transaction where it ended, and move its branch to it."""
    Transaction.objects.bring(
        row,
        to=TransactionState.COMMITTED,
        type=row.type,
        closed_at=rules.not_before(clock.now(), row.started_at),
        snapshot_id=pointer.snapshot_id,
        schema_id=pointer.schema_id,
        spec_id=pointer.spec_id,
        order_id=pointer.order_id,
        summary=dict(summary),
    )
    if row.dataset_branch is not None:
        point(row.dataset_branch, row)
