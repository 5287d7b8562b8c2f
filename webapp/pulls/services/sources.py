"""Deleting the branch of a pull request that is over, and bringing it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts.permissions import check_repository
from webapp.builds import services as builds
from webapp.core.errors import Conflict
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.sources import find_open_user
from webapp.pulls.rules.states import PullState
from webapp.pulls.services.remarks import record_event
from webapp.repositories import services as repositories

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest


def delete_source(*, pull: PullRequest, by: Principal) -> None:
    """Delete the source branch, with its data, of which both can be restored; the latter for a time.

    Raises:
        Conflict: it is gone already; the pull request, or another one that uses it, is open; it has commits that the
            pull request does not show; or it is protected or the default branch.

    """
    check_repository(by, pull.repository.name, "write")
    if pull.state == PullState.OPEN:
        raise Conflict("The pull request is open: it needs its branch.", code="still_open")
    if queries.find_head(pull.repository, pull.source) is None:
        raise Conflict(f"{pull.source} is deleted already.", code="source_missing")
    user = find_open_user(pull)
    if user is not None:
        message = f"#{user.number} is open and needs {pull.source}."
        raise Conflict(message, code="branch_in_use", pull=user.number)
    repositories.delete_branch(repository=pull.repository, name=pull.source, expected_head=pull.head_sha, by=by)


def restore_source(*, pull: PullRequest, by: Principal) -> builds.RestoredData:
    """Make the source branch again at the commit that the pull request shows, with the data that went with it."""
    repository, name = pull.repository, pull.source
    parent = pull.target if queries.find_head(repository, pull.target) else ""
    data = builds.restore_branch(repository=repository, name=name, head=pull.head_sha, parent=parent, by=by)
    record_event(pull=pull, kind="source_restored", actor=by.username, data={"branch": name})
    return data
