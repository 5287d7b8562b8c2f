"""What goes with a deleted branch: its JobSpecs, and its data unless that is kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction

from webapp.accounts import queries as accounts
from webapp.builds.services import publication, queue
from webapp.datasets import services as datasets

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository


def follow_deleted_branch(*, repository: Repository, branch: str, data: str, by: Principal | None, **_: Any) -> None:
    """Take the JobSpecs of a deleted branch away, for which nobody waits any more, and its data unless that is kept."""
    publication.unpublish(repository=repository, branch=branch)
    queue.wake_unpublished(repository=repository, branch=branch)
    if data == "delete":
        _delete_data(repository, branch, by=by)


def _delete_data(repository: Repository, branch: str, *, by: Principal | None) -> None:
    """Delete the dataset branches. Transactions stay in the history."""
    folders = accounts.list_folders(repository=repository.name)
    keys = datasets.intend_deletions(folders=folders, branch=branch, by=by)
    # Tables are rewritten one by one: not inside the block that holds the database's write lock.
    transaction.on_commit(partial(datasets.carry_out_deletions, keys=keys, by=by))
