"""Commits of a history are found by message, hash and author: by their rows, or by Git where there are none, alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.factories import repositories as make
from tests.factories.pages import read_page
from webapp.accounts.models import User
from webapp.repositories import queries
from webapp.repositories.models import Commit
from webapp.repositories.queries import CommitFilter

if TYPE_CHECKING:
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("silent_bell")]
PATH = "delays.md"


@pytest.fixture
def repository(home: object) -> Repository:
    """A repository in which ines counts delays and mira ends a file of them."""
    ines, mira = make.a_person("ines"), make.a_person("mira", is_admin=True)
    User.objects.filter(username="mira").update(email="M.Holm@example.org")
    repository = make.a_repository("shop", by=ines)
    make.a_commit(repository, {PATH: "1\n"}, message="Count delays\n\nBy carrier, not by day.", by=ines)
    make.a_commit(repository, {PATH: "2\n"}, message="Count 100% of delays", by=ines)
    make.a_commit(repository, {"other.md": "3\n"}, message="Write about carriers", by=mira)
    return repository


@pytest.fixture(params=["rows", "Git"])
def told_by(request: pytest.FixtureRequest, repository: Repository) -> str:
    """Say what is read, and leave no rows where it is Git."""
    if request.param == "Git":
        Commit.objects.all().delete()
    return str(request.param)


def find(repository: Repository, **wanted: str) -> list[str]:
    commits = queries.list_commits(repository, "master", filters=CommitFilter(**wanted))
    return [commit.subject for commit in commits]


@pytest.mark.usefixtures("told_by")
@pytest.mark.parametrize(
    ("wanted", "subjects"),
    [
        ({"q": "COUNT"}, ["Count 100% of delays", "Count delays"]),
        ({"q": "by carrier"}, ["Count delays"]),
        ({"q": "carrier"}, ["Write about carriers", "Count delays"]),
        ({"q": "100%"}, ["Count 100% of delays"]),
        ({"q": "1__%"}, []),
        ({"author": "mira"}, ["Write about carriers"]),
        ({"author": "m.holm@"}, ["Write about carriers"]),
        ({"author": "nobody"}, []),
        ({"q": "carrier", "author": "ines"}, ["Count delays"]),
        ({"q": "count", "path": PATH}, ["Count 100% of delays", "Count delays"]),
        ({"author": "mira", "path": PATH}, []),
    ],
)
def test_commits_are_found_by_what_they_say(
    repository: Repository, wanted: dict[str, str], subjects: list[str]
) -> None:
    assert find(repository, **wanted) == subjects


@pytest.mark.usefixtures("told_by")
def test_a_commit_is_found_by_how_its_hash_begins(repository: Repository) -> None:
    newest = queries.list_commits(repository, "master")[0]

    assert find(repository, q=newest.sha[:9].upper()) == [newest.subject]


def test_the_page_and_rest_find_the_same_and_keep_what_is_asked(repository: Repository) -> None:
    browser = Client()
    browser.force_login(User.objects.get(username="ines"))
    for number in range(60):
        make.a_commit(repository, {PATH: f"{number + 10}\n"}, message=f"Count again, {number}")

    page = read_page(browser.get("/r/shop/commits/master", {"q": "again", "author": "ines", "path": PATH}))
    nothing = read_page(browser.get("/r/shop/commits/master", {"q": "never"}))
    rest = browser.get("/api/v1/repositories/shop/commits", {"q": "again", "limit": 5}).json()

    assert "Count again, 59" in page
    assert "Write about carriers" not in page
    assert "?page=2&amp;path=delays.md&amp;q=again&amp;author=ines" in page
    assert "Nothing found" in nothing
    assert [commit["message"].strip() for commit in rest["results"]] == [f"Count again, {59 - n}" for n in range(5)]
    assert "q=again" in rest["next"]
