"""The source branch of a pull request: deleting it once that is over, and restoring it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.urls import reverse

from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.sources import find_open_user
from webapp.pulls.rules.states import PullState
from webapp.repositories.permissions import find_protection

if TYPE_CHECKING:
    from webapp.pulls.models import PullRequest
    from webapp.pulls.pages.head import Loaded, PullHead


@dataclass(frozen=True)
class SourceBranch:
    """What can be done with the branch."""

    name: str
    head: str
    is_deleted: bool
    post_url: str
    """What restores a deleted branch, and deletes another one."""


def read_source(loaded: Loaded, head: PullHead) -> SourceBranch | None:
    """Return what the reader may do with the branch; None where that is nothing."""
    pull = loaded.pull
    is_deleted = not loaded.facts.source_exists
    if not head.may_write or (not is_deleted and not _is_left(pull)):
        return None
    name = "pull-restore-branch" if is_deleted else "pull-delete-branch"
    return SourceBranch(pull.source, pull.head_sha, is_deleted, reverse(name, args=[head.repository, head.number]))


def _is_left(pull: PullRequest) -> bool:
    """Return whether nothing needs the branch any more, and it has nothing that the pull request does not show."""
    repository = pull.repository
    return pull.state != PullState.OPEN and (
        queries.find_head(repository, pull.source) == pull.head_sha
        and pull.source != repository.default_branch
        and find_protection(repository, pull.source) is None
        and find_open_user(pull) is None
    )
