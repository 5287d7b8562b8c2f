"""Lists of pull requests, and what they are filtered by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from django.db.models import Prefetch, Q

from webapp.builds.queries import chains
from webapp.core.errors import InvalidInput
from webapp.core.filters import ListFilter, offer
from webapp.core.names import MASTER
from webapp.core.numbers import read_count
from webapp.pulls.models import Assignee, PullLabel, PullRequest, Review, ReviewRequest
from webapp.pulls.queries import waiting
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset
    from webapp.repositories.models import Repository

ALL = "all"
ME = "me"
MOST_CONCERNING = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PullFilter(ListFilter):
    """Which pull requests are wanted."""

    state: str = offer(default=ALL, choices=(*PullState, ALL))
    q: str = offer(in_api=False)
    author: str = offer("author__username", words="user name of who opened it")
    assignee: str = offer("assignees__user__username", words="user name of somebody who sees to it")
    label: str = offer("labels__label__name", words="name of a label")
    reviewer: str = offer(words="user name of somebody who reviewed it, or is asked to")
    review: str = offer(in_api=False)
    """me, where only those are wanted that wait for the reader's review; else empty."""

    @property
    def people(self) -> list[tuple[str, str]]:
        """Return the name and value of each filter by people and labels that is set."""
        names = ("author", "assignee", "reviewer", "label")
        return [(name, getattr(self, name)) for name in names if getattr(self, name)]

    @classmethod
    def read_page(cls, parameters: Mapping[str, str]) -> Self:
        """Return what the address of a page asks for: of one state, at first of those that are open."""
        filters = super(PullFilter, cls).read_page(parameters)
        return replace(
            filters,
            state=filters.state if filters.state in set(PullState) else PullState.OPEN,
            review=filters.review if filters.review == ME else "",
        )


def list_open_of_branches(
    *, principal: Principal, dataset: Dataset, branches: Collection[str]
) -> Mapping[str, Sequence[PullRequest]]:
    """Return the open pull requests of some branches, by branch, in the repository that makes or owns a dataset."""
    repository = chains.find_repository(paths=[dataset.path], branch=MASTER)
    pulls = waiting.list_visible(principal).filter(repository=repository, state=PullState.OPEN, source__in=branches)
    by_branch: dict[str, list[PullRequest]] = {}
    for pull in pulls.order_by("number"):
        by_branch.setdefault(pull.source, []).append(pull)
    return by_branch


def list_concerning(*, principal: Principal, dataset: Dataset) -> list[PullRequest]:
    """Return the newest open pull requests that change or affect a dataset, of those that the reader may see."""
    pulls = waiting.list_visible(principal).filter(state=PullState.OPEN, datasets__dataset=dataset)
    return list(pulls.select_related("repository").order_by("-pk")[:MOST_CONCERNING])


def list_pulls(
    principal: Principal, filters: PullFilter, *, repository: Repository | None = None
) -> QuerySet[PullRequest]:
    """Return the pull requests of a repository, or of all that the reader may see, newest first."""
    if filters.state not in (*PullState, ALL):
        message = f"state is {', '.join(PullState)} or {ALL}, not {filters.state!r}."
        raise InvalidInput(message, errors={"state": [message]})
    pulls = waiting.list_visible(principal).filter(**filters.lookups)
    if repository is not None:
        pulls = pulls.filter(repository=repository)
    if filters.state != ALL:
        pulls = pulls.filter(state=filters.state)
    if filters.reviewer:
        reviews = Review.objects.filter(reviewer__username=filters.reviewer)
        requests = ReviewRequest.objects.filter(user__username=filters.reviewer)
        pulls = pulls.filter(Q(pk__in=reviews.values("pull")) | Q(pk__in=requests.values("pull")))
    if filters.review == ME:
        pulls = pulls.filter(pk__in=waiting.list_reviews(principal).order_by().values("pk"))
    return pulls.filter(_has_words(filters.q)) if filters.q else pulls


def list_sorted_by() -> tuple[Prefetch[str], Prefetch[str]]:
    """Return what reads labels and assignees of many pull requests at once."""
    labels, assignees = PullLabel.objects.select_related("label"), Assignee.objects.select_related("user")
    return Prefetch("labels", labels), Prefetch("assignees", assignees)


def _has_words(q: str) -> Q:
    """Return the condition that a title or a source has these words, or that they are the number."""
    condition = Q(title__icontains=q) | Q(source__icontains=q)
    number = read_count(q.removeprefix("#"))
    return condition if number is None else condition | Q(number=number)
