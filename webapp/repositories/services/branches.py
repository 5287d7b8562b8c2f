"""Making and deleting branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from django.db import transaction

from webapp.core.errors import AppError, Conflict, PermissionDenied
from webapp.git.errors import HeadMoved, RefLocked
from webapp.repositories import permissions
from webapp.repositories.errors import git_refusals
from webapp.repositories.rules.names import check_new_branch_name, explain_clash
from webapp.repositories.services.announcements import announce
from webapp.repositories.services.copies import check_copy
from webapp.repositories.services.deletions import carry_out, intend_deletion
from webapp.repositories.services.moves import HEADS, intend_move

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository


def check_branch_name_is_free(*, repository: Repository, name: str) -> None:
    """Refuse a name that a new branch cannot have."""
    check_new_branch_name(name)
    with git_refusals():
        tags = repository.git.list_tags()
    if clash := explain_clash(name, branches=repository.branches.values_list("name", flat=True), tags=tags):
        raise Conflict(clash, code="branch_exists", errors={"name": [clash]})


def create_branch(
    *,
    repository: Repository,
    name: str,
    start_point: str = "",
    parent: str = "",
    by: Principal,
    is_consequence: bool = False,
) -> str:
    """Make a branch off another branch or a commit; return its head.

    The parent is the branch of the start point; for a commit it may be named, else the nearest branch is found. A
    consequence of another act has no entry of its own in the audit log.
    """
    permissions.check_write(by, repository)
    check_copy(repository=repository)
    start = start_point or repository.default_branch
    with git_refusals():
        git = repository.git
        head = git.resolve(start)
        if git.find_head(start) is not None:
            parent = start
    make_branch(
        repository=repository,
        name=name,
        head=head,
        parent=parent,
        by=by,
        verb="" if is_consequence else "create_branch",
        detail={"head": head, "from": start_point},
    )
    return head


def restore_branch(*, repository: Repository, name: str, head: str, parent: str, by: Principal) -> None:
    """Make a deleted branch again at the commit that it had, which Git never removes.

    Raises:
        Conflict: there is a branch of this name again.
        NotFound: this copy of the repository has no such commit.

    """
    permissions.check_write(by, repository)
    check_copy(repository=repository)
    with git_refusals():
        repository.git.get_commit(head)
    verb, detail = "restore_branch", {"head": head}
    make_branch(repository=repository, name=name, head=head, parent=parent, by=by, verb=verb, detail=detail)


def make_branch(
    *,
    repository: Repository,
    name: str,
    head: str,
    parent: str,
    by: Principal,
    verb: str,
    detail: Mapping[str, Any],
    object: str = "",
) -> None:
    """Make a branch at a commit, under the verb and object that the audit log has for the act: the repository by default."""
    check_branch_name_is_free(repository=repository, name=name)
    if not permissions.can_move_branch(by, repository, name):
        message = f"{name} is protected before it is there: a maintainer makes it, or removes its protection first."
        raise PermissionDenied(message, code="branch_protected")
    move = intend_move(
        repository=repository,
        ref=f"{HEADS}{name}",
        before="",
        after=head,
        by=by,
        verb=verb,
        object=object or repository.name,
        branch=name,
        detail=detail,
    )
    try:
        with git_refusals(), transaction.atomic():
            # The row comes first: its unique name settles two requests for one name before Git is asked.
            announce(repository=repository, branch=name, before="", after=head, by=by, parent=parent)
            repository.git.create_branch(name, head)
    except AppError:
        move.delete()
        raise


def delete_branch(
    *,
    repository: Repository,
    name: str,
    data: Literal["delete", "keep"] = "delete",
    expected_head: str | None = None,
    by: Principal,
) -> None:
    """Delete a branch, if it still points where the caller believed; its dataset branches go too unless the data is kept."""
    permissions.check_write(by, repository)
    if name == repository.default_branch:
        message = f"Branch {name} is the default branch and cannot be deleted."
        raise Conflict(message, code="default_branch")
    if permissions.find_protection(repository, name) is not None:
        message = f"Branch {name} is protected; remove its protection first."
        raise Conflict(message, code="branch_protected")
    check_copy(repository=repository)
    with git_refusals():
        head = repository.git.get_head(name)
        if expected_head and head != expected_head:
            raise HeadMoved(branch=name, head=head)
        deletion = intend_deletion(repository=repository, branch=name, head=head, data=data, by=by)
        try:
            carry_out(deletion=deletion, by=by)
        except RefLocked:
            # Refused: nothing of it may happen later.
            deletion.delete()
            raise
