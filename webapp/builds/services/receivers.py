"""What builds do when the apps below announce something."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction

from webapp.accounts import queries as accounts
from webapp.builds.queries import chains
from webapp.builds.services import publication, queue
from webapp.core import names
from webapp.datasets import services as datasets

if TYPE_CHECKING:
    from webapp.accounts.rules.principals import Principal
    from webapp.repositories.models import Repository


def publish_commit(*, repository: Repository, branch: str, after: str, **_: Any) -> None:
    """Publish what a commit declares; a deleted branch takes its JobSpecs with it, and nobody waits for them any more."""
    if after:
        publication.request_publication(repository=repository, branch=branch, sha=after)
    else:
        publication.unpublish(repository=repository, branch=branch)
        queue.wake_unpublished(repository=repository, branch=branch)


def delete_data(*, repository: Repository, branch: str, data: str, by: Principal | None, **_: Any) -> None:
    """Delete a branch's dataset branches with it, unless its data is to be kept. Transactions stay in the history."""
    if data == "keep":
        return
    folders = accounts.list_folders(repository=repository.name)
    keys = datasets.intend_deletions(folders=folders, branch=branch, by=by)
    # Tables are rewritten one by one: not inside the block that holds the database's write lock.
    transaction.on_commit(partial(datasets.carry_out_deletions, keys=keys, by=by))


def answer_jobspecs(*, paths: list[str], **_: Any) -> set[str]:
    """Tell datasets which of them a JobSpec on master makes."""
    return chains.list_with_jobspec(paths=paths, branch=names.MASTER)


def answer_git_chain(*, dataset_path: str, branch: str, **_: Any) -> tuple[str, ...] | None:
    """Tell datasets the ancestry of a branch in the repository that makes or owns the dataset."""
    repository = chains.find_repository(paths=[dataset_path], branch=branch)
    if repository is None:
        return None
    return chains.default_chain(repository=repository, branch=branch)
