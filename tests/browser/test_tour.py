"""A newcomer takes the tour of the demo, and ends it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from webapp.site.pages.tour import STOPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
SEEN = (
    'text=spark.table("t.nyc.delays.daily")',
    "table.diff",
    "tr.rd",
    "#merge-box",
    "text=feature/cancelled-flights",
)
"""What is on each page of what its step speaks of."""


def test_a_newcomer_walks_the_demo_in_five_steps_and_is_not_asked_again(open_page: Callable[..., Page]) -> None:
    page = open_page("/", who="olek")
    page.get_by_role("link", name="Take the tour").click()
    for number, (stop, seen) in enumerate(zip(STOPS, SEEN, strict=True), start=1):
        expect(page.get_by_role("region", name=stop.title)).to_contain_text(f"step {number} of {len(STOPS)}")
        expect(page.locator(seen).first).to_be_visible()
        if number < len(STOPS):
            page.get_by_role("link", name="Next", exact=True).first.click()
    page.get_by_role("link", name="Back", exact=True).click()
    expect(page.get_by_text("step 4 of 5")).to_be_visible()
    page.get_by_role("button", name="End the tour").click()
    expect(page).to_have_url(re.compile(r"/$"))
    expect(page.get_by_role("heading", name="Waiting for me")).to_be_visible()
    expect(page.get_by_role("link", name="Take the tour")).to_have_count(0)
