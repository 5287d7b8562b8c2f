"""Removals whose message offers to take them back."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group

from tests.factories import repositories as make
from tests.factories.clients import a_client
from webapp.accounts.models import RepositoryRole
from webapp.repositories.models import Protection
from webapp.repositories.services import create_branch, set_protection

if TYPE_CHECKING:
    from django.test import Client

    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def web(repository: Repository) -> Client:
    return a_client(make.maker_of(repository))


def act(web: Client, address: str, **fields: str) -> str:
    """Post a form, and return the page that follows."""
    return web.post(address, fields, follow=True).content.decode()


def undo(web: Client, page: str) -> str:
    """Press Undo on a page."""
    flash = re.search(r'<div class="flash flash--success".*?</form>', page, re.DOTALL)
    assert flash is not None, page
    [url] = re.findall(r'action="([^"]*)"', flash[0])
    fields = re.findall(r'name="([^"]*)" value="([^"]*)"', flash[0])
    return act(web, url, **{name: html.unescape(value) for name, value in fields if name != "csrfmiddlewaretoken"})


def test_a_removed_member_comes_back_with_the_role(web: Client, repository: Repository) -> None:
    make.a_member(repository, "maintainer", "mira")
    page = act(web, "/r/nyc/settings/members/remove", user="mira")
    assert not RepositoryRole.objects.filter(user__username="mira", repository="nyc").exists()
    assert "Saved." in undo(web, page)
    assert RepositoryRole.objects.get(user__username="mira", repository="nyc").role == "maintainer"


def test_a_removed_protection_comes_back_as_it_was(web: Client, repository: Repository) -> None:
    for name in ("data", "finance"):
        Group.objects.create(name=name)
    rules = [{"pattern": "pipelines/", "group": "finance", "approvals": 2}]
    set_protection(
        repository=repository, branch="master", approvals=2, groups=["data"], paths=rules, resolved_threads=True,
        owners=True, allow_bypass=False, by=make.maker_of(repository),
    )  # fmt: skip
    kept = ("approvals", "paths", "checks", "resolved_threads", "owners", "allow_bypass")
    before = Protection.objects.values(*kept, "groups__name").get()
    page = act(web, "/r/nyc/settings/protections/remove", branch="master")
    assert not Protection.objects.exists()
    undo(web, page)
    assert Protection.objects.values(*kept, "groups__name").get() == before


def test_a_deleted_branch_comes_back_at_its_commit(web: Client, repository: Repository) -> None:
    maker = make.maker_of(repository)
    make.a_branch(repository, "one", by=maker)
    create_branch(repository=repository, name="two", start_point="one", by=maker)
    head = make.a_commit(repository, {"a.txt": "a"}, branch="two", by=maker).sha
    for data in ("delete", "keep"):
        page = act(web, "/r/nyc/branches/delete", name="two", data=data)
        assert repository.git.find_head("two") is None
        assert "Branch two is back." in undo(web, page)
        assert repository.git.find_head("two") == head
        assert repository.branches.get(name="two").parent == "one"


def test_an_undo_that_is_too_late_says_why(web: Client, repository: Repository) -> None:
    make.a_branch(repository, "one")
    page = act(web, "/r/nyc/branches/delete", name="one", data="keep")
    undo(web, page)
    assert "exists already" in undo(web, page)
