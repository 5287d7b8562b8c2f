"""What comes to a pull request while its page is open: only the new entries are sent, and nothing where there are none."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.factories import repositories
from webapp.accounts.models import User
from webapp.pulls import services
from webapp.pulls.pages import conversation

if TYPE_CHECKING:
    from webapp.pulls.models import PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def pull(home: Any) -> PullRequest:
    """Return an open pull request with a comment."""
    repository = repositories.a_repository("shop")
    repositories.a_branch(repository, "feature")
    repositories.a_commit(repository, {"a.txt": "1"}, branch="feature", message="Count")
    maker = repositories.maker_of(repository)
    opened = services.open_pull(repository=repository, source="feature", target="master", title="T", by=maker)
    services.add_comment(pull=opened, body="the first", by=maker)
    return opened


def test_the_page_is_told_only_what_is_new(pull: PullRequest) -> None:
    client, other = Client(), repositories.a_member(pull.repository, "writer", "ines")
    client.force_login(pull.author)
    url = find_news_url(client.get("/r/shop/pulls/1").content.decode())
    with CaptureQueriesContext(connection) as nothing:
        quiet = client.get(url)
    assert (quiet.status_code, quiet.content) == (204, b"")
    assert len(nothing) < 12
    services.add_comment(pull=pull, body="the second", by=other)
    answer = client.get(url)
    page = answer.content.decode()
    assert "the second" in page
    assert "the first" not in page
    assert "ines" in page
    assert "settled" in answer["HX-Trigger-After-Settle"]
    assert client.get(find_news_url(page)).status_code == 204
    stranger = Client()
    stranger.force_login(User.objects.get(pk=repositories.a_person().user_id))
    assert stranger.get(url).status_code == 404


def test_much_news_comes_a_page_at_a_time(pull: PullRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    client.force_login(pull.author)
    url = find_news_url(client.get("/r/shop/pulls/1").content.decode())
    monkeypatch.setattr(conversation, "ENTRIES", 2)
    texts = [f"number {number}" for number in range(5)]
    for text in texts:
        services.add_comment(pull=pull, body=text, by=repositories.maker_of(pull.repository))

    came = []
    while (answer := client.get(url)).status_code == 200:
        page = answer.content.decode()
        came.append([text for text in texts if text in page])
        url = find_news_url(page)

    assert came == [texts[:2], texts[2:4], texts[4:]]
    assert answer.status_code == 204


def test_an_older_page_of_the_timeline_asks_for_no_news(pull: PullRequest) -> None:
    client = Client()
    client.force_login(pull.author)
    assert "timeline-news" not in client.get("/r/shop/pulls/1?before=1").content.decode()


def test_the_merge_box_keeps_what_its_reader_has_chosen_and_seen(pull: PullRequest) -> None:
    client = Client()
    client.force_login(pull.author)
    seen = {"expected_head": "a" * 40, "method": "squash", "rebuild": "affected"}
    answer = client.get("/r/shop/pulls/1/merge-box", seen)
    box = answer.content.decode()
    assert "HX-Refresh" not in answer
    assert '<option value="squash" selected>' in box
    assert '<option value="affected" selected>' in box
    # what was pushed meanwhile has not been looked at: the merge is refused
    assert f'name="expected_head" value="{"a" * 40}"' in box


def find_news_url(page: str) -> str:
    match = re.search(r'id="timeline-news" hidden hx-get="([^"]+)"', page)
    assert match is not None
    return html.unescape(match[1])
