"""What waits for somebody: reviews they could give, their builds that failed, their own pull requests."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, F, OuterRef, Q

from webapp.accounts.models import RepositoryRole
from webapp.accounts.rules.roles import Role
from webapp.builds.models import Build
from webapp.core import clock
from webapp.pulls.models import PullRequest, Review, ReviewRequest
from webapp.pulls.rules import states
from webapp.pulls.rules.states import PullState
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.core.principals import Principal

FAILED_FOR = timedelta(days=14)
"""An older failure that nobody mended is history, not work."""
MOST_COUNTED = 100
"""Nobody needs to know how many more wait; pages say 99+."""


def list_visible(principal: Principal) -> QuerySet[PullRequest]:
    """Return the pull requests of repositories that the reader may see."""
    return PullRequest.objects.filter(repository__in=repositories.list_repositories(principal)).select_related(
        "repository", "author", "merge"
    )


def list_reviews(principal: Principal) -> QuerySet[PullRequest]:
    """Return open pull requests of others that wait for a review of the reader.

    Those on which they may, and did not yet, give a verdict that stands; and any for which they, or a group of theirs, were
    asked for one and nobody of those asked has reviewed it since.
    """
    pulls = list_visible(principal).filter(state=PullState.OPEN).exclude(author_id=principal.user_id)
    own = Review.objects.filter(reviewer_id=principal.user_id, voided_at=None).exclude(verdict=states.COMMENT)
    unjudged = Q(draft=False) & ~Q(pk__in=own.values("pull"))
    if not principal.is_admin:
        writable = RepositoryRole.objects.filter(user_id=principal.user_id).exclude(role=Role.READER)
        unjudged &= Q(repository__name__in=writable.values("repository"))
    since = Review.objects.filter(pull=OuterRef("pull"), created_at__gte=OuterRef("asked_at"))
    of_user = ReviewRequest.objects.filter(~Exists(since.filter(reviewer_id=principal.user_id)), user=principal.user_id)
    of_group = ReviewRequest.objects.filter(
        ~Exists(since.filter(reviewer__groups=OuterRef("group"))), group__user=principal.user_id
    )
    requests = Q(pk__in=of_user.values("pull")) | Q(pk__in=of_group.values("pull"))
    return pulls.filter(unjudged | requests).order_by("-updated_at")


def list_failed_builds(principal: Principal) -> QuerySet[Build]:
    """Return the reader's builds that failed and are still their newest on that branch, newest first."""
    # A sum is no column: else SQLite walks all builds of the user for each, where repository and branch have an index.
    newer = Build.objects.annotate(starter=F("by_id") + 0).filter(
        repository=OuterRef("repository"), branch=OuterRef("branch"), starter=principal.user_id, pk__gt=OuterRef("pk")
    )
    builds = Build.objects.filter(
        by_id=principal.user_id, state="FAILED", created_at__gte=clock.now() - FAILED_FOR
    ).exclude(Exists(newer))
    return builds.select_related("repository", "by").order_by("-pk")


def count_at_most(rows: QuerySet[Any]) -> int:
    """Count rows without sorting them, and no further than anybody reads."""
    return rows.order_by()[:MOST_COUNTED].count()


def list_own(principal: Principal) -> QuerySet[PullRequest]:
    """Return the reader's own open pull requests, newest first."""
    return list_visible(principal).filter(author_id=principal.user_id, state=PullState.OPEN).order_by("-updated_at")
