"""A tour of the demo in five steps: each is a page that is there anyway, with a box above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.urls import reverse

from webapp.pulls.models import PullRequest
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from collections.abc import Callable

    from webapp.core.principals import Principal

REPOSITORY = "nyc"
BRANCH = "feature/cancelled-flights"
DATASET = "/nyc/delays/daily"
PULL = 1
PARAMETER = "tour"
ENDED = "tour_ended"
"""The cookie of a browser whose reader wants no tour any more."""


@dataclass(frozen=True)
class TourStop:
    """Where a step is shown, and what is said there."""

    title: str
    text: str
    find_url: Callable[[], str]


@dataclass(frozen=True)
class TourStep:
    """One step, with the way on and back; empty where there is none."""

    number: int
    total: int
    title: str
    text: str
    next_url: str
    previous_url: str


def _at_pull(page: str) -> Callable[[], str]:
    return lambda: reverse(page, args=[REPOSITORY, PULL])


STOPS = (
    TourStop(
        "A dataset is a table with branches",
        "Code makes its rows: the blue icon says so, and Lineage says from what. Spark and PyIceberg read the same table: "
        "Open in shows how.",
        lambda: reverse("dataset", args=[DATASET.strip("/")]),
    ),
    TourStop(
        "A branch holds code and data",
        f"Ines made the branch {BRANCH} and changed the code that you see here. Building the branch wrote new rows there; "
        "master kept its own.",
        _at_pull("pull-code"),
    ),
    TourStop(
        "A pull request shows what the code does to rows",
        "Every row that the branch adds, removes or changes, cell by cell. j and k walk, c comments on a row and Enter says "
        "who changed it; Statistics shows how each column moved.",
        lambda: f"{_at_pull('pull-data')()}?{urlencode({'dataset': DATASET})}",
    ),
    TourStop(
        "Decide with what you saw",
        "An approval is bound to this commit and these rows: when either moves it no longer counts. Merging merges the "
        "code and rebuilds on master, and the page then says whether the rows are those that were reviewed.",
        _at_pull("pull"),
    ),
    TourStop(
        "Your turn",
        "Make a branch here, change a file in the browser, build it, and open a pull request. The guide at the foot of "
        "every page has the rest.",
        lambda: reverse("repository-branches", args=[REPOSITORY]),
    ),
)


def offer_tour(principal: Principal) -> str:
    """Return where the tour begins, empty where the reader does not see the demo."""
    seen = repositories.list_repositories(principal).filter(name=REPOSITORY)
    has_demo = PullRequest.objects.filter(repository__in=seen, number=PULL, source=BRANCH).exists()
    return _find_url(1) if has_demo else ""


def read_step(text: str) -> TourStep | None:
    """Return the step of this number, None where there is none."""
    if text not in {str(number + 1) for number in range(len(STOPS))}:
        return None
    number = int(text)
    stop = STOPS[number - 1]
    return TourStep(
        number=number,
        total=len(STOPS),
        title=stop.title,
        text=stop.text,
        next_url=_find_url(number + 1),
        previous_url=_find_url(number - 1),
    )


def _find_url(number: int) -> str:
    if not 1 <= number <= len(STOPS):
        return ""
    url = STOPS[number - 1].find_url()
    return f"{url}{'&' if '?' in url else '?'}{PARAMETER}={number}"
