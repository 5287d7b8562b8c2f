"""Threads of comments of a pull request, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet, prefetch_related_objects

from webapp.core.errors import NotFound
from webapp.core.prepared import Prepared
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
    return _select(pull.pk).prefetch_related(_select_replies())


def list_open_threads(pull: PullRequest) -> QuerySet[Comment]:
    """Select the threads on code or data that nobody has resolved."""
    return _select_on_places(pull.pk).filter(resolved_at=None)


def read_threads_on_places(pull: PullRequest) -> list[Comment]:
    """Return the threads on code or data in which there is anything left to read, each with its replies."""
    threads = _ON_PLACES.all(pull.pk)
    prefetch_related_objects(threads, _select_replies())
    return threads


def _select(pull: int) -> QuerySet[Comment]:
    people = ("author", "resolved_by", "deleted_by")
    return Comment.objects.filter(pull_id=pull, thread=None).select_related(*people, "pull__repository")


def _select_replies() -> Prefetch[str]:
    return Prefetch("replies", queryset=Comment.objects.select_related("author", "deleted_by", "pull__repository"))


def _select_on_places(pull: int) -> QuerySet[Comment]:
    is_answered = Exists(Comment.objects.filter(thread=OuterRef("pk"), deleted_at=None))
    return _select(pull).filter(Q(deleted_at=None) | is_answered).exclude(anchor=None)


_ON_PLACES = Prepared(_select_on_places, int)
