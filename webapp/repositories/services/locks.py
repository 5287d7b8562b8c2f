"""What writers that died left in the folders of repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.git.errors import GitError
from webapp.git.repository import GitRepository
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from collections.abc import Callable


def sweep_locks() -> dict[str, int]:
    """Remove the locks of dead writers, so that their refs move again."""
    return _count("stale locks removed", lambda git: len(git.remove_stale_locks()))


def sweep_leftovers() -> dict[str, int]:
    """Remove what dead writers had not finished."""
    return _count("unfinished objects removed", GitRepository.remove_leftovers)


def _count(what: str, remove: Callable[[GitRepository], int]) -> dict[str, int]:
    count = 0
    for repository in Repository.objects.order_by("pk"):
        try:
            count += remove(repository.git)
        except (GitError, OSError):
            # One broken repository must not keep the others from being swept; readiness reports it.
            continue
    return {what: count}
