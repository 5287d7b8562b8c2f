"""Commits and merges on the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db import transaction

from webapp.accounts import services as accounts
from webapp.core.errors import AppError
from webapp.core.room import check_room
from webapp.git.values import Person
from webapp.repositories import permissions
from webapp.repositories.errors import git_refusals
from webapp.repositories.services.announcements import announce
from webapp.repositories.services.branches import delete_branch, make_branch
from webapp.repositories.services.copies import check_copy
from webapp.repositories.services.quotas import check_git_quota

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.accounts.rules.principals import Principal
    from webapp.git.values import Change, CommitInfo, MergeMethod
    from webapp.repositories.models import Repository


def person_of(by: Principal) -> Person:
    """Return how a user signs commits."""
    user = get_user_model().objects.filter(pk=by.user_id).first()
    if user is None:
        return Person(name=by.username, email=f"{by.username}@localhost")
    return Person(name=user.get_full_name() or user.username, email=user.email or f"{user.username}@localhost")


def commit_files(
    *,
    repository: Repository,
    branch: str,
    message: str,
    changes: Sequence[Change],
    expected_head: str | None = None,
    by: Principal,
    author: Person | None = None,
) -> CommitInfo:
    """Commit changes of files to a branch, in one piece or not at all."""
    past_protection = permissions.check_move_branch(by, repository, branch)
    check_room()
    check_git_quota(repository=repository)
    check_copy(repository=repository)
    committer = person_of(by)
    with git_refusals():
        commit = repository.git.commit_changes(
            branch=branch,
            message=message,
            changes=changes,
            author=author or committer,
            committer=committer,
            expected_head=expected_head,
        )
    with transaction.atomic():
        announce(repository=repository, branch=branch, before=commit.parents[0], after=commit.sha, by=by)
        accounts.record_audit(
            by=by,
            verb="commit_to_protected_branch" if past_protection else "commit_files",
            object=repository.name,
            branch=branch,
            detail={"sha": commit.sha, "files": len(changes)},
        )
    return commit


def commit_to_new_branch(
    *,
    repository: Repository,
    parent: str,
    branch: str,
    message: str,
    changes: Sequence[Change],
    expected_head: str,
    by: Principal,
) -> CommitInfo:
    """Make a branch at the commit that the author looked at, and commit to it; without the commit no branch stays."""
    make_branch(repository=repository, name=branch, start_point=expected_head, parent=parent, by=by)
    try:
        return commit_files(
            repository=repository,
            branch=branch,
            message=message,
            changes=changes,
            expected_head=expected_head,
            by=by,
        )
    except AppError:
        delete_branch(repository=repository, name=branch, by=by)
        raise


def merge(
    *,
    repository: Repository,
    source_sha: str,
    target_branch: str,
    expected_target_head: str,
    method: MergeMethod,
    message: str,
    by: Principal,
    author: Person | None = None,
) -> str:
    """Merge a commit into a branch that still points where the caller believed; return the new head.

    The caller has decided that the merge is allowed: approvals and protections are its business.
    """
    permissions.check_write(by, repository)
    check_copy(repository=repository)
    committer = person_of(by)
    with git_refusals():
        commit = repository.git.merge(
            source=source_sha,
            branch=target_branch,
            expected_head=expected_target_head,
            method=method,
            message=message,
            author=author or committer,
            committer=committer,
        )
    announce(repository=repository, branch=target_branch, before=expected_target_head, after=commit.sha, by=by)
    return commit.sha


def prepare_merge(
    *,
    repository: Repository,
    source_sha: str,
    target_sha: str,
    method: MergeMethod,
    message: str,
    by: Principal,
    author: Person | None = None,
) -> str:
    """Make a merge commit that no branch points to yet, so that its hash can be kept before it lands."""
    permissions.check_write(by, repository)
    check_copy(repository=repository)
    committer = person_of(by)
    with git_refusals():
        return repository.git.prepare_merge(
            source=source_sha,
            target=target_sha,
            method=method,
            message=message,
            author=author or committer,
            committer=committer,
        )


def land_merge(*, repository: Repository, branch: str, expected_head: str, sha: str, by: Principal) -> None:
    """Move a branch to a prepared merge commit, if the branch still points where the merge was made for."""
    check_copy(repository=repository)
    with git_refusals():
        repository.git.move_branch(branch, expected=expected_head, sha=sha)
    announce(repository=repository, branch=branch, before=expected_head, after=sha, by=by)
