"""What pages say of how many there are, where there are more than one page shows."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page, read_pages
from tests.factories.histories import import_line
from webapp.accounts.models import User
from webapp.builds.models import Build
from webapp.pulls import services
from webapp.pulls.models import PullRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from rest_framework.test import APIClient

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"
FIRST, PUSHED = 130, 260


@pytest.fixture
def shop(ines: Principal, silent_bell: None) -> Repository:
    """A repository with a branch of many commits."""
    shop = make.a_repository("shop", by=ines)
    make.a_branch(shop, "feature", by=ines)
    import_line(shop, branch="feature", commits=FIRST)
    return shop


def find_total(page: str, title: str) -> str:
    """The number beside a heading."""
    heading = re.search(rf"<h2[^>]*>{title}</h2>\s*<span class=\"count\">([\d,]+)</span>", page)
    assert heading, title
    return heading[1]


def test_every_commit_of_a_pull_request_is_counted_and_can_be_turned_to(
    shop: Repository, ines: Principal, api_client: Callable[..., APIClient]
) -> None:
    client = a_client(ines)
    new = read_page(client, "/r/shop/pulls/new?source=feature&target=master")
    assert find_total(new, "Commits") == str(FIRST)
    assert "of which the newest 100 are listed" in new
    pull = services.open_pull(repository=shop, title="Many", source="feature", target="master", by=ines)
    import_line(shop, branch="feature", commits=PUSHED)
    services.refresh_pull(pull=pull)
    conversation = read_page(client, PAGE)
    assert f"opened it with {FIRST} commits" in conversation
    assert f"pushed {PUSHED} commits" in conversation
    assert f"Of {PUSHED} commits the newest 20." in conversation
    total = FIRST + PUSHED
    pages = [read_page(client, f"{PAGE}/commits?page={number}") for number in (1, 2, 3, 4)]
    assert {find_total(page, "Commits") for page in pages} == {str(total)}
    # only the head is published, and both tabs say so in the same words
    assert conversation.count("overtaken by a later commit") == 20 + 20 - 1
    assert [page.count("overtaken by a later commit") for page in pages] == [99, 100, 100, total - 300]
    assert "being published</span>" in pages[0]
    assert "Not published" not in "".join(pages)
    assert "301–390 of 390" in pages[-1]
    shown = [sha for page in pages for sha in re.findall(r'class="strong" href="/r/shop/commit/([0-9a-f]{40})"', page)]
    assert len(set(shown)) == len(shown) == total
    asker = api_client(User.objects.get(username="ines"))
    commits = chain.from_iterable(read_pages(asker, "/api/v1/repositories/shop/pulls/1/commits?limit=200"))
    assert [commit["sha"] for commit in commits] == shown


def test_every_build_of_a_pull_request_is_counted_and_can_be_turned_to(shop: Repository, ines: Principal) -> None:
    services.open_pull(repository=shop, title="Many", source="feature", target="master", by=ines)
    by = User.objects.get(username="ines")
    Build.objects.bulk_create(
        Build(repository=shop, branch="feature", kind="run", sha="0" * 40, chain=["master"], targets=["/shop/x"], by=by)
        for _ in range(120)
    )
    client = a_client(ines)
    pages = [read_page(client, f"{PAGE}/builds?page={number}") for number in (1, 2, 3)]
    assert {find_total(page, "Builds of feature") for page in pages} == {"120"}
    assert "101–120 of 120" in pages[-1]
    shown = [number for page in pages for number in re.findall(r'class="strong" href="/builds/(\d+)"', page)]
    assert len(set(shown)) == len(shown) == 120


def test_a_folder_says_that_there_are_more_commits_than_it_counts(
    shop: Repository, ines: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = a_client(ines)
    assert f"{FIRST + 1} commits" in read_page(client, "/r/shop/tree/feature")
    monkeypatch.setattr("webapp.repositories.pages.files.MOST_COUNTED", 100)
    assert "100+ commits" in read_page(client, "/r/shop/tree/feature")


def test_beside_the_files_all_open_pull_requests_are_counted(shop: Repository, ines: Principal) -> None:
    sha = shop.git.get_head("feature")
    PullRequest.objects.bulk_create(
        PullRequest(
            repository=shop,
            number=number,
            title=f"Change {number}",
            source=f"feature-{number}",
            target="master",
            author_id=ines.user_id,
            head_sha=sha,
            base_sha=sha,
        )
        for number in range(1, 31)
    )
    page = read_page(a_client(ines), "/r/shop/pulls?fragment=sidebar")
    assert '<span class="count">30</span>' in page
    assert page.count('class="strong"') == 5
