"""Whose move of a ref it is: written down before Git acts, and in the audit log together with what follows of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction

from webapp.accounts import queries as accounts
from webapp.accounts.services import record_audit
from webapp.core import clock
from webapp.core.idempotency import find_record, note_effect_of
from webapp.git.errors import GitError
from webapp.git.http_backend import PUSH_SECONDS
from webapp.repositories.models import HeadMove, PendingMove, Repository
from webapp.repositories.services.copies import find_copy_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webapp.core.principals import Principal
    from webapp.git.repository import GitRepository

HEADS, TAGS = "refs/heads/", "refs/tags/"
SETTLE_AFTER = timedelta(seconds=30)
"""Longer than a request takes from the ref's move to its announcement."""
FORGET_AFTER = timedelta(seconds=2 * PUSH_SECONDS)
"""Longer than a push takes between its decision and its end."""


def intend_move(
    *,
    repository: Repository,
    ref: str,
    before: str,
    after: str,
    by: Principal,
    verb: str = "",
    object: str = "",
    branch: str = "",
    detail: Mapping[str, Any] | None = None,
) -> PendingMove:
    """Write down who is about to move a ref.

    Args:
        repository: whose ref it is.
        ref: its full name.
        before: where it points; "" for a new one.
        after: where it will point.
        by: who moves it.
        verb: of the entry in the audit log; "" where the act has an entry of its own.
        object: of that entry.
        branch: of that entry.
        detail: of that entry.

    """
    entry = {"verb": verb, "object": object, "branch": branch, "detail": dict(detail or {})} if verb else {}
    with transaction.atomic():
        if ref.startswith(HEADS):
            record_move(repository=repository, branch=ref.removeprefix(HEADS), before=before, after=after, by=by)
        return PendingMove.objects.create(
            repository=repository,
            ref=ref,
            before=before,
            after=after,
            by_id=by.user_id,
            entry=entry,
            request=find_record(),
        )


def record_move(*, repository: Repository, branch: str, before: str, after: str, by: Principal) -> None:
    """Keep for good who moves a branch, which the rules of review ask. Safe to repeat."""
    HeadMove.objects.get_or_create(repository=repository, branch=branch, before=before, after=after, by_id=by.user_id)


def settle_move(move: PendingMove, *, by: Principal | None = None) -> None:
    """Write a move that has happened into the audit log, once whoever finds it; in the atomic block of what follows."""
    if not PendingMove.objects.filter(pk=move.pk).delete()[0] or not move.entry:
        return
    record_audit(by=by or accounts.principal_for_user(move.by), **move.entry)
    note_effect_of(move.request, move.entry["object"])


def is_move_undecided(request: int) -> bool:
    """Return whether a ref may have moved for a request whose process is dead: the sweep finds out within seconds.

    A move that did not happen is forgotten, since it will not any more.
    """
    for move in PendingMove.objects.filter(request=request).select_related("repository"):
        try:
            git = move.repository.git
            if (git.find_ref(move.ref) or "") == move.after or _is_unannounced(move, git):
                return True
        except GitError:
            return True  # a damaged copy
        move.delete()
    return False


def settle_moves(*, repository: Repository, branch: str, announced: str, head: str, by: Principal | None) -> None:
    """Settle the moves that led a branch from where it was announced to its head.

    More than one are those that a crash left: each begins where the one before it ended.
    """
    while head and head != announced:
        moves = PendingMove.objects.filter(repository=repository, ref=f"{HEADS}{branch}", after=head)
        own = moves.filter(by_id=by.user_id).first() if by is not None else None
        move = own or moves.select_related("by").first()
        if move is None:
            return
        settle_move(move, by=by if own else None)
        # One whose process died before the ref moved may have been begun anew, as the sweep does with a merge.
        moves.filter(before=move.before).delete()
        head = move.before


def find_pending_mover(*, repository: Repository, branch: str, after: str) -> Principal | None:
    """Return who was moving a branch to its head when a process died."""
    moves = PendingMove.objects.filter(repository=repository, ref=f"{HEADS}{branch}", after=after)
    move = moves.select_related("by").first()
    return accounts.principal_for_user(move.by) if move else None


def sweep_moves() -> dict[str, int]:
    """Settle moves of tags that a crash cut off, and forget moves that Git refused."""
    settled = 0
    for move in PendingMove.objects.filter(at__lt=clock.settled_now() - SETTLE_AFTER).select_related(
        "repository", "by"
    ):
        try:
            git = move.repository.git
            if find_copy_problem(move.repository, git):
                continue
            is_late = move.at < clock.settled_now() - FORGET_AFTER
            if move.ref.startswith(TAGS) and (git.find_ref(move.ref) or "") == move.after:
                with transaction.atomic():
                    settle_move(move)
                settled += 1
            elif is_late and not _is_unannounced(move, git):
                move.delete()
        except GitError:
            # A damaged copy: it is looked at again.
            continue
    return {"moves settled": settled} if settled else {}


def _is_unannounced(move: PendingMove, git: GitRepository) -> bool:
    """Return whether the branch has moves that were not announced yet, which this may be one of."""
    branch = move.ref.removeprefix(HEADS)
    announced = move.repository.branches.filter(name=branch).values_list("announced_head", flat=True).first()
    return git.find_head(branch) != announced
