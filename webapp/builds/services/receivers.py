"""What builds do when the apps below announce something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webapp.builds.queries import chains
from webapp.builds.services import publication

if TYPE_CHECKING:
    from webapp.repositories.models import Repository


def publish_commit(*, repository: Repository, branch: str, after: str, **_: Any) -> None:
    """Publish what a commit declares; a deleted branch takes its JobSpecs with it."""
    if after:
        publication.request_publication(repository=repository, branch=branch, sha=after)
    else:
        publication.unpublish(repository=repository, branch=branch)


def answer_git_chain(*, dataset_path: str, branch: str, **_: Any) -> tuple[str, ...] | None:
    """Tell datasets the ancestry of a branch in the repository that makes or owns the dataset."""
    repository = chains.find_repository(paths=[dataset_path], branch=branch)
    if repository is None:
        return None
    return chains.default_chain(repository=repository, branch=branch)
