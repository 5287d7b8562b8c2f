"""Comments of a review that its author has not submitted: nobody else is shown that there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.core.errors import NotFound
from webapp.core.once import asked_once
from webapp.core.prepared import Prepared
from webapp.pulls.models import PendingComment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest


def list_pending(principal: Principal, pull: PullRequest) -> QuerySet[PendingComment]:
    """Select the comments of the reader's own pending review, the oldest first."""
    return _select(pull.pk, principal.user_id).select_related("pull__repository")


def _select(pull: int, author: int) -> QuerySet[PendingComment]:
    return PendingComment.objects.filter(pull_id=pull, author_id=author).select_related("author", "thread__author")


_PENDING = Prepared(_select, int, int)


@asked_once
def read_pending(principal: Principal, pull: PullRequest) -> Sequence[PendingComment]:
    """Return them: a page shows some beside what they are about, and how many there are."""
    comments = _PENDING.all(pull.pk, principal.user_id)
    for comment in comments:
        comment.pull = pull
    return comments


def get_pending(principal: Principal, pull: PullRequest, number: int) -> PendingComment:
    """Return one comment of the reader's own pending review.

    Raises:
        NotFound: it has no such comment.

    """
    comment = list_pending(principal, pull).filter(pk=number).first()
    if comment is None:
        raise NotFound(f"Your review of pull request #{pull.number} has no pending comment {number}.")
    return comment
