"""What readers of a branch are shown: its own, or what it falls back to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from webapp.catalog import queries as catalog_queries
from webapp.core import names
from webapp.core.errors import Conflict, InvalidInput
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.queries.branches import committed_of, find_branch, get_fallback_chain
from webapp.datasets.queries.datasets import find_dataset
from webapp.datasets.queries.transactions import find_transaction, get_transaction
from webapp.datasets.rules.transactions import TransactionState

if TYPE_CHECKING:
    from datetime import datetime


def resolve_input(*, path: str, chain: Sequence[str]) -> tuple[str, Transaction] | None:
    """Return the first branch of the chain with a committed transaction, and that transaction.

    A branch without one does not count as existing: nothing could be read from it.
    """
    dataset = find_dataset(path)
    if dataset is None:
        return None
    return next(((name, shown) for name, shown in _walk_chain(dataset, chain) if shown is not None), None)


def find_committed_at(*, path: str, chain: Sequence[str], at: datetime) -> Transaction | None:
    """Return what readers of a chain of branches were shown at a moment; None where there was nothing."""
    dataset = find_dataset(path)
    if dataset is None:
        return None
    committed = dataset.transactions.filter(state=TransactionState.COMMITTED, closed_at__gt=at)
    parents = dict(committed.values_list("pk", "parent_id"))
    for _name, shown in _walk_chain(dataset, chain):
        current = shown.pk if shown else None
        while current in parents:
            current = parents[current]
        if current is not None:
            return find_transaction(current)
    return None


def resolve_view(dataset: Dataset, chain: Sequence[str]) -> tuple[str, Transaction | None] | None:
    """Return the first branch of the chain that clients would read, and the transaction that it shows.

    Other than for a build's inputs, a branch without a transaction counts where it has something of its own in the table:
    a client reads it as empty, and never what its parent has.
    """
    for name, shown in _walk_chain(dataset, chain):
        if shown is not None or catalog_queries.branch_pointer(table=dataset.table, branch=name) is not None:
            return name, shown
    return None


def _walk_chain(dataset: Dataset, chain: Sequence[str]) -> Iterator[tuple[str, Transaction | None]]:
    """Yield each branch of a chain in turn with its committed transaction; None where it has none, or is not there."""
    branches = {
        branch.name: branch
        for branch in dataset.branches.filter(name__in=list(chain)).select_related("transaction__parent")
    }
    for name in chain:
        yield name, committed_of(branches[name]) if name in branches else None


def parse_view(
    dataset: Dataset, *, branch: str | None = None, transaction: str | None = None
) -> tuple[str, Transaction | None]:
    """Return the branch and the transaction that a `?branch=` or `?transaction=` means; master without either."""
    if branch and transaction:
        message = "Give a branch or a transaction, not both."
        raise InvalidInput(message)
    if transaction:
        row = get_transaction(dataset, transaction)
        if row.state != TransactionState.COMMITTED:
            message = f"Transaction {row.pk} is {row.state}: only a committed one can be read."
            raise Conflict(message, code="not_committed", state=row.state)
        return row.branch_name, row
    name = branch or names.MASTER
    if find_branch(dataset, name) is None:
        names.check_branch_name(name)
    resolved = resolve_view(dataset, (name, *get_fallback_chain(path=dataset.path, branch=name)))
    return resolved if resolved is not None else (name, None)
