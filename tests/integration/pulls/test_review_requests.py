"""Asking people and groups for a review, and again once they have answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group

from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from webapp.accounts.models import User
from webapp.core.errors import Conflict, InvalidInput, PermissionDenied
from webapp.notices.models import Notification
from webapp.pulls import services
from webapp.pulls.models import ReviewRequest, TimelineEvent
from webapp.pulls.queries.reviewers import list_reviewers
from webapp.site.pages.home import read_home

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"


@pytest.fixture
def pull(ines: Principal, silent_bell: None) -> PullRequest:
    """An open pull request."""
    repository = make.a_repository("shop", by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "one\n"}, branch="feature", by=ines)
    return services.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


@pytest.fixture
def mira(pull: PullRequest) -> Principal:
    """A writer."""
    return make.a_member(pull.repository, "writer", "mira")


@pytest.fixture
def finance(pull: PullRequest, mira: Principal, ines: Principal) -> Group:
    """A group of mira, of who opened it, and of somebody who may not see the repository."""
    group = Group.objects.create(name="finance")
    stranger = make.a_person("stranger")
    group.user_set.set(User.objects.filter(pk__in=[mira.user_id, ines.user_id, stranger.user_id]))
    return group


def list_states(pull: PullRequest) -> dict[str, str]:
    return {standing.name: standing.state.value for standing in list_reviewers(pull, uncounted=())}


def list_told() -> list[str]:
    asked = Notification.objects.filter(fact="review_request", reason="review_requested")
    return sorted(asked.values_list("user__username", flat=True))


def test_somebody_is_asked_answers_and_is_asked_again(pull: PullRequest, ines: Principal, mira: Principal) -> None:
    services.ask_reviewers(pull=pull, users=["mira"], by=ines)
    services.ask_reviewers(pull=pull, users=["mira"], by=ines)  # who has not answered is not told twice
    assert (list_states(pull), list_told()) == ({"mira": "asked"}, ["mira"])

    services.add_review(pull=pull, verdict="approve", by=mira)
    assert list_states(pull) == {"mira": "approved"}
    make.a_commit(pull.repository, {"notes.txt": "two\n"}, branch="feature", by=ines)
    services.refresh_pull(pull=pull)
    assert list_states(pull) == {"mira": "void"}
    services.ask_reviewers(pull=pull, users=["mira"], by=ines)
    assert (list_states(pull), list_told()) == ({"mira": "asked"}, ["mira", "mira"])
    assert TimelineEvent.objects.filter(kind="review_asked").count() == 2


def test_a_group_is_asked_and_those_of_it_told_who_may_review(
    pull: PullRequest, ines: Principal, mira: Principal, finance: Group
) -> None:
    services.ask_reviewers(pull=pull, groups=["finance"], by=ines)
    assert (list_states(pull), list_told()) == ({"finance": "asked"}, ["mira"])
    services.add_review(pull=pull, verdict="reject", body="No.", by=mira)
    assert list_states(pull) == {"mira": "rejected", "finance": "rejected"}
    finance.delete()
    assert list_states(pull) == {"mira": "rejected"}


def test_home_counts_what_waits_for_the_reader(
    pull: PullRequest, ines: Principal, mira: Principal, finance: Group
) -> None:
    def wait(who: Principal) -> int:
        return read_home(who, wants_tour=False).waiting

    reader = make.a_member(pull.repository, "reader", "olek")
    assert (wait(mira), wait(reader)) == (1, 0)
    services.ask_reviewers(pull=pull, users=["olek"], by=ines)
    assert wait(reader) == 1
    services.add_review(pull=pull, verdict="comment", body="Hm.", by=reader)
    assert wait(reader) == 0
    services.add_review(pull=pull, verdict="reject", body="No.", by=mira)
    assert (wait(mira), wait(ines)) == (0, 1)  # the author is to do something now
    services.ask_reviewers(pull=pull, groups=["finance"], by=ines)
    assert wait(mira) == 1


def test_who_may_not_be_asked_is_named(pull: PullRequest, ines: Principal, mira: Principal) -> None:
    make.a_person("stranger")
    for names, words in (("ines", "ines opened it"), ("stranger", "may not see shop"), ("nobody", "no user nobody")):
        with pytest.raises(InvalidInput, match=words):
            services.ask_reviewers(pull=pull, users=["mira", names], by=ines)
    with pytest.raises(InvalidInput, match="no group finance"):
        services.ask_reviewers(pull=pull, groups=["finance"], by=ines)
    with pytest.raises(InvalidInput, match="Name one to"):
        services.ask_reviewers(pull=pull, by=ines)
    reader = make.a_member(pull.repository, "reader", "olek")
    with pytest.raises(PermissionDenied, match="and writers"):
        services.ask_reviewers(pull=pull, users=["mira"], by=reader)
    services.close_pull(pull=pull, by=ines)
    with pytest.raises(Conflict, match="no more reviews"):
        services.ask_reviewers(pull=pull, users=["mira"], by=ines)
    assert not ReviewRequest.objects.exists()


def test_the_page_asks_again_and_no_more(pull: PullRequest, ines: Principal, mira: Principal, finance: Group) -> None:
    client = a_client(ines)
    for name in ("mira", "finance"):
        client.post(f"{PAGE}/reviewers", {"name": name})
    page = read_page(client, PAGE)
    assert page.count("asked</span>") == 2
    assert "Ask mira again" not in page
    assert "ines</b> asked for a review by mira" in " ".join(page.split())
    services.add_review(pull=pull, verdict="comment", body="Hm.", by=mira)
    assert "Ask mira again" in read_page(client, PAGE)
    client.post(f"{PAGE}/reviewers", {"group": "finance", "unask": "1"})
    assert list_states(pull) == {"mira": "commented"}
    reader = make.a_member(pull.repository, "reader", "olek")
    page = read_page(a_client(reader), PAGE)
    assert "commented" in page
    assert "Ask for a review" not in page
