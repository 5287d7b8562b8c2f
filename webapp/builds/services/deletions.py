"""What goes with a deleted branch, its JobSpecs, and its data unless that is kept; and the data that comes back with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction

from webapp.accounts import queries as accounts
from webapp.accounts.permissions import check_repository
from webapp.builds.services import publication, queue
from webapp.core.errors import AppError, Conflict
from webapp.datasets import queries as dataset_queries
from webapp.datasets import services as datasets
from webapp.repositories import services as repositories

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository


def follow_deleted_branch(
    *, repository: Repository, branch: str, head: str, data: str, by: Principal | None, **_: Any
) -> None:
    """Take the JobSpecs of a deleted branch away, for which nobody waits any more, and its data unless that is kept."""
    publication.unpublish(repository=repository, branch=branch)
    queue.wake_unpublished(repository=repository, branch=branch)
    if data == "delete":
        _delete_data(repository, branch, head=head, by=by)


def _delete_data(repository: Repository, branch: str, *, head: str, by: Principal | None) -> None:
    """Delete the dataset branches. Transactions stay in the history."""
    folders = accounts.list_folders(repository=repository.name)
    keys = datasets.intend_deletions(folders=folders, branch=branch, git_head=head, by=by)
    # Tables are rewritten one by one: not inside the block that holds the database's write lock.
    transaction.on_commit(partial(datasets.carry_out_deletions, keys=keys, by=by))


@dataclass(frozen=True)
class RestoredData:
    """What came back of a branch's data."""

    paths: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    """Dataset path → why the branch cannot be restored there."""


def _restore_data(*, repository: Repository, branch: str, head: str, by: Principal) -> RestoredData:
    """Bring back the dataset branches that went with a branch of Git when it had this head.

    Safe to repeat: what is back is no longer among them.

    Raises:
        Conflict: they are still being deleted.

    """
    folders = accounts.list_folders(repository=repository.name)
    deletions = dataset_queries.list_deleted_in(folders=folders, branch=branch)
    if deletions.filter(branch__isnull=False).exists():
        message = f"The data of {branch} is still being deleted. Try again in a moment."
        raise Conflict(message, code="being_deleted")
    restored = RestoredData()
    for deletion in deletions.filter(git_head=head):
        try:
            datasets.restore_branch(deletion=deletion, by=by)
        except AppError as error:
            restored.lost[deletion.dataset.path] = error.detail
        else:
            restored.paths.append(deletion.dataset.path)
    return restored


def restore_branch(*, repository: Repository, name: str, head: str, parent: str, by: Principal) -> RestoredData:
    """Make a deleted branch again at the commit that it had, with the data that went with it.

    The data comes first: after a crash between the two the branch is still missing, and restoring goes on.

    Raises:
        Conflict: there is a branch of this name, or its data is still being deleted.
        NotFound: its commit is not there.

    """
    check_repository(by, repository.name, "write")
    repositories.check_branch_name_is_free(repository=repository, name=name)
    data = _restore_data(repository=repository, branch=name, head=head, by=by)
    repositories.restore_branch(repository=repository, name=name, head=head, parent=parent, by=by)
    return data
