"""Small files that take long to colour, compare or render: the pages that show them answer soon, with plain text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.factories import repositories as make
from webapp.accounts.models import User
from webapp.core.budgets import PAGE_S
from webapp.git.diff import MAX_LINE

if TYPE_CHECKING:
    from django.test import Client

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
SOON_S = PAGE_S + 6
"""The budget of a page, and the rest of its work on a busy host."""
BLANK = " \n" * 50_000
LEXED = {
    "blank.py": BLANK,
    "spaces.ini": " " * 100_000,
    "signs.xml": "<" * 100_000,
    "dashes.yaml": "- " * 50_000,
    "numbers.py": "1+" * 50_000,
}
RENDERED = {
    "images.md": "![" * 50_000,
    "cells.md": "|a" * 20_000 + "\n" + "|-" * 20_000 + "\n" + "|a|a|a\n" * 5_000,
    "code.md": f"```py\n{BLANK}\n```\n",
}


@pytest.fixture
def repository(ines: Principal) -> Repository:
    return make.a_repository("shop", by=ines)


@pytest.fixture
def reader(repository: Repository, client: Client) -> Client:
    client.force_login(User.objects.get(pk=make.a_member(repository, "reader").user_id))
    return client


def get_soon(client: Client, address: str) -> None:
    began = time.monotonic()
    response = client.get(address)
    assert response.status_code == 200
    assert time.monotonic() - began < SOON_S, address


@pytest.mark.parametrize("name", [*LEXED, *RENDERED])
def test_a_file_that_takes_long_to_decorate_is_plain(
    name: str, repository: Repository, ines: Principal, reader: Client
) -> None:
    make.a_commit(repository, {name: {**LEXED, **RENDERED}[name]}, by=ines)
    get_soon(reader, f"/r/shop/blob/master/{name}")


@pytest.mark.parametrize(("before", "after"), [("a.", "a,"), (".:,", ",:."), ("1+", "1-")])
def test_long_lines_that_differ_in_each_word_are_compared_soon(
    before: str, after: str, repository: Repository, ines: Principal, reader: Client
) -> None:
    long = (MAX_LINE - 21) // len(before)
    make.a_commit(repository, {"a.py": f"{before * long}\n" * 200}, by=ines)
    commit = make.a_commit(repository, {"a.py": f"{after * long}\n" * 200}, by=ines)
    get_soon(reader, f"/r/shop/commit/{commit.sha}")


def test_a_long_changed_seed_is_cut_before_it_is_decorated(
    repository: Repository, ines: Principal, reader: Client
) -> None:
    make.a_commit(repository, {"s.csv": "".join(f"{n},{n * 7},name {n},{n}\n" for n in range(9_900))}, by=ines)
    commit = make.a_commit(
        repository, {"s.csv": "".join(f"{n},{n * 7},name {n},{n + 1}\n" for n in range(9_900))}, by=ines
    )
    get_soon(reader, f"/r/shop/commit/{commit.sha}")
