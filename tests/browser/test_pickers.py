"""Pickers of more names than they list, by keys alone: what is typed finds the others, Enter takes the first."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import requests
from playwright.sync_api import expect

from webapp.core.choices import MOST_CHOICES

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.factories.installation import Installation

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

REPOSITORY = "many-branches"
LAST = f"try/{MOST_CHOICES + 9}"
"""Too far down to be listed before something is typed."""


@pytest.fixture(scope="module")
def many(installation: Installation) -> str:
    """Return the page of a repository with more branches than a picker lists."""
    headers = {"Authorization": f"Bearer {installation.make_token()}"}
    repositories = f"{installation.api}/repositories"
    branches = f"{repositories}/{REPOSITORY}/branches"
    orders = [(repositories, {"name": REPOSITORY, "template": "empty"})]
    orders += [(branches, {"name": f"try/{number:02d}"}) for number in range(MOST_CHOICES + 10)]
    for url, body in orders:
        answer = requests.post(url, json=body, headers=headers, timeout=60)
        assert answer.status_code == 201, answer.text
    return f"/r/{REPOSITORY}"


def test_a_branch_far_down_is_found_and_opened_by_keys(many: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{many}/", who="admin")
    page.keyboard.press("w")
    expect(page.get_by_label("Find a branch", exact=True)).to_be_focused()
    listed = page.locator("#bp-list [data-item]")
    expect(listed).to_have_count(MOST_CHOICES)
    expect(page.locator("#bp-list")).to_contain_text("11 more: type a part of the name")
    page.keyboard.type("nothing of that name")
    expect(page.locator("#bp-list").get_by_role("status")).to_have_text("No branch of that name")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+a")
    page.keyboard.type(LAST)
    expect(listed).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{many}/tree/{LAST}")


def test_enter_waits_for_the_answer_to_what_was_typed(many: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{many}/", who="admin")
    page.keyboard.press("w")
    page.keyboard.type(LAST)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{many}/tree/{LAST}")


def test_a_select_takes_what_is_found_and_sends_its_form(many: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{many}/pulls/new", who="admin")
    field = page.get_by_label("Find a branch to merge", exact=True)
    field.focus()
    page.keyboard.type(LAST)
    expect(page.get_by_label("from", exact=True).locator("option")).to_have_text([LAST])
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"[?&]source={re.escape(LAST).replace('/', '(%2F|/)')}"))
    expect(page.get_by_label("from", exact=True)).to_have_value(LAST)
    expect(page.get_by_label("Into", exact=True)).to_have_value("master")
