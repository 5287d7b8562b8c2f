"""Who may close a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts.permissions import can_dataset
from webapp.core.errors import Conflict, PermissionDenied

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.datasets.models import Transaction


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
