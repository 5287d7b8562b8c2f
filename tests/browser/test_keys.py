"""What the scripts add: keys, dialogs, filters, tabs, live parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.factories.tiers import thin

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from tests.factories.installation import Installation

pytestmark = pytest.mark.browser

PULL = "/r/nyc/pulls/1"
SETTLED = "document.body.dispatchEvent(new CustomEvent('settled'))"
DATA = f"{PULL}/data?dataset=/nyc/delays/daily"


def test_question_mark_lists_the_keys(open_page: Callable[..., Page]) -> None:
    page = open_page("/", looks=True)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()


def test_slash_goes_to_search_and_an_exact_path_jumps(open_page: Callable[..., Page]) -> None:
    page = open_page("/", looks=True)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search")).to_be_focused()
    page.keyboard.type("/nyc/delays/daily")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/d/nyc/delays/daily$"))


def test_g_walks_the_tabs_of_a_pull_request(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL, looks=True)
    for key, tab in (("c", "code"), ("s", "schema"), ("d", "data"), ("b", "builds")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"{PULL}/{tab}$"))
        page.wait_for_load_state()  # keys mean nothing before


def test_a_tab_in_place_is_what_its_address_shows_and_the_way_back_is_kept(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL)
    page.evaluate("window.isSamePage = true")
    addresses = page.locator("#page-tabs a:not([hx-boost='false'])").evaluate_all("tabs => tabs.map(tab => tab.href)")
    assert len(addresses) == 7
    shown = {}
    for address in [*addresses[1:], addresses[0]]:
        page.locator(f"#page-tabs a[href='{address.partition(page.url.partition('/r/')[0])[2]}']").click()
        page.wait_for_url(address)
        tab = page.locator("#page-tabs [aria-current=page]")
        expect(tab).to_have_js_property("href", address)
        expect(tab).to_be_focused()
        expect(page).to_have_title(re.compile(re.escape(tab.inner_text().split("\n")[0].split()[0])))
        assert page.evaluate("[window.isSamePage, scrollY]") == [True, 0], "the browser loaded the page anew"
        shown[address] = read_main(page)
    page.go_back()
    expect(page.locator("#page-tabs [aria-current=page]")).to_have_js_property("href", addresses[-1])
    for address in addresses:
        page.goto(address)
        assert read_main(page) == shown[address], address


@pytest.mark.parametrize("last", ["tab", "rest"])
def test_a_tab_and_what_a_page_says_beside_it_are_asked_for_at_once(open_page: Callable[..., Page], last: str) -> None:
    page = open_page(PULL)
    address = {"tab": f"{PULL}/schema", "rest": PULL}[last]
    held: list[Route] = []
    page.route(
        lambda url: url.endswith(address),
        lambda route: held.append(route) if route.request.resource_type == "xhr" else route.continue_(),
    )
    if last == "tab":
        page.locator("#tab-schema").click()
        with page.expect_response(lambda answer: answer.url.endswith(PULL)):
            page.evaluate(SETTLED)
    else:
        page.evaluate(SETTLED)
        page.locator("#tab-schema").click()
        expect(page.locator("#page-tabs [aria-current=page]")).to_have_id("tab-schema")
    with page.expect_response(lambda answer: answer.request.resource_type == "xhr" and answer.url.endswith(address)):
        held[0].continue_()
    expect(page.locator("#page-tabs [aria-current=page]")).to_have_id("tab-schema")
    expect(page.locator("#schemas")).to_be_visible()
    expect(page.locator(".htmx-request")).to_have_count(0)
    expect(page.locator("#page-tabs [aria-current=page]")).to_have_id("tab-schema")


def test_what_somebody_has_begun_to_write_is_there_on_the_way_back_from_a_tab(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL)
    page.evaluate("window.isSamePage = true")
    text = page.get_by_role("textbox", name="Comment").last
    text.fill("Why not by hour?")
    page.locator("#tab-code").click()
    page.wait_for_url(f"**{PULL}/code")
    assert not page.evaluate("window.isSamePage")
    page.go_back()
    expect(text).to_have_value("Why not by hour?")


def read_main(page: Page) -> list[str]:
    """Return the words of a page, but for how long ago something was."""
    texts = page.locator("#main").evaluate(
        """main => {
          const copy = main.cloneNode(true);
          for (const part of copy.querySelectorAll('relative-time, elapsed-time, noscript')) part.remove();
          return copy.textContent;
        }"""
    )
    return texts.split()


def test_j_and_k_walk_the_rows_after_a_click_too(open_page: Callable[..., Page]) -> None:
    page = open_page(DATA, looks=True)
    rows = page.locator("tr.rd")
    page.keyboard.press("j")
    expect(rows.first).to_be_focused()
    rows.nth(3).click()
    page.keyboard.press("j")
    expect(rows.nth(4)).to_be_focused()
    page.keyboard.press("k")
    expect(rows.nth(3)).to_be_focused()


def test_n_and_p_walk_the_threads_after_a_click_too(open_page: Callable[..., Page], installation: Installation) -> None:
    token = installation.make_token("olek")
    for number in range(2):
        body = {"body": f"Question {number}"}
        installation.post("/repositories/nyc/pulls/1/comments", body, token=token)
    page = open_page(PULL, looks=True)
    threads = page.locator("[data-thread]")
    page.keyboard.press("n")
    expect(threads.first).to_be_focused()
    threads.nth(1).locator("header").first.click()
    page.keyboard.press("n")
    expect(threads.nth(2)).to_be_focused()
    page.keyboard.press("p")
    expect(threads.nth(1)).to_be_focused()


def test_files_are_walked_and_ticked_by_keys(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{PULL}/code", who="olek")
    files = page.locator("[data-file]")
    for key, place in (("]", 0), ("]", 1), ("[", 0)):
        page.keyboard.press(key)
        expect(files.nth(place)).to_be_focused()
    total = files.count()
    for is_viewed in (True, False):  # left as it was, for the tests beside this one
        page.keyboard.press("v")
        expect(page.get_by_text(f"{int(is_viewed)} of {total} viewed")).to_be_visible()
        expect(files.first.locator("input[data-viewed]")).to_be_checked(checked=is_viewed)
        page.wait_for_load_state()  # keys mean nothing before


def test_enter_on_a_row_says_who_changed_it(open_page: Callable[..., Page]) -> None:
    page = open_page(DATA, looks=True)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/datasets/\d+/blame\?branch=feature/cancelled-flights&key\.day="))
    expect(page.get_by_role("heading", name="Changed")).to_be_visible(timeout=30_000)
    expect(page.get_by_text("That is the whole history.")).to_be_visible()
    page.get_by_role("link", name="All rows that").click()
    expect(page.get_by_role("heading", name="Transactions between")).to_be_visible(timeout=30_000)


def test_a_comparison_is_followed_below_the_form(open_page: Callable[..., Page]) -> None:
    page = open_page("/d/nyc/delays/daily?tab=compare&from=master&to=feature/cancelled-flights", looks=True)
    expect(page.get_by_role("navigation", name="Kind of change")).to_be_visible(timeout=30_000)
    page.get_by_role("link", name="Swap").click()
    page.wait_for_url(re.compile("from=feature/cancelled-flights"))
    page.locator("#cmp-keys").fill("being typed")
    # The other way round nobody has compared them yet: it runs while the page is open.
    expect(page.get_by_text("Compared: feature/cancelled-flights")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("navigation", name="Kind of change")).to_be_visible(timeout=60_000)
    expect(page.locator("#cmp-keys")).to_have_value("being typed")


def test_rows_are_filtered_counted_and_found_by_key(open_page: Callable[..., Page]) -> None:
    page = open_page(DATA, looks=True)
    added = page.get_by_role("navigation", name="Kind of change").get_by_role("link", name="Added")
    count = int(re.sub(r"\D", "", added.inner_text()))
    added.click()
    expect(page).to_have_url(re.compile("change=inserted"))
    expect(page.locator("tr.rd.ins")).to_have_count(min(count, 100))
    expect(page.locator("tr.rd:not(.ins)")).to_have_count(0)
    page.go_back()
    expect(page.locator("tr.rd:not(.ins)").first).to_be_visible()
    page.wait_for_load_state()  # going back loads the page again, and keys are heard once its scripts have run
    page.keyboard.press("t")
    page.keyboard.type("day = 2013-01-03 carrier = AA")
    page.keyboard.press("Enter")
    expect(page.locator("tr.rd")).to_have_count(1)
    expect(page.locator("tr.rd del").first).to_be_visible()
    expect(page.locator("tr.rd ins").first).to_be_visible()


def test_rows_page_on_and_back(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{DATA}&limit=25", looks=True)
    first = page.locator("tr.rd th").first.inner_text()
    text = page.get_by_role("navigation", name="Pages of rows")
    expect(text).to_contain_text("Rows 1–25 of")
    text.get_by_role("link", name="Next").click()
    expect(text).to_contain_text("Rows 26–50 of")
    text.get_by_role("link", name="Previous").click()
    expect(text).to_contain_text("Rows 1–25 of")
    assert page.locator("tr.rd th").first.inner_text() == first


def test_a_search_that_cannot_be_read_is_said_beside_the_rows(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{DATA}&q=nonsense%20%3D%201", looks=True)
    expect(page.locator("#rows-problem")).to_contain_text("at character 1: there is no column 'nonsense'")
    expect(page.get_by_role("searchbox", name="Find rows")).to_have_value("nonsense = 1")
    expect(page.locator("tr.rd")).to_have_count(0)
    page.get_by_role("link", name="Show all changed rows").click()
    expect(page.locator("tr.rd").first).to_be_visible()


def test_the_filter_of_datasets_hides_the_others(open_page: Callable[..., Page]) -> None:
    page = open_page(DATA, looks=True)
    page.get_by_role("searchbox", name="Filter datasets").fill("carrier")
    expect(page.locator("#dataset-list li:visible")).to_have_count(1)


def test_menus_close_by_escape_and_keep_the_focus(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL, looks=True)
    review = page.locator("details.picker > summary", has_text="Review")
    review.click()
    expect(page.get_by_role("button", name="Submit review")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Submit review")).to_be_hidden()
    expect(review).to_be_focused()


def test_merging_past_the_requirements_has_to_be_ticked(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL, looks=True)
    merge = page.get_by_role("button", name="Merge and rebuild")
    expect(merge).to_be_disabled()
    page.get_by_label("Merge past the open requirements").check()
    expect(merge).to_be_enabled()


def test_keys_can_be_turned_off(open_page: Callable[..., Page]) -> None:
    page = open_page("/", looks=True)
    page.evaluate("document.documentElement.dataset.hotkeys = 'off'")
    for key in ("j", "/", "?"):
        page.keyboard.press(key)
        expect(page.locator("body")).to_be_focused()


TYPED = "g h # flights / ? [ ] n p v t j k e w x = 1 / 2"


def test_the_editor_keeps_every_key(open_page: Callable[..., Page]) -> None:
    page = open_page("/r/nyc/edit/feature/cancelled-flights/pipelines/clean.py")
    page.locator("code-editor .cm-content").click()
    page.keyboard.press("Control+Home")
    page.keyboard.type(f"# {TYPED}\n")
    expect(page.locator("code-editor textarea")).to_have_value(re.compile(f"^{re.escape(f'# {TYPED}')}\n"))
    expect(page.locator("code-editor .cm-content")).to_be_focused()
    assert page.url.endswith("/clean.py")
    # Focus in the editor's own search panel is inside its shadow root too.
    page.keyboard.press("Control+f")
    page.keyboard.type("g h t /")
    expect(page.locator("code-editor .cm-panel [name=search]")).to_have_value("g h t /")
    page.locator("code-editor .cm-panel [name=case]").focus()
    page.keyboard.type("g h t /")
    assert page.url.endswith("/clean.py")


@pytest.mark.parametrize(
    "path", thin(["/r/nyc/edit/feature/cancelled-flights/pipelines/clean.py", PULL, "/r/nyc/"], every_run=[PULL])
)
def test_no_field_loses_a_key_to_a_shortcut(path: str, open_page: Callable[..., Page]) -> None:
    page = open_page(path)
    page.evaluate("for (const menu of document.querySelectorAll('details')) menu.open = true")
    fields = page.locator("input:is([type=text], [type=search], :not([type])), textarea").filter(visible=True)
    assert fields.count() > 0
    for field in fields.all():
        if field.get_attribute("data-filter") or field.get_attribute("readonly") is not None:
            continue
        field.evaluate("field => { field.focus(); field.select(); }")
        page.keyboard.type(TYPED)
        assert field.input_value() == TYPED
        expect(field).to_be_focused()
    assert page.url.endswith(path)


def test_no_shortcut_acts_behind_a_dialog(open_page: Callable[..., Page]) -> None:
    page = open_page("/r/nyc/", looks=True)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("t")
    page.keyboard.press("w")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()
    expect(page.get_by_label("Find a branch")).to_be_hidden()
    assert page.url.endswith("/r/nyc/")
