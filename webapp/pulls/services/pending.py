"""Comments that wait for the verdict of their author's review, and are seen by nobody else before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from webapp.accounts.permissions import check_repository
from webapp.core import clock
from webapp.core.errors import Conflict
from webapp.pulls.models import Comment, PendingComment
from webapp.pulls.queries.expected import NOTHING, check_version, version_of_comment
from webapp.pulls.queries.pending import list_pending
from webapp.pulls.rules.states import PullState
from webapp.pulls.services.remarks import announce_comment, check_comment, read_place, record_pull_act

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest, Review
    from webapp.pulls.queries.expected import Expected

MOST_PENDING = 200
"""Comments of one review: all are announced at once."""


def add_pending(
    *,
    pull: PullRequest,
    body: str,
    by: Principal,
    anchor: Mapping[str, Any] | None = None,
    reply_to: int | None = None,
    expected: Expected = NOTHING,
) -> PendingComment:
    """Remark as `add_comment` does, as part of a review that is submitted later: the first begins it.

    Raises:
        InvalidInput: as of a comment.
        NotFound: the pull request has no comment to reply to.
        Conflict: it takes no more reviews, what was shown has moved, or the review has as many comments as one may have.

    """
    check_repository(by, pull.repository.name, "read")
    check_comment(body)
    place = read_place(pull, anchor, reply_to, by=by, expected=expected)
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}; it takes no more reviews.", code="not_open")
    if list_pending(by, pull).count() >= MOST_PENDING:
        raise Conflict(f"A review has at most {MOST_PENDING} comments. Submit it first.", code="review_full")
    with transaction.atomic():
        comment = PendingComment.objects.create(
            pull=pull,
            author_id=by.user_id,
            body=body,
            anchor=place.anchor,
            quoted=place.quoted,
            picture=place.picture,
            seen=place.seen,
            thread=place.thread,
        )
        record_pull_act(pull, "pend_comment", by=by)
    return comment


def edit_pending(*, comment: PendingComment, body: str, by: Principal, expected_version: str = "") -> None:
    """Change what a comment of one's own pending review says; nobody has read what it said before.

    Raises:
        Conflict: it is not pending any more, or was edited since it was shown.

    """
    check_repository(by, comment.pull.repository.name, "read")
    check_comment(body)
    with transaction.atomic():
        now = PendingComment.objects.select_for_update().filter(pk=comment.pk).first()
        if now is None:
            raise Conflict("Your review was submitted or discarded meanwhile.", code="not_pending")
        _check_pending_version(now, expected_version)
        PendingComment.objects.filter(pk=comment.pk).update(body=body)
        comment.body = body
        record_pull_act(comment.pull, "edit_pending_comment", by=by)


def _check_pending_version(comment: PendingComment, expected: str) -> None:
    check_version(version_of_comment(comment), expected, what="The pending comment", body=comment.body)


def delete_pending(*, comment: PendingComment, by: Principal, expected_version: str = "") -> None:
    """Take a comment out of one's own pending review, which ends with its last one."""
    check_repository(by, comment.pull.repository.name, "read")
    with transaction.atomic():
        now = PendingComment.objects.select_for_update().filter(pk=comment.pk).first()
        if now is not None:
            _check_pending_version(now, expected_version)
        PendingComment.objects.filter(pk=comment.pk).delete()
        record_pull_act(comment.pull, "delete_pending_comment", by=by)


def discard_review(*, pull: PullRequest, by: Principal) -> None:
    """Throw away one's own pending review with all its comments."""
    check_repository(by, pull.repository.name, "read")
    with transaction.atomic():
        list_pending(by, pull).order_by().delete()
        record_pull_act(pull, "discard_review", by=by)


def publish_pending(*, review: Review, by: Principal) -> list[Comment]:
    """Make comments of the pending ones of the reviewer, in the atomic block that records the review.

    Whoever submits twice at once submits them once: the second waits for the first, and finds none.
    """
    waiting = list(list_pending(by, review.pull).select_for_update(of=("self",)))
    comments = [
        Comment.objects.create(
            pull=review.pull,
            author_id=by.user_id,
            body=pending.body,
            anchor=pending.anchor,
            quoted=pending.quoted,
            picture=pending.picture,
            seen=pending.seen,
            thread=pending.thread,
            review=review,
            created_at=clock.now(),
        )
        for pending in waiting
    ]
    PendingComment.objects.filter(pk__in=[pending.pk for pending in waiting]).delete()
    for comment in comments:
        announce_comment(comment, "created", by=by)
    return comments
