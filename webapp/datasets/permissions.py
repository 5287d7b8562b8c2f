"""Who may close a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts.permissions import can_dataset
from webapp.core.errors import Conflict, PermissionDenied

if TYPE_CHECKING:
    from webapp.accounts.rules.principals import Principal
    from webapp.datasets.models import Transaction


def check_close(principal: Principal, transaction: Transaction) -> None:
    """Refuse to close somebody else's transaction, or one that a build closes itself.

    Raises:
        Conflict: it belongs to a build.
        PermissionDenied: somebody else opened it, and one is no maintainer of the dataset.

    """
    if transaction.build_id is not None:
        message = f"Transaction {transaction.pk} belongs to build {transaction.build_id}, which closes it itself."
        raise Conflict(message, code="belongs_to_build", build=transaction.build_id)
    if principal.username != transaction.by and not can_dataset(principal, transaction.dataset.path, "maintain"):
        message = f"Transaction {transaction.pk} was opened by {transaction.by}; only they and maintainers close it."
        raise PermissionDenied(message, code="not_the_opener")
