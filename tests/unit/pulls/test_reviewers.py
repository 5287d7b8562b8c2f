"""Where people and groups stand whose review is asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webapp.pulls.rules.reviewers import AskedReview, GivenReview, ReviewerState, list_standings

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def given(verdict: str, minutes: int, *, by: str = "mira", is_void: bool = False) -> GivenReview:
    return GivenReview(by, verdict, at(minutes), is_void)


def stand(*reviews: GivenReview, asked: int | None = None, uncounted: tuple[str, ...] = ()) -> str:
    requests = [] if asked is None else [AskedReview("mira", at(asked), "ines")]
    [standing] = list_standings(reviews=reviews, requests=requests, uncounted=uncounted)
    assert (standing.name, standing.is_group) == ("mira", False)
    return standing.state.value


def test_somebody_who_is_asked_stands_at_that_until_they_answer() -> None:
    assert stand(asked=0) == "asked"
    assert stand(given("approve", 1), asked=0) == "approved"
    assert stand(given("approve", 1), asked=2) == "asked"
    assert stand(given("approve", 1), given("reject", 3), asked=2) == "rejected"


@pytest.mark.parametrize(
    ("reviews", "state"),
    [
        ((given("comment", 1),), "commented"),
        ((given("approve", 1), given("comment", 2)), "approved"),
        ((given("approve", 1, is_void=True),), "void"),
        ((given("approve", 1, is_void=True), given("comment", 2)), "void"),
        ((given("approve", 1, is_void=True), given("approve", 2)), "approved"),
        ((given("reject", 1), given("approve", 2)), "approved"),
    ],
)
def test_the_newest_verdict_counts_and_a_comment_takes_none_back(reviews: tuple[GivenReview, ...], state: str) -> None:
    assert stand(*reviews) == state
    assert stand(*reviews, asked=0) == state


def test_an_approval_that_does_not_count_is_said_to_be_none() -> None:
    assert stand(given("approve", 1), uncounted=("mira",)) == "uncounted"
    assert stand(given("reject", 1), uncounted=("mira",)) == "rejected"


def test_one_member_answers_for_a_group() -> None:
    team = AskedReview("finance", at(5), "ines", frozenset({"mira", "olek"}))

    def stand_of_team(*reviews: GivenReview) -> ReviewerState:
        return next(
            standing.state
            for standing in list_standings(reviews=reviews, requests=[team], uncounted=("olek",))
            if standing.is_group
        )

    assert stand_of_team() == ReviewerState.ASKED
    assert stand_of_team(given("approve", 4)) == ReviewerState.ASKED
    assert stand_of_team(given("approve", 6, by="olek")) == ReviewerState.ASKED
    assert stand_of_team(given("approve", 6, by="stranger")) == ReviewerState.ASKED
    assert stand_of_team(given("reject", 6), given("approve", 7, by="olek")) == ReviewerState.REJECTED
    assert stand_of_team(given("approve", 6)) == ReviewerState.APPROVED
