"""What happened to a pull request, page by page: in one order, and no page loads what it does not show."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models.signals import post_init

from tests.factories import repositories as make
from tests.factories.clients import read_pages
from webapp.pulls.models import Comment
from webapp.pulls.services import pulls

if TYPE_CHECKING:
    from rest_framework.test import APIClient

    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PULL = "/api/v1/repositories/shop/pulls/1"
TIMELINE = f"{PULL}/timeline"
COMMENTS = 30


@pytest.fixture
def client(home: Path, admin: User, api_client: Callable[..., APIClient], monkeypatch: pytest.MonkeyPatch) -> APIClient:
    """A client of the admin, who has said much of pull request 1, with a verdict in the middle."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    ines = make.a_person("ines")
    repository = make.a_repository("shop", by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature", by=ines)
    pulls.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)
    client = api_client(admin)
    for number in range(COMMENTS):
        assert client.post(f"{PULL}/comments", {"body": f"remark {number}"}, format="json").status_code == 201
        if number == COMMENTS // 2:
            verdict = {"verdict": "comment", "body": "half of it"}
            assert client.post(f"{PULL}/reviews", verdict, format="json").status_code == 201
    return client


def test_pages_are_the_whole_in_one_order(client: APIClient) -> None:
    [whole] = read_pages(client, f"{TIMELINE}?limit=250")
    assert [entry["at"] for entry in whole] == sorted(entry["at"] for entry in whole)
    remarks = [entry["data"]["body"] for entry in whole if entry["kind"] == "comment"]
    assert remarks == [f"remark {number}" for number in range(COMMENTS)]
    assert "review" in {entry["kind"] for entry in whole[COMMENTS // 2 :]}
    pages = read_pages(client, f"{TIMELINE}?limit=7")
    assert list(chain.from_iterable(pages)) == whole
    assert {len(page) for page in pages[:-1]} == {7}


def test_a_page_loads_the_comments_that_it_shows(client: APIClient) -> None:
    made: list[Comment] = []

    def note(instance: Comment, **_: Any) -> None:
        made.append(instance)

    post_init.connect(note, sender=Comment)
    try:
        page = client.get(f"{TIMELINE}?limit=5").json()["results"]
    finally:
        post_init.disconnect(note, sender=Comment)
    shown = [entry for entry in page if entry["kind"] == "comment"]
    assert 0 < len(shown) <= len(made) <= 6, "one more than a page has says whether there is another page"
