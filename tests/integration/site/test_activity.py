"""What happened lately, page by page: everything once, nothing of what the reader may not see."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from webapp.core import clock
from webapp.pulls.models import PullRequest, TimelineEvent
from webapp.pulls.services import open_pull
from webapp.repositories.models import Repository
from webapp.site.pages import activity

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
OLDER = re.compile(r'rel="next" href="\?before=([^"]+)"')


@pytest.fixture
def pulls(home: Path) -> tuple[PullRequest, PullRequest]:
    """One open pull request in each of two repositories, and no event of either."""
    opened = []
    for name in ("shop", "secret"):
        repository = make.a_repository(name)
        ines = make.a_member(repository, "writer", f"ines-{name}")
        make.a_branch(repository, "fix")
        make.a_commit(repository, {"notes.md": "x\n"}, branch="fix", by=ines)
        opened.append(open_pull(repository=repository, title="Fix", source="fix", target="master", by=ines))
    TimelineEvent.objects.all().delete()
    return opened[0], opened[1]


def happen(pull: PullRequest, *, seconds: list[int]) -> None:
    """Let people open it over and over, so many seconds ago."""
    now = clock.now()
    for number, ago in enumerate(seconds):
        TimelineEvent.objects.create(pull=pull, kind="opened", actor=f"{pull.repository.name}{number:03}-")
        TimelineEvent.objects.filter(actor=f"{pull.repository.name}{number:03}-").update(
            at=now - timedelta(seconds=ago)
        )


def walk(who: str, repository: Repository) -> list[list[str]]:
    """Return the actors of each page, from the newest to the oldest."""
    client = a_client(make.a_member(repository, "reader", who))
    pages, address = [], "/activity"
    while address:
        text = read_page(client, address)
        pages.append(re.findall(r"<b>(\w+)-</b>", text))
        older = OLDER.search(text)
        address = f"/activity?before={older[1]}" if older else ""
    return pages


def test_all_is_there_once_newest_first_and_what_is_of_one_moment_stays_together(
    pulls: tuple[PullRequest, PullRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "PAGE_SIZE", 5)
    happen(pulls[0], seconds=[1, 2, 3, 4, 5, 5, 5, 8, 9, 10, 11, 12])

    pages = walk("rita", pulls[0].repository)

    assert [len(page) for page in pages] == [4, 5, 3]
    assert sorted(sum(pages, [])) == [f"shop{number:03}" for number in range(12)]


def test_what_others_do_neither_shows_nor_ends_the_walk(
    pulls: tuple[PullRequest, PullRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "NEWEST", 4)
    happen(pulls[1], seconds=list(range(1, 10)))
    happen(pulls[0], seconds=[20, 30])

    pages = walk("rita", pulls[0].repository)

    assert [actor for page in pages for actor in page] == ["shop000", "shop001"]
    assert pages[0] == []


def test_no_time_is_refused_by_name(pulls: tuple[PullRequest, PullRequest]) -> None:
    client = a_client(make.a_member(pulls[0].repository, "reader", "rita"))
    for text in ("yesterday", "2026-02-30T00:00:00Z", "2026-02-03T00:00:00", "9999-12-31T23:59:59-12:00"):
        answer = client.get(f"/activity?{urlencode({'before': text})}")
        assert answer.status_code == 400
        assert "is no time in ISO 8601" in answer.content.decode()
