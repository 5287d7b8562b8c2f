"""Where things stand, as boxes of a real browser: popovers, lists, the end of a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Locator, Page

pytestmark = pytest.mark.browser

PULL = "/r/nyc/pulls/1"
DATA = f"{PULL}/data?dataset=/nyc/delays/daily"
WIDE, NARROW = 1400, 400


def measure(element: Locator) -> FloatRect:
    """Return the box of an element that is shown."""
    box = element.bounding_box()
    assert box is not None, f"{element} is not shown"
    return box


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_review_is_written_in_a_form_of_full_width(width: int, open_page: Callable[..., Page]) -> None:
    page = open_page(PULL, viewport={"width": width, "height": 1000}, looks=True)
    page.locator("details.picker > summary", has_text="Review").click()
    popover = measure(page.locator(".popover", has_text="Submit review"))
    text = measure(page.get_by_label("Your review"))
    assert text["width"] > popover["width"] - 48
    assert text["height"] > 80
    for choice in page.get_by_role("group", name="Verdict").locator("label").all():
        radio, word, note = (measure(choice.locator(name)) for name in ("input", "b", ".sub"))
        assert 6 <= word["x"] - radio["x"] - radio["width"] <= 16, "a radio button is glued to its label"
        assert note["x"] == word["x"]
        assert note["y"] >= word["y"] + word["height"] - 1
        assert abs(radio["y"] + radio["height"] / 2 - word["y"] - word["height"] / 2) <= 4
    send = measure(page.get_by_role("button", name="Submit review"))
    assert send["x"] + send["width"] <= popover["x"] + popover["width"]


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("path", [PULL, DATA, "/r/nyc/blob/master/README.md", "/r/nyc/", "/d/nyc/delays/daily"])
def test_popovers_stay_inside_of_the_window(path: str, width: int, open_page: Callable[..., Page]) -> None:
    page = open_page(path, viewport={"width": width, "height": 1000}, looks=True)
    menus = page.locator("details.picker > summary:visible")
    assert menus.count() > 0
    for menu in menus.all():
        menu.click()
        popover = page.locator("details.picker[open] > .popover")
        expect(popover).to_have_count(1)
        box, button = measure(popover), measure(menu)
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert 0 <= box["y"] - button["y"] - button["height"] <= 16, "a popover is not below its button"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("Escape")


def test_a_row_diff_without_a_key_fits_a_narrow_window(open_page: Callable[..., Page]) -> None:
    """What is said of it in place of the key is a whole sentence, which has to wrap."""
    page = open_page(DATA, viewport={"width": NARROW, "height": 1000}, looks=True)
    key = page.locator("#row-diff .stat > .muted").last
    key.evaluate("(it) => { it.textContent = 'net changes: no key, so a changed row is one removed and one added' }")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW


def test_the_header_of_a_narrow_window_takes_two_rows(open_page: Callable[..., Page]) -> None:
    page = open_page("/", viewport={"width": NARROW, "height": 850}, looks=True)
    parts = [measure(part) for part in page.locator(".top > :visible").all()]
    first = min(parts, key=lambda part: part["y"])
    below = [part["y"] for part in parts if part["y"] >= first["y"] + first["height"]]
    assert len(below) == 1, "only the links stand in a row of their own"
    assert max(part["x"] + part["width"] for part in parts) <= NARROW
    links = [measure(link) for link in page.get_by_role("navigation", name="Global").get_by_role("link").all()]
    assert len({link["y"] for link in links}) == 1
    assert min(link["height"] for link in links) >= 24
    assert measure(page.get_by_role("searchbox", name="Search"))["width"] >= 120


@pytest.mark.parametrize("height", [1000, 300])
@pytest.mark.parametrize("path", ["/login", "/r/nyc/branches"])
def test_the_footer_ends_the_window_or_what_is_longer(path: str, height: int, open_page: Callable[..., Page]) -> None:
    page = open_page(
        path, who="" if path == "/login" else "mira", viewport={"width": WIDE, "height": height}, looks=True
    )
    footer, main = measure(page.locator(".foot")), measure(page.locator("main"))
    whole = page.evaluate("document.documentElement.scrollHeight")
    assert abs(footer["y"] + footer["height"] - whole) <= 1
    assert footer["y"] >= main["y"] + main["height"]
    if path == "/login" or height == 1000:
        assert whole <= max(height, 600)
    assert measure(page.locator("main"))["width"] == WIDE


WITH_OTHER_WORDS = """() => {
  const first = document.querySelector('.rows-list > li');
  const other = first.cloneNode(true);
  const texts = document.createTreeWalker(other, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const isMono = text.parentElement.closest('.hash, .btn');
    if (text.data.trim() && !isMono) text.data = 'ab';
  }
  first.after(other);
  return [first, other].map((row) => [...row.children].slice(1).map((cell) => cell.getBoundingClientRect().x));
}"""


@pytest.mark.parametrize(
    "path",
    [
        "/repositories",
        "/r/nyc/commits/feature/cancelled-flights",
        "/r/nyc/pulls/new?source=feature/cancelled-flights",
        "/r/nyc/pulls",
        f"{PULL}/commits",
        f"{PULL}/schema",
    ],
)
def test_the_columns_of_a_list_line_up_whatever_stands_in_them(path: str, open_page: Callable[..., Page]) -> None:
    page = open_page(path, looks=True)
    one, other = page.evaluate(WITH_OTHER_WORDS)
    assert len(one) > 0
    assert one == pytest.approx(other, abs=1)


def test_both_sides_of_statistics_stand_below_each_other(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{DATA}&show=statistics", looks=True)
    sides = page.locator("table.stats tbody .branch")
    assert sides.count() > 2
    assert len({round(measure(side)["x"]) for side in sides.all()}) == 1


TEXTS_OF_LINES = """() => [...document.querySelectorAll('table.diff tbody tr:not(.h, .talk), table.code tbody tr')].map(
  (row) => [row.offsetHeight, ...[...row.querySelectorAll('td:not(.ln, .mk)')].map((cell) => cell.textContent)],
)"""


@pytest.mark.parametrize("path", [f"{PULL}/code", f"{PULL}/code?view=split", "/r/nyc/blob/master/pipelines/late.py"])
def test_a_line_of_code_stands_on_one_line_with_no_blank_of_the_page(path: str, open_page: Callable[..., Page]) -> None:
    """Every blank in the cell of a line is seen, and goes into what is copied or suggested."""
    lines = open_page(path, looks=True).evaluate(TEXTS_OF_LINES)
    assert min(height for height, *_ in lines) <= 24
    assert [text for _, *texts in lines for text in texts if "\n" in text] == []
