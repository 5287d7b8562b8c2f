"""The staging branches through which open transactions are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.core import names
from webapp.core.errors import Conflict, PermissionDenied
from webapp.datasets.models import Transaction
from webapp.datasets.queries.branches import check_not_internal, get_fallback_chain
from webapp.datasets.rules.transactions import TransactionState

if TYPE_CHECKING:
    from webapp.core.principals import Principal


STAGING_PREFIX = "_job/"
"""What the names of staging branches start with; people's names never start with an underscore."""


def is_staging(branch: str) -> bool:
    """Return whether a table branch is one that a transaction is written through."""
    return branch.startswith(STAGING_PREFIX)


def find_open_staging(*, staging_branch: str, table: str) -> Transaction | None:
    """Return the open transaction of a table that is written through this staging branch."""
    return (
        Transaction.objects.filter(staging_branch=staging_branch, dataset__table=table, state=TransactionState.OPEN)
        .select_related("dataset")
        .first()
    )


def get_table_chain(*, table: str, branch: str, by: Principal | None) -> tuple[str, ...] | None:
    """Return where a table branch reads from while it has nothing of its own; a staging branch from its target.

    None for a staging branch of no open transaction: nobody may use it any more.
    """
    if not is_staging(branch):
        if by is not None and by.job is None:
            check_not_internal(branch)
        return get_fallback_chain(path=names.dataset_path(*_split_table(table)), branch=branch)
    opened = find_open_staging(staging_branch=branch, table=table)
    if opened is None:
        return None
    _check_is_opener(opened, by)
    chain = get_fallback_chain(path=opened.dataset.path, branch=opened.branch_name)
    return (opened.branch_name, *chain)


def check_staging_use(*, table: str, branch: str, principal: Principal | None) -> Transaction:
    """Return the transaction of a staging branch; refuse all but who opened it to write there, and all once it is closed."""
    opened = find_open_staging(staging_branch=branch, table=table)
    if opened is None:
        message = f"No transaction is open on {table} with the staging branch {branch}."
        raise Conflict(message, code="transaction_closed")
    _check_is_opener(opened, principal)
    return opened


def _check_is_opener(opened: Transaction, principal: Principal | None) -> None:
    is_its_job = principal is not None and principal.job is not None and principal.job.branch == opened.staging_branch
    is_opener = principal is not None and principal.job is None and principal.username == opened.by
    if not (is_its_job or is_opener):
        message = f"Transaction {opened.pk} was opened by {opened.by}; only its opener uses its staging branch."
        raise PermissionDenied(message, code="not_the_opener")


def _split_table(table: str) -> tuple[list[str], str]:
    *levels, name = table.split(".")
    return levels, name
