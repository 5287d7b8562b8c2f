"""Where somebody whose review is asked for, or who reviewed, stands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from webapp.pulls.rules import states

if TYPE_CHECKING:
    from datetime import datetime


class ReviewerState(Enum):
    """What somebody's newest review since they were asked says; one that says nothing was not given yet."""

    ASKED = "asked"
    APPROVED = "approved"
    REJECTED = "rejected"
    COMMENTED = "commented"
    VOID = "void"
    """Their approval holds no longer: the head, the data or the rules have moved."""
    UNCOUNTED = "uncounted"
    """Their approval does not count: they have a part in what is to be merged, or may not write."""

    @property
    def is_answered(self) -> bool:
        """Whether asking again asks for something new."""
        return self != ReviewerState.ASKED


_OF_VERDICT = {
    states.APPROVE: ReviewerState.APPROVED,
    states.REJECT: ReviewerState.REJECTED,
    states.COMMENT: ReviewerState.COMMENTED,
}
_OF_GROUP = (ReviewerState.APPROVED, ReviewerState.REJECTED, ReviewerState.COMMENTED)
"""A group stands where the first of these is that one of its members stands at."""


@dataclass(frozen=True, slots=True)
class GivenReview:
    """A review as these rules see it."""

    reviewer: str
    verdict: str
    at: datetime
    is_void: bool


@dataclass(frozen=True, slots=True)
class AskedReview:
    """A person or a group whose review is asked for."""

    name: str
    at: datetime
    by: str
    """Empty where it was nobody's act, or theirs who is gone."""
    members: frozenset[str] | None = None
    """Of a group; None for a person."""


@dataclass(frozen=True, slots=True)
class ReviewerStanding:
    """A person or a group with their state."""

    name: str
    is_group: bool
    state: ReviewerState
    asked_at: datetime | None
    """When their review was asked for last; None for who gave one unasked."""
    asked_by: str = ""


def list_standings(
    *, reviews: Sequence[GivenReview], requests: Iterable[AskedReview], uncounted: Collection[str]
) -> list[ReviewerStanding]:
    """Return everybody who reviewed, and whoever is asked, people before groups.

    Args:
        reviews: all that were given, the oldest first.
        requests: who is asked.
        uncounted: those whose approval does not count.

    """
    of_people = {request.name: request for request in requests if request.members is None}
    groups = [request for request in requests if request.members is not None]
    people = {name: _stand(name, reviews, of_people.get(name), uncounted) for name in _list_people(reviews, of_people)}
    return [
        *people.values(),
        *(_stand_together(request, reviews, uncounted) for request in groups),
    ]


def _list_people(reviews: Iterable[GivenReview], of_people: Mapping[str, AskedReview]) -> list[str]:
    return list(dict.fromkeys([*(review.reviewer for review in reviews), *of_people]))


def _stand(
    name: str, reviews: Iterable[GivenReview], request: AskedReview | None, uncounted: Collection[str]
) -> ReviewerStanding:
    since = request.at if request else None
    own = [review for review in reviews if review.reviewer == name and (since is None or review.at >= since)]
    state = _read_state(own, uncounted)
    return ReviewerStanding(name, False, state, since, request.by if request else "")


def _read_state(reviews: Iterable[GivenReview], uncounted: Collection[str]) -> ReviewerState:
    """Return what the reviews of one person say: a comment takes no verdict back, nor one that is void."""
    state = ReviewerState.ASKED
    for review in reviews:
        if review.is_void:
            state = ReviewerState.VOID
        elif review.verdict == states.APPROVE and review.reviewer in uncounted:
            state = ReviewerState.UNCOUNTED
        elif review.verdict != states.COMMENT or state == ReviewerState.ASKED:
            state = _OF_VERDICT[review.verdict]
    return state


def _stand_together(
    request: AskedReview, reviews: Sequence[GivenReview], uncounted: Collection[str]
) -> ReviewerStanding:
    members = request.members or frozenset()
    standings = {
        _read_state([review for review in reviews if review.reviewer == name and review.at >= request.at], uncounted)
        for name in members
    }
    state = next((state for state in _OF_GROUP if state in standings), ReviewerState.ASKED)
    return ReviewerStanding(request.name, True, state, request.at, request.by)
