"""What is asked for in place: one that takes long says so, one that fails says why and is asked for once more by a button."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.browser

PULL = "/r/nyc/pulls/1"
DATA = f"{PULL}/data?dataset=/nyc/delays/daily&limit=25"
PATIENCE_MS = 300
NOTE_PATIENCE = """() => {
  const bar = document.getElementById('waiting');
  document.addEventListener('htmx:beforeSend', () => { window.sent ??= performance.now(); });
  new MutationObserver(() => { window.patience ??= performance.now() - window.sent; }).observe(bar, { attributes: true });
}"""


def press_next(page: Page) -> None:
    page.locator("#rows-next").click()


def see_next(page: Page) -> None:
    expect(page.get_by_role("navigation", name="Pages of rows")).to_contain_text("Rows 26–50 of")


def filter_rows(page: Page) -> None:
    page.get_by_role("searchbox", name="Find rows").fill("carrier = UA")
    page.keyboard.press("Enter")


def see_filtered(page: Page) -> None:
    expect(page.locator("tr.rd th:nth-of-type(2)").first).to_have_text("UA")


def go_to_schema(page: Page) -> None:
    page.keyboard.press("g")
    page.keyboard.press("s")


def see_schema(page: Page) -> None:
    expect(page).to_have_title(re.compile("Schema"))


@pytest.mark.parametrize(
    ("path", "ask", "see"),
    [(DATA, press_next, see_next), (DATA, filter_rows, see_filtered), (PULL, go_to_schema, see_schema)],
    ids=["page", "filter", "tab"],
)
def test_what_takes_long_says_so_and_what_fails_is_asked_for_again(
    open_page: Callable[..., Page], path: str, ask: Callable[[Page], None], see: Callable[[Page], None]
) -> None:
    page = open_page(path, refuses=True)
    page.wait_for_load_state("networkidle")
    waiting, alert = page.locator("#waiting"), page.locator("#live-flash")
    held: list[Route] = []
    page.route("**/*", lambda route: held.append(route) if "hx-request" in route.request.headers else route.continue_())

    page.evaluate(NOTE_PATIENCE)
    ask(page)
    expect(waiting).to_be_visible()
    assert page.evaluate("window.patience") >= PATIENCE_MS - 5, "what is there at once shows nothing else before"
    expect(waiting).to_have_text("Loading")
    answer(held, lambda route: route.fulfill(status=500, headers={"X-Request-Id": "abc-1"}, body="no page"))
    expect(waiting).to_be_hidden()
    expect(alert).to_contain_text("The server answered 500. Nothing was changed. Request abc-1.")
    expect(alert).to_be_in_viewport(ratio=1)

    alert.get_by_role("button", name="Try again").click()
    expect(waiting).to_be_visible()
    answer(held, lambda route: route.abort())
    expect(alert).to_contain_text("The server did not answer. Nothing was changed.")

    alert.get_by_role("button", name="Try again").click()
    expect(waiting).to_be_visible()
    answer(held, lambda route: route.continue_())
    page.unroute_all(behavior="ignoreErrors")
    see(page)
    expect(waiting).to_be_hidden()
    expect(alert).to_be_hidden()


def test_a_question_whose_asker_is_gone_is_asked_by_loading_the_page(open_page: Callable[..., Page]) -> None:
    page = open_page(DATA, refuses=True)
    page.route("**/*", lambda route: route.abort() if "hx-request" in route.request.headers else route.continue_())
    press_next(page)
    again = page.locator("#live-flash").get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    page.evaluate("window.isSame = true")
    page.locator("#row-diff").evaluate("(rows) => rows.replaceWith(rows.cloneNode(true))")
    again.click()
    expect(again).to_be_hidden()
    assert page.evaluate("window.isSame") is None


def answer(held: list[Route], end: Callable[[Route], None]) -> None:
    assert held
    while held:
        end(held.pop())


def test_of_what_was_sent_nobody_says_that_nothing_came_of_it(open_page: Callable[..., Page]) -> None:
    page = open_page("/r/nyc/edit/master/pipelines/delays.py", refuses=True)
    page.route("**/preview/**", lambda route: route.abort())
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(page.locator("#live-flash")).to_contain_text("What you sent may have arrived: reload the page to see.")
    expect(page.locator("#live-flash").get_by_role("button")).to_be_hidden()
