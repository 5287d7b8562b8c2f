"""Who brought commits to a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.git.errors import GitError
from webapp.repositories.models import HeadMove, Repository

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_MOVES = 1000
"""So many of a branch's newest moves are looked at where their own head is gone from it."""


def list_pushers(repository: Repository, *, branch: str, commits: Sequence[str]) -> dict[int, str]:
    """Return the id of each user who brought some of these commits, or moved a branch to them → such a commit.

    Args:
        repository: the repository.
        branch: the branch that has the commits.
        commits: its own commits, newest first: the first is its head.

    """
    if not commits:
        return {}
    own = set(commits)
    direct = HeadMove.objects.filter(repository=repository, after__in=own).order_by("id")
    pushers = dict(direct.values_list("by_id", "after"))
    # Another branch that begins below the head of a push has no move of who pushed.
    brought = repository.commits.filter(sha__in=own, brought_by__isnull=False).order_by("level")
    pushers |= {user: sha for user, sha in brought.values_list("brought_by_id", "sha") if user not in pushers}
    # A forced push hides the head of an earlier one, and not always its commits.
    moves = HeadMove.objects.filter(repository=repository, branch=branch).exclude(after__in=own)
    for user, before, after in moves.values_list("by_id", "before", "after")[:MOST_MOVES]:
        shared = None if user in pushers else _find_shared(repository, before, after, commits[0])
        if shared in own:
            pushers[user] = shared
    return pushers


def find_mover(repository: Repository, *, branch: str, after: str) -> str:
    """Return the name of the user who moved a branch to a commit last; "" where nobody is known to have."""
    moves = HeadMove.objects.filter(repository=repository, branch=branch, after=after)
    return moves.values_list("by__username", flat=True).first() or ""


def _find_shared(repository: Repository, before: str, after: str, head: str) -> str | None:
    """Return the newest commit that a move brought and the head has; None where there is none, or no more."""
    git = repository.git
    try:
        shared = git.merge_base(after, head)
        is_older = bool(shared and before) and git.is_ancestor(shared or "", before)
    except GitError:
        return None
    return None if is_older else shared
