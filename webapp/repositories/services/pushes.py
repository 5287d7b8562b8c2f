"""What a push may do, decided after its objects have arrived and before any ref moves; and what follows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction

from webapp.accounts import services as accounts
from webapp.core.errors import AppError
from webapp.repositories import permissions
from webapp.repositories.rules.names import check_new_branch_name, explain_clash
from webapp.repositories.services.announcements import announce
from webapp.repositories.services.copies import check_copy
from webapp.repositories.services.deletions import finish_deletion, intend_deletion
from webapp.repositories.services.moves import HEADS, intend_move, settle_move
from webapp.repositories.services.quotas import check_git_quota

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webapp.core.principals import Principal
    from webapp.git.values import RefUpdate
    from webapp.repositories.models import Repository

MAX_REFS = 200
TAGS = "refs/tags/"


@dataclass(slots=True)
class PushRules:
    """The state that the updates of one push are judged against, growing with each accepted one."""

    default_branch: str
    branches: set[str]
    """All branches but those that the push deletes."""
    tags: set[str]


def check_push(*, repository: Repository, updates: Iterable[RefUpdate], by: Principal, excess: str = "") -> list[str]:
    """Return why a push is refused, one line each; an empty list lets it in.

    Args:
        repository: what is pushed to.
        updates: the refs that are to move.
        by: who pushes.
        excess: what of its objects is larger than a repository takes.

    """
    updates = list(updates)
    try:
        check_copy(repository=repository)
        if any(update.after for update in updates):
            check_git_quota(repository=repository)
    except AppError as error:
        return [error.detail]
    if len(updates) > MAX_REFS:
        return [f"a push moves at most {MAX_REFS} refs"]
    deleted = {update.ref for update in updates if not update.after}
    rules = PushRules(
        default_branch=repository.default_branch,
        branches={
            name for name in repository.branches.values_list("name", flat=True) if f"{HEADS}{name}" not in deleted
        },
        tags={name for name in repository.git.list_tags() if f"{TAGS}{name}" not in deleted},
    )
    reasons = [excess] if excess else []
    for update in updates:
        reason = _refusal(repository, rules, update, by=by)
        if reason:
            reasons.append(reason)
    if reasons:
        accounts.record_audit(
            by=by, verb="push", object=repository.name, outcome="refused", detail={"reasons": reasons[:10]}
        )
        return reasons
    # Before Git acts, so that no crash loses who it was, and whoever misses a branch then knows why it is gone.
    for update in updates:
        if update.ref.startswith(HEADS) and not update.after:
            branch = update.ref.removeprefix(HEADS)
            intend_deletion(repository=repository, branch=branch, head=update.before, by=by, is_push=True)
        else:
            intend_move(
                repository=repository,
                ref=update.ref,
                before=update.before,
                after=update.after,
                by=by,
                verb="push",
                object=f"{repository.name}:{update.ref}",
                detail={"before": update.before, "after": update.after},
            )
    return []


def announce_pushed(*, repository: Repository, updates: Iterable[RefUpdate], by: Principal) -> None:
    """Announce what one push has moved, each branch with the exact commits that it moved it from and to."""
    for update in updates:
        branch = update.ref.removeprefix(HEADS)
        if branch == update.ref:
            _settle_tag(repository, update, by=by)
        elif update.after:
            announce(repository=repository, branch=branch, before=update.before, after=update.after, by=by)
        else:
            deletion = repository.deletions.filter(branch=branch, is_push=True).first()
            if deletion is not None:  # else the sweep has finished it
                finish_deletion(deletion=deletion, by=by)


def _settle_tag(repository: Repository, update: RefUpdate, *, by: Principal) -> None:
    moves = repository.pending_moves.filter(ref=update.ref, before=update.before, after=update.after, by_id=by.user_id)
    move = moves.first()
    if move is not None:
        with transaction.atomic():
            settle_move(move, by=by)


def _refusal(repository: Repository, rules: PushRules, update: RefUpdate, *, by: Principal) -> str:
    if update.ref.startswith(TAGS):
        return _tag_refusal(repository, rules, update, by=by)
    if not update.ref.startswith(HEADS):
        return f"{update.ref}: only branches and tags can be pushed"
    branch = update.ref.removeprefix(HEADS)
    try:
        if not update.before:
            check_new_branch_name(branch)
        permissions.check_move_branch(by, repository, branch)
    except AppError as error:
        return error.detail
    if not update.after:
        return _deletion_refusal(repository, rules, branch)
    # A branch that the database has keeps its name: it may be made again by a push that was cut off.
    if branch not in rules.branches and (
        clash := explain_clash(branch, branches=rules.branches, tags=() if update.before else rules.tags)
    ):
        return clash
    rules.branches.add(branch)
    protected = branch == rules.default_branch or permissions.find_protection(repository, branch) is not None
    if protected and update.before and not update.fast_forward:
        return f"branch {branch} only moves forward; a force push would lose commits"
    return ""


def _deletion_refusal(repository: Repository, rules: PushRules, branch: str) -> str:
    if branch == rules.default_branch:
        return f"branch {branch} is the default branch and cannot be deleted"
    if permissions.find_protection(repository, branch) is not None:
        return f"branch {branch} is protected; remove its protection first"
    return ""


def _tag_refusal(repository: Repository, rules: PushRules, update: RefUpdate, *, by: Principal) -> str:
    name = update.ref.removeprefix(TAGS)
    if update.before and not permissions.can_maintain(by, repository):
        return f"tag {name} exists; only maintainers move or delete tags"
    if not update.after:
        return ""
    if any(branch.lower() == name.lower() for branch in rules.branches):
        return f"tag {name} has the name of a branch"
    rules.tags.add(name)
    return ""
