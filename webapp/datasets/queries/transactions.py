"""Transactions, and the lines that they stand in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from webapp.catalog.rules.pointers import Pointer
from webapp.core.errors import Conflict, NotFound
from webapp.datasets.models import Dataset, DatasetBranch, Transaction
from webapp.datasets.queries.branches import INTERNAL_PREFIX, committed_of, find_branch
from webapp.datasets.queries.datasets import path_in_folders
from webapp.datasets.rules.transactions import TransactionState

SHORTEST_ID = 6


def get_transaction(dataset: Dataset, transaction: str) -> Transaction:
    """Return the dataset's transaction of this id, whole or its first characters as pages show it."""
    is_long_enough = len(transaction) >= SHORTEST_ID
    rows = list(dataset.transactions.filter(pk__startswith=transaction)[:2]) if is_long_enough else []
    if len(rows) != 1:
        message = f"{dataset.path} has no transaction {transaction}."
        raise NotFound(message)
    return rows[0]


def find_transaction(pk: str | None) -> Transaction | None:
    """Return the transaction of this whole id."""
    return Transaction.objects.filter(pk=pk).first()


def list_transactions(dataset: Dataset, *, branch: str | None = None, aborted: bool = True) -> QuerySet[Transaction]:
    """Return transactions, newest first: those started on the branch, or on all that people know of."""
    transactions = dataset.transactions.exclude(branch_name__startswith=INTERNAL_PREFIX)
    if branch is not None:
        transactions = transactions.filter(branch_name=branch)
    if not aborted:
        transactions = transactions.exclude(state=TransactionState.ABORTED)
    return transactions.order_by("-started_at", "-number", "pk")


def list_transactions_made_on(
    *, branch: str, folder_paths: Iterable[str], folders: Iterable[str] = ()
) -> dict[str, Transaction]:
    """Return, of these dataset paths and top folders, those that have a committed transaction of the branch's own.

    With its newest one. A branch that only shares what it was made off has made nothing.
    """
    datasets = Dataset.objects.filter(Q(path__in=list(folder_paths)) | path_in_folders(folders)).order_by()
    pointers = (
        DatasetBranch.objects.filter(name=branch, dataset__in=datasets)
        .select_related("dataset", "transaction__parent")
        .order_by("dataset__path")
    )
    heads = ((pointer, committed_of(pointer)) for pointer in pointers)
    return {
        pointer.dataset.path: committed
        for pointer, committed in heads
        if committed is not None and committed.dataset_branch_id == pointer.pk
    }


def list_history(branch: DatasetBranch) -> list[Transaction]:
    """Return the committed transactions that led to what the branch shows, newest first, across its parents."""
    rows = {row.pk: row for row in branch.dataset.transactions.filter(state=TransactionState.COMMITTED)}
    history: list[Transaction] = []
    current = committed_of(branch)
    while current is not None:
        history.append(current)
        current = rows.get(current.parent_id or "")
    return history


def list_history_ids(branch: DatasetBranch) -> set[str]:
    """Return the ids of the branch's history, with an open transaction at its end."""
    ids = {row.pk for row in list_history(branch)}
    return ids if branch.transaction_id is None else {*ids, branch.transaction_id}


def latest_committed(dataset: Dataset, branch: str) -> Transaction | None:
    """Return the newest committed transaction that readers of this very branch see; None without one."""
    pointer = find_branch(dataset, branch)
    return None if pointer is None else committed_of(pointer)


@dataclass(frozen=True)
class LineStep:
    """One committed transaction of a line."""

    pk: str
    parent: str | None
    type: str


def list_line(transaction: Transaction, *, branches: Collection[str]) -> list[LineStep]:
    """Return the committed transactions of these branches that led to this one, newest first, as far as they are theirs."""
    rows = Transaction.objects.filter(dataset=transaction.dataset_id, dataset_branch__name__in=branches)
    own = {
        pk: LineStep(pk, parent, type_)
        for pk, parent, type_ in rows.filter(state=TransactionState.COMMITTED).values_list("pk", "parent_id", "type")
    }
    line: list[LineStep] = []
    current: str | None = transaction.pk
    while current in own:
        line.append(own[current])
        current = line[-1].parent
    return line


def list_newest(head: Transaction, *, most: int) -> list[Transaction]:
    """Return a committed transaction and those it stands on, newest first, no more than so many.

    It costs a query or two for each branch that they were committed on, however long the history is.
    """
    line: list[Transaction] = []
    near: dict[str, Transaction] = {}
    current: Transaction | None = head
    while current is not None and len(line) < most:
        line.append(current)
        if current.parent_id is not None and current.parent_id not in near:
            near = {row.pk: row for row in _list_before(current)[: most - len(line)]}
        current = near.get(current.parent_id or "", current.parent)
    return line


def _list_before(transaction: Transaction) -> QuerySet[Transaction]:
    """Return the committed transactions before one on its own branch, newest first."""
    own = Transaction.objects.filter(
        find_line(transaction),
        dataset=transaction.dataset_id,
        state=TransactionState.COMMITTED,
        number__lt=transaction.number,
    )
    return own.select_related("parent").order_by("-number")


def find_line(transaction: Transaction) -> Q:
    """Return which transactions of a dataset were started on the branch of one; deleted branches may share its name."""
    line = Q(dataset_branch=transaction.dataset_branch_id, branch_name=transaction.branch_name)
    return line if transaction.dataset_branch_id is not None else line & Q(deleted_line=transaction.deleted_line)


def list_schemas(transactions: Collection[str]) -> dict[str, int | None]:
    """Return for each of these transactions that are there the id of the schema that it left in its table."""
    return dict(Transaction.objects.filter(pk__in=transactions).values_list("pk", "schema_id"))


def leads_to(older: str, newer: str) -> bool:
    """Return whether a transaction is another one of the same dataset, or came before it on its line."""
    rows = Transaction.objects.filter(dataset__transactions=older, state=TransactionState.COMMITTED)
    parents = dict(rows.values_list("pk", "parent_id"))
    current: str | None = newer
    while current is not None and current != older:
        current = parents.get(current)
    return current == older


def check_usable_base(dataset: Dataset, transaction: Transaction) -> None:
    """Refuse an aborted transaction as the start of a branch: it has no data."""
    if transaction.state == TransactionState.ABORTED:
        message = (
            f"Transaction {transaction.pk} of {dataset.path} was aborted: there is no data to start a branch from."
        )
        raise Conflict(message, code="transaction_aborted")


def pointer_of(transaction: Transaction) -> Pointer:
    """Return the committed transaction's place in the table."""
    if transaction.schema_id is None or transaction.spec_id is None or transaction.order_id is None:
        message = f"Transaction {transaction.pk} is {transaction.state}: it has no data to point to."
        raise Conflict(message, code="not_committed")
    return Pointer(
        snapshot_id=transaction.snapshot_id,
        schema_id=transaction.schema_id,
        spec_id=transaction.spec_id,
        order_id=transaction.order_id,
    )


def check_not_expired(dataset: Dataset, transaction: Transaction, metadata: Mapping[str, Any]) -> None:
    """Refuse a transaction whose snapshot or ids maintenance has removed from the table."""
    parts = (
        transaction.snapshot_id is None
        or any(snapshot["snapshot-id"] == transaction.snapshot_id for snapshot in metadata["snapshots"]),
        any(schema["schema-id"] == transaction.schema_id for schema in metadata["schemas"]),
        any(spec["spec-id"] == transaction.spec_id for spec in metadata["partition-specs"]),
        any(order["order-id"] == transaction.order_id for order in metadata["sort-orders"]),
    )
    if not all(parts):
        message = f"The files of transaction {transaction.pk} of {dataset.path} are gone: its snapshot has expired."
        raise Conflict(message, code="expired", transaction=transaction.pk)
