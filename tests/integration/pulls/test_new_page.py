"""The page that opens a pull request: which branches it offers, and what it proposes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from tests.factories import repositories
from tests.factories.pages import read_page
from webapp.pulls import services
from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def repository(home: Any) -> Repository:
    """Return a repository with a branch that has something to merge and one that has not."""
    repository = repositories.a_repository("shop")
    repositories.a_branch(repository, "feature")
    repositories.a_commit(repository, {"a.txt": "1"}, branch="feature", message="Count late flights\n\nWith care.")
    repositories.a_branch(repository, "idle")
    return repository


@pytest.fixture
def page_client(repository: Repository) -> Client:
    """Return the signed-in browser of the maintainer."""
    assert repository.created_by is not None
    client = Client()
    client.force_login(repository.created_by)
    return client


def test_new_page_lists_the_branches_that_have_something_to_merge(repository: Repository, page_client: Client) -> None:
    page = read_page(page_client.get("/r/shop/pulls/new"))
    assert "Recent branches" in page
    assert re.findall(r"source=([^\"&]+)", page) == ["feature"]
    assert "Count late flights" in page
    assert "1 commit ahead of master" in page
    with_scripts = re.sub(r"<noscript>.*?</noscript>", "", page, flags=re.DOTALL)
    assert ">Compare</button>" not in with_scripts
    maker = repositories.maker_of(repository)
    pull = services.open_pull(repository=repository, source="feature", target="master", title="T", by=maker)
    assert f"open as #{pull.number}" in read_page(page_client.get("/r/shop/pulls/new"))


def test_new_page_calls_people_as_every_page_does(repository: Repository, page_client: Client) -> None:
    maker = repository.created_by
    assert maker is not None
    maker.first_name = "Somebody"
    maker.save()
    commit = repositories.a_commit(repository, {"b.txt": "1"}, branch="feature")
    assert commit.author.name == "Somebody"

    page = read_page(page_client.get("/r/shop/pulls/new"))

    assert "Somebody" not in page
    assert f"{maker.username}," in page


def test_selects_of_many_branches_list_the_first_and_what_is_chosen(
    repository: Repository, page_client: Client
) -> None:
    head = repository.git.get_head("master")
    for number in range(60):
        repository.git.create_branch(f"many/{number:02}", head)
    page = read_page(page_client.get("/r/shop/pulls/new?source=many/59"))
    into, source = re.findall(r"<select.*?</select>", page, flags=re.DOTALL)
    assert len(re.findall(r"<option\b", into)) == 51  # with the line that counts the others
    assert "13 more: type a part of the name" in into
    assert "<option selected>many/59</option>" in source
    assert "many/58" not in page
    assert page.count('hx-get="/r/shop/branches/options?view=select"') == 2
    few = repositories.a_repository("few", by=repositories.maker_of(repository))
    assert "branches/options" not in read_page(page_client.get(f"/r/{few.name}/pulls/new"))


def test_new_page_asks_for_a_branch_where_none_has_anything_to_merge(
    repository: Repository, page_client: Client
) -> None:
    page = read_page(page_client.get("/r/shop/pulls/new?target=feature"))
    assert "Recent branches" not in page
    assert "Choose the branch to merge." in page


def test_proposed_title_is_that_of_the_first_commit(repository: Repository, page_client: Client) -> None:
    address = "/r/shop/pulls/new?source=feature"
    assert read_title(page_client.get(address)) == "Count late flights"
    repositories.a_commit(repository, {"a.txt": "2"}, branch="feature", message="Mend a typing error")
    assert read_title(page_client.get(address)) == "Count late flights"


def read_title(answer: Any) -> str:
    """Return what the form proposes."""
    page = read_page(answer)
    field = next(tag for tag in re.findall(r"<input[^>]*>", page) if 'name="title"' in tag)
    value = re.search(r'value="([^"]*)"', field)
    return value[1] if value else ""


@pytest.mark.parametrize("path", [".tributary/pull_request.md", "PULL_REQUEST.md"])
def test_the_text_begins_with_the_template_of_the_target(
    repository: Repository, page_client: Client, path: str
) -> None:
    address = "/r/shop/pulls/new?source=feature"
    assert page_client.get(address).context["form"].initial["body"] == "With care."
    repositories.a_commit(repository, {path: "## What\n\n## Why <b>\n"})
    repositories.a_commit(repository, {path: "from the source\n"}, branch="feature", message="Take no part")

    page = page_client.get(address)
    assert page.context["form"].initial["body"] == "## What\n\n## Why <b>"
    assert "## Why &lt;b&gt;</textarea>" in read_page(page)
