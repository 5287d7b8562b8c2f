"""The way back: a pull request that takes back what another one has brought."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import reverse

from webapp.accounts.permissions import check_repository
from webapp.core.errors import Conflict, InvalidInput
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.reverts import find_revert
from webapp.pulls.rules import reverts
from webapp.pulls.rules.states import MERGE_METHOD, PullState
from webapp.pulls.services.pulls import open_pull
from webapp.repositories import services as repositories

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import Merge, PullRequest


def revert_pull(*, pull: PullRequest, by: Principal) -> PullRequest:
    """Make a branch off the target that takes back what a merge brought, and open a pull request for it.

    A crash between the two leaves the branch alone, from which a pull request may be opened as from any other.

    Raises:
        Conflict: it is not merged, or reverted already; the target has lost the merge, or has changed the same lines
            since, of which the files are named; or the branch is there.

    """
    check_repository(by, pull.repository.name, "write")
    merge = _check_may_be_reverted(pull)
    branch = reverts.name_branch(number=pull.number, source=pull.source, earlier=pull.reverted_by.count())
    title = reverts.write_title(pull.title)
    _make_branch(merge, branch, title, by)
    url = reverse("pull", args=[pull.repository.name, pull.number])
    body = f"Reverts [#{pull.number}]({url}), which was merged into {pull.target} as {merge.merge_commit[:7]}."
    return open_pull(
        repository=pull.repository, title=title, source=branch, target=pull.target, by=by, body=body, reverts=pull
    )


def _check_may_be_reverted(pull: PullRequest) -> Merge:
    merge = queries.find_merge(pull)
    if pull.state != PullState.MERGED or merge is None:
        raise Conflict(f"The pull request is {pull.state}: there is no merge to take back.", code="not_merged")
    revert = find_revert(pull)
    if revert is not None:
        verb = "would revert" if revert.state == PullState.OPEN else "reverted"
        raise Conflict(f"#{revert.number} {verb} it already.", code="already_reverted", revert=revert.number)
    queries.get_target_head(pull)
    if not queries.is_landed(merge):
        raise Conflict(f"{pull.target} no longer has {merge.merge_commit[:7]}, the merge of it.", code="merge_lost")
    return merge


def _make_branch(merge: Merge, branch: str, title: str, by: Principal) -> None:
    pull, sha = merge.pull, merge.merge_commit
    try:
        repositories.revert_to_new_branch(
            repository=pull.repository,
            parent=pull.target,
            branch=branch,
            sha=sha,
            message=f"{title}\n\nThis reverts commit {sha}, the merge of #{pull.number}.\n",
            by=by,
            verb="revert_pull",
            object=f"{pull.repository.name}#{pull.number}",
        )
    except InvalidInput as error:
        if error.code != "nothing_changed":
            raise
        message = f"Nothing is left on {pull.target} of what it brought."
        raise Conflict(message, code="already_reverted") from None
    except Conflict as error:
        raise Conflict(_explain_refusal(error, merge, branch), code=error.code, **error.extra) from None


def _explain_refusal(error: Conflict, merge: Merge, branch: str) -> str:
    """Return what is in the way, with the way out."""
    target = merge.pull.target
    if error.code == "merge_conflict":
        mainline = "-m 1 " if merge.method == MERGE_METHOD else ""
        return (
            f"{target} has changed the same lines since, in {', '.join(error.extra['conflicts'])}. Make a branch off "
            f"{target}, run `git revert {mainline}{merge.merge_commit[:7]}` there, settle these files, and open a pull "
            "request from it."
        )
    if error.code == "branch_exists":
        return f"The branch {branch} is there already. Open a pull request from it, or delete it and try again."
    return error.detail
