"""What waits for somebody: reviews they could give, their builds that failed, their own pull requests."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Max

from webapp.accounts.models import RepositoryRole
from webapp.accounts.rules.roles import Role
from webapp.builds.models import Build
from webapp.core import clock
from webapp.pulls.models import PullRequest, Review
from webapp.pulls.rules import states
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.accounts.rules.principals import Principal

FAILED_FOR = timedelta(days=14)
"""An older failure that nobody mended is history, not work."""


def list_visible(principal: Principal) -> QuerySet[PullRequest]:
    """Return the pull requests of repositories that the reader may see."""
    return PullRequest.objects.filter(repository__in=repositories.list_repositories(principal)).select_related(
        "repository", "author"
    )


def list_review_ids(principal: Principal) -> list[int]:
    """Return open pull requests of others on which the reader may, and did not yet, give a verdict that stands."""
    pulls = list_visible(principal).filter(state=states.OPEN, draft=False).exclude(author_id=principal.user_id)
    if not principal.is_admin:
        writable = RepositoryRole.objects.filter(user_id=principal.user_id).exclude(role=Role.READER)
        pulls = pulls.filter(repository__name__in=writable.values("repository"))
    given = Review.objects.filter(reviewer_id=principal.user_id, voided_at=None).exclude(verdict=states.COMMENT)
    return list(pulls.exclude(pk__in=given.values("pull")).order_by("-updated_at").values_list("pk", flat=True)[:50])


def list_failed_builds(principal: Principal) -> list[Build]:
    """Return the reader's builds that failed and are still the newest on their branch."""
    newest = (
        Build.objects.filter(by_id=principal.user_id, created_at__gte=clock.now() - FAILED_FOR)
        .values("repository", "branch")
        .annotate(newest=Max("pk"))
        .values("newest")
    )
    builds = Build.objects.filter(pk__in=newest, state="FAILED").select_related("repository", "by")
    return list(builds.order_by("-pk")[:10])


def list_own(principal: Principal) -> QuerySet[PullRequest]:
    """Return the reader's own open pull requests, newest first."""
    return list_visible(principal).filter(author_id=principal.user_id, state=states.OPEN).order_by("-updated_at")
