"""Search finds sections of the guide, beside what has a name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.factories import datasets as make_data

if TYPE_CHECKING:
    from django.test import Client

    from webapp.accounts.models import User

pytestmark = pytest.mark.django_db
SECTION = re.compile(r'<a class="strong" href="(/guide[^"]*#[^"]+)">([^<]+)</a>')


def test_sections_of_the_guide_are_found_by_all_words_headings_first(admin_client: Client) -> None:
    found = SECTION.findall(admin_client.get("/search", {"q": "MERG target"}).content.decode())
    assert found
    for url, title in found:
        page = admin_client.get(url.partition("#")[0]).content.decode()
        assert f'id="{url.partition("#")[2]}"' in page
        assert title in page


def test_a_section_with_the_word_in_its_heading_comes_first(admin_client: Client) -> None:
    titles = [title for _, title in SECTION.findall(admin_client.get("/search", {"q": "merg"}).content.decode())]
    in_heading = ["merg" in title.lower() for title in titles]
    assert in_heading[0]
    assert not in_heading[-1]
    assert in_heading == sorted(in_heading, reverse=True)


def test_an_excerpt_shows_the_words_and_is_escaped(admin_client: Client) -> None:
    page = admin_client.get("/search", {"q": "write_table("}).content.decode()
    assert "write_table(" in page
    assert "a number of approvals" in admin_client.get("/search", {"q": "approvals groups"}).content.decode()
    nothing = admin_client.get("/search", {"q": "<b>zzyzx"}).content.decode()
    assert "<b>zzyzx" not in nothing
    assert "Nothing found" in nothing


def test_it_says_how_many_there_are_and_where_the_others_are(admin_client: Client, admin_user: User) -> None:
    for number in range(23):
        make_data.a_dataset(f"/shop/delays{number}", by=admin_user)
    page = admin_client.get("/search", {"q": "delays"}).content.decode()
    assert re.search(r'id="s-d">Datasets</h2>\s*<span class="count">23</span>', page)
    assert re.search(r'20 of 23 datasets:\s*<a href="/datasets\?q=delays">all of them</a>', page)
    assert admin_client.get("/datasets", {"q": "delays"}).content.decode().count("/shop/delays") >= 23
