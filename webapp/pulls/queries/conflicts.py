"""What keeps the target of a pull request from being merged into its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.core.errors import Conflict
from webapp.pulls.queries.pulls import find_head, get_target_head
from webapp.pulls.rules.states import PullState
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.git.conflicts import ConflictedFile
    from webapp.pulls.models import PullRequest

MAX_FILES = 100
"""That are settled at once; what conflicts in more is merged with Git."""


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Two heads and the files in which they conflict; what the source has of them is ours."""

    head: str
    target_head: str
    files: tuple[ConflictedFile, ...]


def read_conflicts(pull: PullRequest) -> Conflicts:
    """Return what conflicts between the source and the target as they are now.

    Raises:
        Conflict: it is not open, a branch is gone, or they conflict in what cannot be settled file by file.

    """
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}; its branch stays as it is.", code="not_open")
    target_head, head = get_target_head(pull), find_head(pull.repository, pull.source)
    if head is None:
        raise Conflict(f"The branch {pull.source} does not exist.", code="source_missing")
    files = repositories.list_conflicts(pull.repository, source_sha=target_head, target_sha=head)
    if len(files) > MAX_FILES:
        message = (
            f"{len(files)} files conflict, more than {MAX_FILES}: merge {pull.target} into {pull.source} with Git."
        )
        raise Conflict(message, code="merge_conflict", conflicts=[file.path for file in files])
    return Conflicts(head, target_head, tuple(files))
