"""Commits and merges on the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model

from webapp.git import merges
from webapp.git.values import Person
from webapp.repositories import permissions
from webapp.repositories.errors import git_refusals
from webapp.repositories.services.announcements import announce
from webapp.repositories.services.branches import make_branch
from webapp.repositories.services.copies import check_copy
from webapp.repositories.services.moves import HEADS, intend_move
from webapp.repositories.services.quotas import check_git_quota
from webapp.runtime.room import check_room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.accounts.models import User
    from webapp.core.principals import Principal
    from webapp.git.conflicts import Resolution
    from webapp.git.values import Change, CommitInfo, MergeMethod
    from webapp.repositories.models import Repository


def person_of(by: Principal) -> Person:
    """Return how a user signs commits."""
    user = get_user_model().objects.filter(pk=by.user_id).first()
    if user is None:
        return Person(name=by.username, email=f"{by.username}@localhost")
    return sign(user)


def sign(user: User) -> Person:
    """Return how somebody is named in commits."""
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
    verb = _check_commit(repository, branch, by=by)
    committer = person_of(by)

    def intend(head: str, sha: str) -> None:
        detail = {"sha": sha, "files": len(changes)}
        _intend(repository, branch, before=head, after=sha, by=by, verb=verb, detail=detail)

    with git_refusals():
        commit = repository.git.commit_changes(
            branch=branch,
            message=message,
            changes=changes,
            author=author or committer,
            committer=committer,
            expected_head=expected_head,
            intend=intend,
        )
    announce(repository=repository, branch=branch, before=commit.parents[0], after=commit.sha, by=by)
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
    """Commit on top of the commit that the author looked at, and make a branch there; without the one not the other."""
    verb = _check_commit(repository, branch, by=by)
    committer = person_of(by)
    with git_refusals():
        git = repository.git
        sha = git.prepare_commit(parent=expected_head, message=message, changes=changes, author=committer)
    detail = {"sha": sha, "files": len(changes)}
    make_branch(repository=repository, name=branch, head=sha, parent=parent, by=by, verb=verb, detail=detail)
    return git.get_commit(sha)


def revert_to_new_branch(
    *, repository: Repository, parent: str, branch: str, sha: str, message: str, by: Principal, verb: str, object: str
) -> None:
    """Make a branch off another one, with a commit that takes back what a commit brought to its first parent.

    The audit log has it under the verb and object of what it is done for.

    Raises:
        Conflict: the branch is there already, or files conflict, which it names.
        InvalidInput: nothing is left of what the commit brought.

    """
    _check_commit(repository, branch, by=by)
    with git_refusals():
        git = repository.git
        head = merges.prepare_revert(git, sha=sha, target=git.get_head(parent), message=message, author=person_of(by))
    detail = {"sha": head, "reverted": sha}
    make_branch(
        repository=repository, name=branch, head=head, parent=parent, by=by, verb=verb, object=object, detail=detail
    )


def _check_commit(repository: Repository, branch: str, *, by: Principal) -> str:
    """Refuse a commit that cannot be; return the verb that the audit log has for it."""
    past_protection = permissions.check_move_branch(by, repository, branch)
    check_room()
    check_git_quota(repository=repository)
    check_copy(repository=repository)
    return "commit_to_protected_branch" if past_protection else "commit_files"


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
    """Make a merge commit that no branch points to yet, so that its hash can be kept before it lands.

    The caller has decided that the merge is allowed: approvals and protections are its business.
    """
    permissions.check_write(by, repository)
    check_copy(repository=repository)
    committer = person_of(by)
    return _merge(
        repository,
        source_sha,
        target_sha,
        method=method,
        message=message,
        author=author or committer,
        committer=committer,
    )


def _merge(repository: Repository, source_sha: str, target_sha: str, **commit: Any) -> str:
    """Make the merge commit of two commits."""
    with git_refusals():
        return merges.prepare_merge(repository.git, source=source_sha, target=target_sha, **commit)


def merge_into_branch(
    *,
    repository: Repository,
    branch: str,
    expected_head: str,
    sha: str,
    message: str,
    by: Principal,
    resolutions: Sequence[Resolution] = (),
) -> str:
    """Merge a commit into a branch that still points where the caller looked at; return the merge commit.

    Raises:
        Conflict: the branch moved, or files conflict for which there is no resolution, which it names.
        InvalidInput: a resolution is of a file that does not conflict, or cannot be.

    """
    verb = _check_commit(repository, branch, by=by)
    merged = _merge(
        repository,
        sha,
        expected_head,
        method="merge",
        message=message,
        author=person_of(by),
        resolutions=resolutions,
    )
    detail: dict[str, Any] = {"sha": merged, "merged": sha}
    if resolutions:
        detail["settled"] = [resolution.path for resolution in resolutions]
    _land(repository, branch, before=expected_head, after=merged, by=by, verb=verb, detail=detail)
    return merged


def rebase_branch(*, repository: Repository, branch: str, expected_head: str, sha: str, by: Principal) -> str:
    """Make the commits of a branch anew on top of another commit; return the new head.

    Raises:
        Conflict: the branch moved, files conflict, which it names, or the commits cannot be made anew one by one.

    """
    verb = _check_commit(repository, branch, by=by)
    with git_refusals():
        rebased = merges.prepare_rebase(repository.git, source=expected_head, target=sha, committer=person_of(by))
    detail = {"sha": rebased, "rebased_onto": sha}
    _land(repository, branch, before=expected_head, after=rebased, by=by, verb=verb, detail=detail)
    return rebased


def land_merge(*, repository: Repository, branch: str, expected_head: str, sha: str, by: Principal) -> None:
    """Move a branch to a prepared merge commit, if the branch still points where the merge was made for."""
    check_copy(repository=repository)
    # Who merges has an entry for the whole of it.
    _land(repository, branch, before=expected_head, after=sha, by=by)


def _land(repository: Repository, branch: str, *, before: str, after: str, by: Principal, **entry: Any) -> None:
    """Write down who moves a branch, move it if it still points where it did, and announce it."""
    _intend(repository, branch, before=before, after=after, by=by, **entry)
    with git_refusals():
        repository.git.move_branch(branch, expected=before, sha=after)
    announce(repository=repository, branch=branch, before=before, after=after, by=by)


def _intend(repository: Repository, branch: str, *, before: str, after: str, by: Principal, **entry: Any) -> None:
    intend_move(
        repository=repository,
        ref=f"{HEADS}{branch}",
        before=before,
        after=after,
        by=by,
        object=repository.name,
        branch=branch,
        **entry,
    )
