"""Who reviewed a pull request, who is asked to, and who could be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group
from django.db.models import Prefetch, Q

from webapp.accounts.models import User
from webapp.accounts.permissions import can_repository
from webapp.accounts.queries import list_groups
from webapp.pulls.models import ReviewRequest
from webapp.pulls.rules.reviewers import AskedReview, GivenReview, ReviewerStanding, list_standings
from webapp.repositories.queries import list_members

if TYPE_CHECKING:
    from collections.abc import Collection

    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest

MOST_OFFERED = 100
"""Names that the form offers; others are typed."""


@dataclass(frozen=True, slots=True)
class OfferedNames:
    """Whose review may be asked for, as far as a form offers it."""

    people: list[str]
    groups: list[str]


def list_requests(pull: PullRequest) -> QuerySet[ReviewRequest]:
    """Select whose review is asked for, the first asked first; who is gone is asked for nothing."""
    members = Prefetch("group__user_set", User.objects.filter(is_active=True))
    return (
        ReviewRequest.objects.filter(Q(user__is_active=True) | Q(group__name__isnull=False), pull=pull)
        .select_related("user", "group", "asked_by")
        .prefetch_related(members)
    )


def list_reviewers(pull: PullRequest, *, uncounted: Collection[str]) -> list[ReviewerStanding]:
    """Return who reviewed and who is asked to, with where they stand.

    Args:
        pull: the pull request.
        uncounted: the reviewers whose approval does not count.

    """
    reviews = pull.reviews.select_related("reviewer")
    given_reviews = [
        GivenReview(review.reviewer.username, review.verdict, review.created_at, review.voided_at is not None)
        for review in reviews
    ]
    requests = [_describe_request(request) for request in list_requests(pull)]
    return list_standings(reviews=given_reviews, requests=requests, uncounted=uncounted)


def may_ask(principal: Principal, pull: PullRequest) -> bool:
    """Return whether somebody may ask others for a review: who opened it, and writers."""
    action = "read" if principal.user_id == pull.author_id else "write"
    return can_repository(principal, pull.repository.name, action)


def offer_reviewers(principal: Principal, pull: PullRequest) -> OfferedNames:
    """Return whom a form offers to ask: members of the repository other than who opened it, and groups."""
    members = list_members(principal, pull.repository).exclude(user=pull.author_id).filter(user__is_active=True)
    names = members.order_by("user__username").values_list("user__username", flat=True)[:MOST_OFFERED]
    groups = list_groups().prefetch_related(None).values_list("name", flat=True)[:MOST_OFFERED]
    return OfferedNames(list(names), list(groups))


def is_group(name: str) -> bool:
    """Return whether a name is that of a group, and of no person."""
    return Group.objects.filter(name=name).exists() and not User.objects.filter(username=name).exists()


def _describe_request(request: ReviewRequest) -> AskedReview:
    by = request.asked_by.username if request.asked_by else ""
    if request.group is not None:
        members = frozenset(user.username for user in request.group.user_set.all())
        return AskedReview(request.group.name, request.asked_at, by, members)
    return AskedReview(request.user.username if request.user else "", request.asked_at, by)
