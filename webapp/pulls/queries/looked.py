"""What people saw when they gave their last review, and what came since."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webapp.datasets.models import Transaction
from webapp.pulls.queries.pulls import list_changes, list_reviews
from webapp.pulls.rules.states import PullState
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.git.diff import CodeDiff
    from webapp.pulls.models import PullRequest, Review


class SeenRows(NamedTuple):
    """The rows of one dataset that a reviewer saw last."""

    reviewer_id: int
    rows: Transaction


def list_seen(pull: PullRequest) -> list[SeenRows]:
    """Return the rows that the newest review of each reviewer is bound to, as far as they are still there."""
    newest = {review.reviewer_id: review for review in pull.reviews.all()}
    named = {reviewer: set(_list_transactions(review)) for reviewer, review in newest.items()}
    rows = Transaction.objects.in_bulk(set().union(*named.values()))
    return [SeenRows(reviewer, rows[pk]) for reviewer, ids in named.items() for pk in ids if pk in rows]


def _list_transactions(review: Review) -> list[str]:
    return [transaction for transaction in review.seen.get("transactions", {}).values() if transaction]


def find_last_review(principal: Principal, pull: PullRequest) -> Review | None:
    """Return the newest review of whoever asks."""
    own = [review for review in list_reviews(pull) if review.reviewer_id == principal.user_id]
    return max(own, key=lambda review: review.pk, default=None)


def find_moved_review(principal: Principal, pull: PullRequest) -> Review | None:
    """Return that review where an open pull request has another head now."""
    if pull.state != PullState.OPEN:
        return None
    review = find_last_review(principal, pull)
    return review if review is not None and review.head_sha not in ("", pull.head_sha) else None


def list_changes_since(review: Review, *, ignore_whitespace: bool = False) -> CodeDiff | None:
    """Return which files of a pull request differ from those of a review's head.

    What the source only took over from the target meanwhile is left out: it is no change of the pull request, neither
    then nor now. None where Git no longer has the commit that was reviewed.
    """
    pull = review.pull
    if not pull.repository.git.has_commit(review.head_sha):
        return None
    own = {
        path
        for diff in (list_changes(pull), _list_reviewed(review))
        for file in diff.files
        for path in (file.path, file.old_path)
    }
    return repositories.list_changes_between(
        pull.repository, review.head_sha, pull.head_sha, ignore_whitespace=ignore_whitespace, paths=own
    )


def has_other_changes(review: Review) -> bool:
    """Return whether a pull request shows changes that were in neither the reviewed diff nor a later commit.

    The source can be equal in a file and its target not: an update of the branch then shows a change for the first
    time which a comparison with the reviewed commit does not have.
    """
    newer = list_changes_since(review)
    if newer is None:
        return False
    contents = {(file.old_blob, file.new_blob) for file in _list_reviewed(review).files}
    later = {path for file in newer.files for path in (file.path, file.old_path)}
    return any(
        (file.old_blob, file.new_blob) not in contents and later.isdisjoint((file.path, file.old_path))
        for file in list_changes(review.pull).files
    )


def _list_reviewed(review: Review) -> CodeDiff:
    """Return which files the pull request changed when it was reviewed."""
    pull = review.pull
    base = review.seen.get("base") or pull.base_sha
    return repositories.list_changes(pull.repository, base, review.head_sha)
