"""Who may close a transaction, and what of its rows a reader may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.protocol import fold_column
from webapp.accounts.permissions import can_dataset, list_sensitive
from webapp.accounts.rules.sight import EVERYTHING, RowSight
from webapp.catalog import queries as catalog
from webapp.core.errors import Conflict, PermissionDenied
from webapp.datasets.models import Dataset

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.datasets.models import Transaction


def see_rows(principal: Principal | None, dataset: Dataset, *ends: str | Transaction | None) -> RowSight:
    """Return what a reader may see of the rows of a dataset.

    A column is the same under every name that it has or had: who renames one on a branch takes it out of nobody's cover.

    Args:
        principal: who reads; None is anybody, such as whoever a webhook tells.
        dataset: whose rows these are.
        ends: the branches and transactions whose rows are read; without any, those of all branches.

    """
    branches = {end if isinstance(end, str) else end.branch_name for end in ends if end is not None}
    names = list_sensitive(principal, dataset.path, branches=branches if ends else None)
    if not names:
        return EVERYTHING
    sight = RowSight.without(names)
    fields = [
        (field["id"], field["name"])
        for schema in catalog.get_metadata(table=dataset.table)["schemas"]
        for field in schema["fields"]
    ]
    ids = {number for number, name in fields if sight.hides(name)}
    return RowSight(sight.hidden | {fold_column(name) for number, name in fields if number in ids})


def see_keys(principal: Principal | None, path: str) -> RowSight:
    """Return what a reader may see of rows of a dataset that are named by their keys, on whichever branch they are."""
    names = list_sensitive(principal, path)
    dataset = Dataset.objects.filter(path=path).first() if names else None
    return see_rows(principal, dataset) if dataset is not None else RowSight.without(names)


def check_commit(principal: Principal, transaction: Transaction) -> None:
    """Refuse to commit somebody else's transaction, or one that a build closes itself.

    Raises:
        Conflict: it belongs to a build.
        PermissionDenied: somebody else opened it, and one is no maintainer of the dataset.

    """
    _check_is_of_a_person(transaction)
    if not _is_own(principal, transaction):
        message = f"Transaction {transaction.pk} was opened by {transaction.by}; only they and maintainers commit it."
        raise PermissionDenied(message, code="not_the_opener")


def check_abort(principal: Principal, transaction: Transaction) -> None:
    """Refuse to abort somebody else's transaction while it is in use, or one that a build closes itself.

    Raises:
        Conflict: it belongs to a build.
        PermissionDenied: somebody else opened it, it is not idle for long, and one is no maintainer of the dataset.

    """
    _check_is_of_a_person(transaction)
    if not _is_own(principal, transaction) and not transaction.is_idle:
        until = "."
        if transaction.abortable_at is not None:
            until = (
                f", until nothing was written to it for a time: from {transaction.abortable_at:%Y-%m-%d %H:%M} UTC on."
            )
        message = (
            f"Transaction {transaction.pk} was opened by {transaction.by}; only they and maintainers abort it{until}"
        )
        raise PermissionDenied(message, code="not_the_opener")


def _check_is_of_a_person(transaction: Transaction) -> None:
    if transaction.build_id is not None:
        message = f"Transaction {transaction.pk} belongs to build {transaction.build_id}, which closes it itself."
        raise Conflict(message, code="belongs_to_build", build=transaction.build_id)


def _is_own(principal: Principal, transaction: Transaction) -> bool:
    return principal.username == transaction.by or can_dataset(principal, transaction.dataset.path, "maintain")
