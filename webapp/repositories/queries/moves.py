"""Who brought commits to a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.core.prepared import Prepared
from webapp.git.errors import GitError
from webapp.repositories.models import Commit, HeadMove, Repository

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_MOVES = 1000
"""So many of a branch's newest moves are looked at where their own head is gone from it."""

_MOVERS = Prepared(
    lambda repository, heads: (
        HeadMove.objects.filter(repository_id=repository, after__in=heads).order_by("id").values_list("by_id", "after")
    ),
    int,
    list,
)
_BRINGERS = Prepared(
    lambda repository, shas: (
        Commit.objects.filter(repository_id=repository, sha__in=shas, brought_by__isnull=False)
        .order_by("level")
        .values_list("brought_by_id", "sha")
    ),
    int,
    list,
)
_OTHER_MOVES = Prepared(
    lambda repository, branch, heads: (
        HeadMove.objects.filter(repository_id=repository, branch=branch)
        .exclude(after__in=heads)
        .values_list("by_id", "before", "after")[:MOST_MOVES]
    ),
    int,
    str,
    list,
)


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
    pushers = dict(_MOVERS.all(repository.pk, own))
    # Another branch that begins below the head of a push has no move of who pushed.
    pushers |= {user: sha for user, sha in _BRINGERS.all(repository.pk, own) if user not in pushers}
    # A forced push hides the head of an earlier one, and not always its commits.
    for user, before, after in _OTHER_MOVES.all(repository.pk, branch, own):
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
