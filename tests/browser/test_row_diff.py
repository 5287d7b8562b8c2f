"""The row diff of a pull request: its rows change in place, its headings stay, its anchors are seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

DATA = "/r/nyc/pulls/1/data?dataset=/nyc/delays/daily"
COMPARE = "/d/nyc/delays/daily?tab=compare&from=master&to=feature/cancelled-flights"
HEADINGS_ON_TOP = """() => [...document.querySelectorAll('table.rows thead th')].map((heading) => {
  const box = heading.getBoundingClientRect();
  const shown = document.elementFromPoint(box.left + box.width / 2, box.top + 8);
  return !shown?.closest('table.rows') || shown.closest('thead') !== null;
})"""
TOP_OF_ROW = """(row) => {
  const box = row.getBoundingClientRect();
  return document.elementFromPoint(box.left + 40, box.top + box.height / 2)?.closest('tr') === row;
}"""
IS_ON_TOP = """(element) => {
  const box = element.getBoundingClientRect();
  const shown = document.elementFromPoint(box.left + Math.min(box.width / 2, 40), box.top + box.height / 2);
  return box.top >= 0 && box.bottom <= innerHeight && element.contains(shown);
}"""
SCROLL = """(element, top) => {
  element.scrollTo(80, top);
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
"""The key is pinned from the first frame on in which rows are scrolled to the right."""
TOP_OF_DIFF = "document.querySelector('#row-diff').getBoundingClientRect().top"
"""What is above may arrive late: the browser then scrolls on its own, so that the reader sees the same."""
PRESS = "(link) => { link.focus({preventScroll: true}); link.click(); }"


def press_in_place(link: Locator, has_changed: Callable[[], None]) -> None:
    """Press what is seen: the page stays the same one, where it is."""
    page = link.page
    page.wait_for_load_state("networkidle")
    link.scroll_into_view_if_needed()
    page.evaluate("window.isSame = true")
    top = page.evaluate(TOP_OF_DIFF)
    link.evaluate(PRESS)
    has_changed()
    assert page.evaluate("window.isSame")
    assert page.evaluate(TOP_OF_DIFF) == pytest.approx(top, abs=1)


def test_filters_pages_and_columns_change_the_rows_in_place(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{DATA}&limit=25", looks=True)
    pager = page.get_by_role("navigation", name="Pages of rows")
    kinds = page.get_by_role("navigation", name="Kind of change")
    press_in_place(page.locator("#rows-next"), lambda: expect(pager).to_contain_text("Rows 26–50 of"))
    expect(page.locator("#rows-next")).to_be_focused()
    changed = kinds.get_by_role("link", name=re.compile("Changed"))
    press_in_place(changed, lambda: expect(pager).to_contain_text("Rows 1–25 of"))
    expect(page).to_have_url(re.compile("change=updated"))
    columns = page.locator("#rows-columns")
    press_in_place(columns, lambda: expect(page).to_have_url(re.compile("columns=")))
    chosen = page.locator(".chip[aria-current]")
    press_in_place(page.locator(".chip").first, lambda: expect(chosen).to_have_count(1))
    page.get_by_role("searchbox", name="Find rows").fill("carrier = UA")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=carrier"))
    expect(page.locator("tr.rd th:nth-of-type(2)").first).to_have_text("UA")
    assert page.evaluate("window.isSame")
    page.go_back()
    expect(page.get_by_role("searchbox", name="Find rows")).to_have_value("")
    expect(chosen).to_have_count(1)


def test_compare_tab_changes_its_rows_in_place(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{COMPARE}&limit=25", looks=True)
    pager = page.get_by_role("navigation", name="Pages of rows")
    kinds = page.get_by_role("navigation", name="Kind of change")
    expect(pager).to_contain_text("Rows 1–25 of", timeout=60_000)
    press_in_place(page.locator("#rows-next"), lambda: expect(pager).to_contain_text("Rows 26–50 of"))
    changed = kinds.get_by_role("link", name=re.compile("Changed"))
    press_in_place(changed, lambda: expect(pager).to_contain_text("Rows 1–25 of"))
    expect(page).to_have_url(re.compile(r"/d/nyc/delays/daily\?.*change=updated"))
    press_in_place(
        pager.get_by_role("link", name="50", exact=True), lambda: expect(page).to_have_url(re.compile("=50"))
    )
    page.get_by_role("searchbox", name="Find rows").fill("carrier = UA")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=carrier"))
    expect(page.locator("tr.rd th:nth-of-type(2)").first).to_have_text("UA")
    assert page.evaluate("window.isSame")
    page.reload()
    expect(page.locator("tr.rd th:nth-of-type(2)").first).to_have_text("UA")


@pytest.mark.parametrize("width", [1400, 600])
def test_headings_stay_above_the_rows_that_scroll(open_page: Callable[..., Page], width: int) -> None:
    page = open_page(f"{DATA}&limit=100&columns=all", viewport={"width": width, "height": 1000}, looks=True)
    body = page.locator(".rows-body")
    body.scroll_into_view_if_needed()
    for left, top in ((0, 900), (60, 900), (60, 2000)):
        body.evaluate("(element, [left, top]) => element.scrollTo(left, top)", [left, top])
        assert all(page.evaluate(HEADINGS_ON_TOP))


@pytest.mark.parametrize("height", [1000, 720])
def test_tabs_dataset_headings_and_key_stay_while_page_and_rows_are_scrolled(
    open_page: Callable[..., Page], height: int
) -> None:
    page = open_page(f"{DATA}&limit=100&columns=all", viewport={"width": 1000, "height": height}, looks=True)
    rows = page.locator(".rows-body")
    key = page.locator("tr[data-key] > th.key:nth-of-type(1)").nth(60)
    left = key.evaluate("(cell) => cell.getBoundingClientRect().left")
    place = key.evaluate("(cell) => cell.offsetTop") - 150
    for down in (0.5, 1):
        page.evaluate(f"scrollTo(0, {down} * document.documentElement.scrollHeight)")
        rows.evaluate(SCROLL, place)
        for name in (
            "#page-tabs [aria-current]",
            "#dataset-title",
            "table.rows thead th.key",
            "table.rows thead th.num",
        ):
            assert page.locator(name).first.evaluate(IS_ON_TOP), f"{name} is out of sight at {down}"
        assert key.evaluate(IS_ON_TOP)
        assert key.evaluate("(cell) => cell.getBoundingClientRect().left") == pytest.approx(left, abs=1)


def test_a_wide_table_shows_what_differs_and_other_columns_by_their_chips(open_page: Callable[..., Page]) -> None:
    page = open_page("/r/nyc/pulls/1/data?dataset=/nyc/clean/flights", looks=True)
    headings = page.locator("table.rows thead th")
    few, hidden = headings.count(), page.locator("[id^=rows-quiet]").count()
    assert hidden > 0
    press_in_place(page.locator("#rows-quiet-1"), lambda: expect(headings).to_have_count(few + 1))
    expect(page).to_have_url(re.compile("also="))
    press_in_place(page.locator("#rows-quiet-1[aria-current]"), lambda: expect(headings).to_have_count(few))
    press_in_place(page.locator("#rows-columns"), lambda: expect(headings).to_have_count(few + hidden))


def test_the_row_of_an_anchor_is_seen(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{DATA}&limit=100#row-60")
    expect(page.locator("#row-60")).to_be_in_viewport()
    assert page.locator("#row-60").evaluate(TOP_OF_ROW)


def test_the_key_of_a_row_is_its_address_and_a_comment_there_has_a_preview(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{DATA}&change=updated&limit=25", who="olek")
    page.locator("tr[data-key] th.key a").nth(20).click()
    expect(page).to_have_url(re.compile("change=updated.*row="))
    expect(page.locator("tr.sought")).to_be_focused()
    page.wait_for_load_state()  # the browser gives focus before the scripts hear keys
    page.keyboard.press("c")
    page.keyboard.type("late")
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+b")
    preview = page.get_by_role("button", name="Preview")
    preview.click()
    expect(page.get_by_role("region", name="Preview").locator("strong")).to_have_text("late")
    preview.click()
    expect(page.locator("#remark-body")).to_have_value("**late**")
    page.get_by_role("link", name="Rows like this one").click()
    expect(page).to_have_url(re.compile("like="))
    expect(page.get_by_text("Only rows that changed as")).to_be_visible()
