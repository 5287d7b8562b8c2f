"""Bringing the branch of a pull request up to date with its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts.permissions import check_repository
from webapp.core.errors import Conflict, InvalidInput
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.expected import check_head, check_target
from webapp.pulls.rules.states import MERGE_METHOD, REBASE, PullState
from webapp.pulls.services.pulls import refresh_pull
from webapp.repositories import services as repositories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.core.principals import Principal
    from webapp.git.conflicts import Resolution
    from webapp.pulls.models import PullRequest


MAX_NAMED = 20
"""Of the files that the message of a merge names."""


def update_branch(
    *,
    pull: PullRequest,
    by: Principal,
    expected_head: str | None = None,
    expected_target: str | None = None,
    method: str = MERGE_METHOD,
    resolutions: Sequence[Resolution] = (),
) -> None:
    """Bring the newest commits of the target into the source branch, whose data stays as it is until it is built.

    Args:
        pull: an open pull request.
        by: who may move its source branch.
        expected_head: the head of the source that was looked at.
        expected_target: the head of the target that was looked at.
        method: merge, which makes a merge commit, or rebase, which makes the commits of the source anew on top.
        resolutions: what files that conflict are to be; the source's version of them is ours.

    Raises:
        PermissionDenied: the source is a protected branch.
        Conflict: the pull request is not open, one of both heads is not the expected one, the source has every commit
            of the target already, files conflict for which there is no resolution, which it names, or its commits
            cannot be made anew one by one.
        InvalidInput: a resolution is of a file that does not conflict, cannot be, or comes with a rebase.

    """
    check_repository(by, pull.repository.name, "write")
    refresh_pull(pull=pull)
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}; its branch stays as it is.", code="not_open")
    check_head(pull, expected_head)
    target_sha = queries.get_target_head(pull)
    check_target(pull, target_sha, expected_target)
    if not queries.count_apart(pull.repository, sha=pull.head_sha, base=target_sha).behind:
        raise Conflict(f"{pull.source} has every commit of {pull.target}.", code="up_to_date")
    if method == REBASE:
        _check_unsettled(resolutions)
        repositories.rebase_branch(
            repository=pull.repository, branch=pull.source, expected_head=pull.head_sha, sha=target_sha, by=by
        )
    else:
        repositories.merge_into_branch(
            repository=pull.repository,
            branch=pull.source,
            expected_head=pull.head_sha,
            sha=target_sha,
            message=_write_message(pull, [resolution.path for resolution in resolutions]),
            by=by,
            resolutions=resolutions,
        )
    refresh_pull(pull=pull)


def _check_unsettled(resolutions: Sequence[Resolution]) -> None:
    if resolutions:
        text = "Files that conflict are settled in a merge, not in a rebase."
        raise InvalidInput(text, errors={"resolutions": [text]})


def _write_message(pull: PullRequest, settled: Sequence[str]) -> str:
    named = [f"- {path}" for path in settled[:MAX_NAMED]]
    more = [f"- and {len(settled) - MAX_NAMED} more"] if len(settled) > MAX_NAMED else []
    body = ["", "These files conflicted and were resolved by hand:", *named, *more] if settled else []
    return "\n".join([f"Merge branch {pull.target} into {pull.source}", *body, ""])
