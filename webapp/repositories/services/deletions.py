"""Deleting a branch, in three steps that a crash may part: the act is written down, the ref goes, all else follows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from django.db import transaction

from webapp.accounts import queries as accounts
from webapp.accounts.services import record_audit
from webapp.core import clock
from webapp.core.errors import AppError
from webapp.git.errors import GitError, HeadMoved, UnknownRef
from webapp.git.http_backend import PUSH_SECONDS
from webapp.repositories.errors import git_refusals
from webapp.repositories.models import BranchDeletion
from webapp.repositories.permissions import find_protection
from webapp.repositories.services.announcements import announce
from webapp.repositories.services.copies import find_copy_problem

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

RESUME_AFTER = timedelta(seconds=30)
"""Longer than a request takes from the first step to the last."""


def intend_deletion(
    *,
    repository: Repository,
    branch: str,
    head: str,
    by: Principal,
    data: Literal["delete", "keep"] = "delete",
    is_push: bool = False,
) -> BranchDeletion:
    """Write down that somebody deletes a branch; until it is done, its absence from Git means just that."""
    deletion, _ = BranchDeletion.objects.update_or_create(
        repository=repository,
        branch=branch,
        defaults={"head": head, "data": data, "is_push": is_push, "by_id": by.user_id, "created_at": clock.now()},
    )
    return deletion


def carry_out(*, deletion: BranchDeletion, by: Principal | None) -> None:
    """Delete the ref, then everything that hangs on it."""
    git = deletion.repository.git
    try:
        git.delete_branch(deletion.branch, expected=deletion.head)
    except (UnknownRef, HeadMoved):
        # Somebody else moved it: this act has come too late.
        deletion.delete()
        raise
    finish_deletion(deletion=deletion, by=by)


def sweep_deletions() -> dict[str, int]:
    """Take deletions on from where a crash left them."""
    done = 0
    for deletion in BranchDeletion.objects.select_related("repository", "by").order_by("pk"):
        try:
            with git_refusals():
                done += _resume(deletion)
        except AppError:
            # Locked, or a damaged copy: it is tried again.
            continue
    return {"deletions finished": done}


def _resume(deletion: BranchDeletion) -> bool:
    git = deletion.repository.git
    age = clock.settled_now() - deletion.created_at
    if find_copy_problem(deletion.repository, git) or age < RESUME_AFTER:
        return False
    by = None if deletion.by is None else accounts.principal_for_user(deletion.by)
    head = git.find_head(deletion.branch)
    if head is None:
        finish_deletion(deletion=deletion, by=by)
        return True
    if deletion.is_push:
        if age > timedelta(seconds=PUSH_SECONDS):
            # The push was refused or died before Git removed the ref; nobody heard that it did.
            deletion.delete()
        return False
    if find_protection(deletion.repository, deletion.branch) is not None:
        # Protected since: the crash has taken the act with it.
        deletion.delete()
        return False
    try:
        carry_out(deletion=deletion, by=by)
    except GitError:
        return False
    return True


def finish_deletion(*, deletion: BranchDeletion, by: Principal | None) -> None:
    """Do what follows when the ref is gone, with the entry in the audit log; once, whoever comes to it."""
    with transaction.atomic():
        if not BranchDeletion.objects.filter(pk=deletion.pk).delete()[0]:
            return
        announce(
            repository=deletion.repository,
            branch=deletion.branch,
            before=deletion.head,
            after="",
            by=by,
            data="keep" if deletion.data == "keep" else "delete",
        )
        _record(deletion, by=by)


def _record(deletion: BranchDeletion, *, by: Principal | None) -> None:
    name = deletion.repository.name
    if deletion.is_push:
        detail = {"before": deletion.head, "after": ""}
        record_audit(by=by, verb="push", object=f"{name}:refs/heads/{deletion.branch}", detail=detail)
        return
    detail = {"head": deletion.head, "data": deletion.data}
    record_audit(by=by, verb="delete_branch", object=name, branch=deletion.branch, detail=detail)
