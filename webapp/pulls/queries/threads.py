"""Threads of comments of a pull request, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet

from webapp.core.errors import NotFound
from webapp.pulls.models import Comment

if TYPE_CHECKING:
    from webapp.pulls.models import PullRequest


def get_comment(pull: PullRequest, number: int) -> Comment:
    """Return one comment of a pull request.

    Raises:
        NotFound: it has no such comment.

    """
    comment = pull.comments.filter(pk=number).select_related("author", "thread", "pull__repository").first()
    if comment is None:
        raise NotFound(f"Pull request #{pull.number} has no comment {number}.")
    return comment


def list_threads(pull: PullRequest) -> QuerySet[Comment]:
    """Select the comments that begin a thread, the oldest first, each with its replies."""
    replies = Comment.objects.select_related("author", "deleted_by", "pull__repository")
    return (
        pull.comments.filter(thread=None)
        .select_related("author", "resolved_by", "deleted_by", "pull__repository")
        .prefetch_related(Prefetch("replies", queryset=replies))
    )


def list_threads_on_places(pull: PullRequest) -> QuerySet[Comment]:
    """Select the threads on code or data in which there is anything left to read."""
    is_answered = Exists(Comment.objects.filter(thread=OuterRef("pk"), deleted_at=None))
    return list_threads(pull).filter(Q(deleted_at=None) | is_answered).exclude(anchor=None)


def list_open_threads(pull: PullRequest) -> QuerySet[Comment]:
    """Select the threads on code or data that nobody has resolved."""
    return list_threads_on_places(pull).filter(resolved_at=None)
