"""Labels, assignees, and the lists that are filtered by them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from webapp.core.errors import Conflict, InvalidInput, PermissionDenied
from webapp.pulls import services
from webapp.pulls.models import Label, PullLabel, TimelineEvent

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"


@pytest.fixture
def pulls(ines: Principal, silent_bell: None) -> list[PullRequest]:
    """Two open pull requests of a repository with two labels."""
    repository = make.a_repository("shop", by=ines)
    for name, tone in (("urgent", "bad"), ("data", "plain")):
        services.set_label(repository=repository, name=name, tone=tone, by=ines)
    pulls = []
    for name in ("one", "two"):
        make.a_branch(repository, name, by=ines)
        make.a_commit(repository, {f"{name}.txt": name}, branch=name, by=ines)
        pulls.append(
            services.open_pull(repository=repository, title=f"Add {name}", source=name, target="master", by=ines)
        )
    return pulls


@pytest.fixture
def mira(pulls: list[PullRequest]) -> Principal:
    """A writer."""
    return make.a_member(pulls[0].repository, "writer", "mira")


def find_titles(by: Principal, query: str) -> list[str]:
    page = a_client(by).get(f"/r/shop/pulls?{query}").context["pulls"]
    answer = json.loads(a_client(by).get(f"/api/v1/repositories/shop/pulls?{query}").content)
    titles = sorted(line.title for line in page)
    assert sorted(pull["title"] for pull in answer["results"]) == titles
    return titles


def test_lists_are_filtered_by_labels_and_people(pulls: list[PullRequest], ines: Principal, mira: Principal) -> None:
    services.label_pull(pull=pulls[0], labels=["urgent", "data"], by=ines)
    services.label_pull(pull=pulls[1], labels=["data"], by=ines)
    services.assign_pull(pull=pulls[1], users=["mira"], by=mira)
    services.ask_reviewers(pull=pulls[0], users=["mira"], by=ines)

    assert find_titles(mira, "label=urgent") == ["Add one"]
    assert find_titles(mira, "label=data") == ["Add one", "Add two"]
    assert find_titles(mira, "assignee=mira") == ["Add two"]
    assert find_titles(mira, "reviewer=mira") == ["Add one"]
    assert find_titles(mira, "author=ines&label=data&assignee=mira") == ["Add two"]
    assert find_titles(mira, "author=mira") == []
    page = " ".join(read_page(a_client(mira), "/r/shop/pulls?label=urgent").split())
    assert "labelled urgent" in page
    assert "Add two" not in page


def test_labels_are_a_set_that_the_page_shows(pulls: list[PullRequest], ines: Principal) -> None:
    client = a_client(ines)
    client.post(f"{PAGE}/labels", {"label": ["urgent", "data"]})
    client.post(f"{PAGE}/labels", {"label": ["urgent"]})
    client.post(f"{PAGE}/assignees", {"users": " ines , "})
    page = " ".join(read_page(client, PAGE).split())
    for words in ("added the label data, urgent", "removed the label data", "assigned ines"):
        assert words in page
    assert [row.label.name for row in PullLabel.objects.select_related("label")] == ["urgent"]
    services.label_pull(pull=pulls[0], labels=["urgent"], by=ines)  # nothing changes, so nothing is told
    assert TimelineEvent.objects.filter(kind="labelled").count() == 2

    client.post("/r/shop/labels/remove", {"name": "urgent"})
    assert not PullLabel.objects.exists()
    assert "Removed the label urgent." in read_page(client, "/r/shop/labels")
    assert "urgent" not in read_page(client, "/r/shop/labels")


def test_a_label_has_a_name_and_a_colour(
    pulls: list[PullRequest], ines: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = pulls[0].repository
    assert services.set_label(repository=shop, name=" data ", tone="ok", by=ines).pill == "ok"
    assert Label.objects.count() == 2
    for name, tone in (("", "ok"), ("a/b", "ok"), ("x" * 51, "ok"), ("fine", "purple")):
        with pytest.raises(InvalidInput):
            services.set_label(repository=shop, name=name, tone=tone, by=ines)
    monkeypatch.setattr("webapp.pulls.services.labels.MOST_LABELS", 2)
    with pytest.raises(Conflict, match="at most 2 labels"):
        services.set_label(repository=shop, name="more", tone="ok", by=ines)


def test_what_is_not_there_is_named(pulls: list[PullRequest], ines: Principal, mira: Principal) -> None:
    make.a_person("stranger")
    with pytest.raises(InvalidInput, match="no label fast"):
        services.label_pull(pull=pulls[0], labels=["urgent", "fast"], by=mira)
    for name in ("stranger", "nobody"):
        with pytest.raises(InvalidInput, match=f"{name} may not see shop"):
            services.assign_pull(pull=pulls[0], users=["mira", name], by=mira)
    reader = make.a_member(pulls[0].repository, "reader", "olek")
    with pytest.raises(PermissionDenied):
        services.label_pull(pull=pulls[0], labels=[], by=reader)
    page = read_page(a_client(reader), PAGE)
    assert "Choose labels" not in page
    assert "Assign</summary>" not in page
