"""Snapshots of a dataset that are still needed, which no client may remove."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.catalog.rules.errors import Invalid
from webapp.core.errors import Conflict
from webapp.datasets import queries
from webapp.datasets.models import Dataset, Transaction

if TYPE_CHECKING:
    from webapp.core.principals import Principal


@dataclass(frozen=True, slots=True)
class Need:
    """A committed transaction that something still needs."""

    transaction: Transaction
    by: str
    """The sentence that names it, such as "Job 2 of build 7 reads it."."""
    way_out: str
    keeps_table: bool = False
    """Whether the table cannot be dropped either."""


FindNeeds = Callable[[Dataset, "Principal | None"], Iterable[Need]]


def register_need(find: FindNeeds) -> None:
    """Add a query for the transactions of a dataset that an app above needs; call it from `AppConfig.ready`.

    It gets the dataset and the user who removes snapshots, to whom the answer is shown.
    """
    if find not in _finders:
        _finders.append(find)


_finders: list[FindNeeds] = []


def check_removal(*, table: str, snapshots: Collection[int], by: Principal | None) -> None:
    """Refuse to remove snapshots that a branch, an open transaction or an app above needs.

    Raises:
        Invalid: it names the snapshot and what needs it.

    """
    dataset = Dataset.objects.filter(table=table).first()
    if dataset is None:
        return
    for need in _list_needs(dataset, by):
        if need.transaction.snapshot_id in snapshots:
            message = f"Cannot remove snapshot {need.transaction.snapshot_id} of {_explain(dataset, need)}"
            raise Invalid(message)


def check_droppable(dataset: Dataset, by: Principal | None) -> None:
    """Refuse to drop the table of a dataset that a job reads.

    Raises:
        Conflict: it names the job.

    """
    need = next((need for need in _list_needs(dataset, by) if need.keeps_table), None)
    if need is not None:
        message = f"Cannot drop {_explain(dataset, need)}"
        raise Conflict(message, code="in_use", transaction=need.transaction.pk)


def _explain(dataset: Dataset, need: Need) -> str:
    row = need.transaction
    return f"{dataset.path} (transaction {row.pk} on branch {row.branch_name}): {need.by}. {need.way_out}."


def _list_needs(dataset: Dataset, by: Principal | None) -> Iterator[Need]:
    for branch in dataset.branches.select_related("transaction__parent"):
        shown, committed = branch.transaction, queries.committed_of(branch)
        if committed is not None and shown is not None and shown.is_open:
            way_out = "Commit or abort it first"
            yield Need(committed, f"open transaction {shown.pk} of branch {branch.name} stands on it", way_out)
        elif committed is not None:
            yield Need(committed, f"branch {branch.name} shows it", "Delete the branch first")
    for find in _finders:
        yield from find(dataset, by)
