"""How much a repository's Git objects may take of the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from webapp.core.errors import StorageFull
from webapp.runtime.room import describe_size, measure_folder

if TYPE_CHECKING:
    from webapp.repositories.models import Repository

SLACK = 64 * 1024 * 1024
"""So much more than fits is still received, so that the push is refused by name; beyond it Git cuts it off."""


def check_git_quota(*, repository: Repository) -> None:
    """Refuse to add to a repository that is full; called while a push waits, its objects count.

    Raises:
        StorageFull: it names the repository and the way out.

    """
    allowed = settings.TRIBUTARY_REPOSITORY_GIT_BYTES
    if allowed and (size := measure_folder(repository.path)) > allowed:
        raise StorageFull(
            f"Repository {repository.name} has {describe_size(size)} of Git objects, and may have "
            f"{describe_size(allowed)}: keep large files in datasets, or have an administrator raise "
            "TRIBUTARY_REPOSITORY_GIT_BYTES.",
            code="repository_full",
        )


def find_push_room(*, repository: Repository, most: int) -> int:
    """Return how many bytes a push may send, `most` at most."""
    allowed = settings.TRIBUTARY_REPOSITORY_GIT_BYTES
    if not allowed:
        return most
    return min(most, max(0, allowed - measure_folder(repository.path)) + SLACK)
