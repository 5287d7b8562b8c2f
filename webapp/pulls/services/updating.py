"""Bringing the branch of a pull request up to date with its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts.permissions import check_repository
from webapp.core.errors import Conflict
from webapp.pulls.queries import pulls as queries
from webapp.pulls.rules.states import PullState
from webapp.pulls.services.pulls import refresh_pull
from webapp.repositories import services as repositories

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest


def update_branch(*, pull: PullRequest, by: Principal, expected_head: str | None = None) -> None:
    """Merge the newest commits of the target into the source branch, whose data stays as it is until it is built.

    Raises:
        PermissionDenied: the source is a protected branch.
        Conflict: the pull request is not open, its head is not the expected one, the source has every commit of the
            target already, or files conflict, which it names.

    """
    check_repository(by, pull.repository.name, "write")
    refresh_pull(pull=pull)
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}; its branch stays as it is.", code="not_open")
    queries.check_head(pull, expected_head)
    target_sha = queries.get_target_head(pull)
    if not queries.count_apart(pull.repository, sha=pull.head_sha, base=target_sha).behind:
        raise Conflict(f"{pull.source} has every commit of {pull.target}.", code="up_to_date")
    repositories.merge_into_branch(
        repository=pull.repository,
        branch=pull.source,
        expected_head=pull.head_sha,
        sha=target_sha,
        message=f"Merge branch {pull.target} into {pull.source}\n",
        by=by,
    )
    refresh_pull(pull=pull)
