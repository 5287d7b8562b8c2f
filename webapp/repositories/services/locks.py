"""What writers that died left in the folders of repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.git.errors import GitError
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webapp.git.repository import GitRepository


def sweep_locks() -> dict[str, int]:
    """Remove the locks of dead writers, so that their refs move again."""
    return {"stale locks removed": sum(len(git.remove_stale_locks()) for git in _open_all())}


def sweep_leftovers() -> dict[str, int]:
    """Remove what dead writers had not finished."""
    return {"unfinished objects removed": sum(git.remove_leftovers() for git in _open_all())}


def _open_all() -> Iterator[GitRepository]:
    for repository in Repository.objects.order_by("pk"):
        try:
            yield repository.git
        except GitError:
            # One broken repository must not keep the others from being swept; readiness reports it.
            continue
