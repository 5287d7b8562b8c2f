"""What somebody points at is asked for before they click, and what they see is never older than what they did."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

pytestmark = pytest.mark.browser

PULL = "/r/nyc/pulls/1"
ROWS = f"{PULL}/data?dataset=/nyc/delays/daily&limit=25"


def is_preloaded(request: Request) -> bool:
    return request.resource_type == "fetch" and "x-preload" in request.headers


def rest_on(page: Page, selector: str) -> Request:
    """Point at a link until what it leads to is there."""
    with page.expect_event("requestfinished", is_preloaded) as event:
        page.hover(selector)
    return event.value


@pytest.mark.parametrize(
    ("path", "selector", "seen"),
    [
        (PULL, "#tab-schema", "#tab-schema[aria-current=page]"),
        (PULL, "#tab-data", "#row-diff tr.rd"),
        (ROWS, "#rows-next", "#rows-previous"),
    ],
    ids=["tab", "rows", "page"],
)
def test_a_click_finds_what_was_pointed_at(open_page: Callable[..., Page], path: str, selector: str, seen: str) -> None:
    page = open_page(path, refuses=True)
    rest_on(page, selector)

    page.context.set_offline(offline=True)
    page.locator(selector).click()

    expect(page.locator(seen).first).to_be_visible()


def test_the_keyboard_asks_for_what_it_rests_on(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL)
    page.locator("#tab-code").focus()

    with page.expect_event("requestfinished", is_preloaded):
        page.keyboard.press("Tab")


def test_what_was_sent_since_voids_what_was_asked_for(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{PULL}/code")
    before = rest_on(page, "#tab-data").headers["x-preload"]
    viewed = page.get_by_role("checkbox", name=re.compile("Viewed")).first
    with page.expect_response(lambda response: response.request.method == "POST"):
        viewed.click()

    with page.expect_request(lambda request: request.resource_type == "xhr" and "/data" in request.url) as asked:
        page.locator("#tab-data").click()

    assert asked.value.headers["x-preload"] != before
    expect(page.locator("#tab-data")).to_have_attribute("aria-current", "page")


def test_pointing_at_a_tab_leaves_what_is_being_written(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL)
    box = page.locator("#main textarea:visible").first
    box.fill("Half a sen")

    rest_on(page, "#tab-schema")

    expect(page).to_have_url(re.compile(f"{PULL}$"))
    expect(box).to_have_value("Half a sen")


def test_what_cannot_be_had_is_asked_for_by_the_click(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL, refuses=True)
    page.route("**/schema*", lambda route: route.abort() if is_preloaded(route.request) else route.continue_())

    with page.expect_event("requestfailed", is_preloaded):
        page.hover("#tab-schema")
    page.locator("#tab-schema").click()

    expect(page.locator("#tab-schema")).to_have_attribute("aria-current", "page")
