"""Olek reviews the demo's pull request: code, columns, rows, numbers; what he says is said once, where it belongs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.days.conftest import DEMO, check_fit, compare_rows
from tests.browser.talking import comment_on_a_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.days.conftest import Api

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
PULL = "/r/nyc/pulls/1"
TITLE = "Count cancelled flights in the daily delays"
TABLE = "nyc.delays.daily"
COLUMNS = ("flights", "late", "mean_delay", "worst_delay")
SLOW = 60_000


def read_code(page: Page) -> None:
    """Look at each file; ask about one line at once, suggest others for two, and keep that for the review."""
    files = page.locator("input[data-viewed]")
    total = files.count()
    files.first.check()
    expect(page.get_by_text(f"1 of {total} viewed")).to_be_visible()
    expect(page.locator(".folded")).to_have_count(1)
    files.first.uncheck()
    expect(page.get_by_text(f"0 of {total} viewed")).to_be_visible()
    comment_on_a_line(page)
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("c")
    expect(page.locator("tr.talk--say textarea")).to_be_focused()
    page.reload()
    rows = page.locator("table.diff").first.locator("tr:has(> td.ln:nth-child(2):not(:empty))")
    texts = [rows.nth(number).locator("td").last.inner_text() for number in (1, 2)]
    rows.nth(1).locator("td.mk").click()
    rows.nth(2).locator("td.mk").click(modifiers=["Shift"])
    form = page.locator("tr.talk--say")
    form.get_by_role("button", name="Suggest a change").click()
    written = form.locator("textarea")
    expect(written).to_have_value("\n".join(["```suggestion", *texts, "```", ""]))
    written.fill("```suggestion\none line for two\n```")
    form.get_by_role("button", name="Start a review").click()
    change = page.get_by_role("group", name="Suggested change").last
    change.locator("td.mk").first.click()  # a suggested line is no line of the file: it takes no remark
    expect(page.locator("tr.talk--say textarea")).to_be_hidden()
    expect(change.locator("tr.d")).to_have_count(2)
    expect(change.locator("tr.a")).to_contain_text("one line for two")


def read_rows(page: Page, olek: Api) -> None:
    """Look at the rows by numbers, filters, keys and values; ask about a cell and a row, and accept the data."""
    counted = compare_rows(olek, TABLE, branch=DEMO, key=("day", "carrier"), columns=COLUMNS)
    assert (counted.added, counted.removed) == (12, 0)
    stat = page.locator("#row-diff .stat").first
    expect(stat).to_contain_text("+12 added")
    expect(stat).to_contain_text("−0 removed")
    kinds = page.get_by_role("navigation", name="Kind of change")
    kinds.get_by_role("link", name="Added").click()
    expect(page).to_have_url(re.compile("change=inserted"))
    expect(page.locator("tr.rd.ins")).to_have_count(12)
    expect(page.locator("tr.rd:not(.ins)")).to_have_count(0)
    page.go_back()
    expect(page.locator("tr.rd:not(.ins)").first).to_be_visible()
    page.wait_for_load_state()
    page.keyboard.press("t")
    page.keyboard.type("day = 2013-01-03 carrier = AA")
    page.keyboard.press("Enter")
    expect(page.locator("tr.rd")).to_have_count(1)
    cell = page.locator("tr.rd td.chg").first
    by_key = {(str(row["day"]), row["carrier"]): row for row in olek.rows(TABLE)}
    after = {(str(row["day"]), row["carrier"]): row for row in olek.rows(TABLE, branch=DEMO)}
    old, new = (rows["2013-01-03", "AA"]["flights"] for rows in (by_key, after))
    expect(cell.locator("del")).to_have_text(str(old))
    expect(cell.locator("ins")).to_have_text(str(new))
    expect(cell).to_have_accessible_name(f"was {old} now {new} (+{new - old})")
    cell.hover()
    page.get_by_role("button", name="+", exact=True).click()
    form = page.locator("tr.talk--say form")
    expect(form.locator("[name='key.carrier']")).to_have_value("AA")
    expect(form.locator("select")).to_have_value("flights")
    page.keyboard.type("Were all of these planned?")
    form.get_by_role("button", name="Add to review").click()
    remark = page.locator("tr.talk .remark", has_text="Were all of these planned?")
    expect(remark).to_contain_text("Pending")
    remark.get_by_role("button", name="Change the pending comment").click()
    page.get_by_role("textbox", name="Text").fill("Were all of these planned? Each?")
    page.get_by_role("button", name="Save").click()
    expect(remark).to_contain_text("Each?")
    expect(remark).to_contain_text("Pending")
    page.get_by_role("link", name="Statistics").click()
    expect(page.locator("table.stats")).to_contain_text("cancelled")
    expect(page.locator("#main svg").filter(visible=True).first).to_be_visible()
    check_fit(page)
    page.get_by_role("link", name="Rows", exact=True).click()
    page.locator("input[data-viewed]").check()
    expect(page.get_by_text(re.compile("1 of .* viewed"))).to_be_visible()
    page.get_by_role("button", name="Accept this data").click()
    expect(page.locator("#verdicts")).to_contain_text("accepted")


def test_a_reviewer_reads_collects_and_judges(open_page: Callable[..., Page], ask: Callable[[str], Api]) -> None:
    olek, ines = ask("olek"), ask("ines")

    # 1. It waits at home. What he asks at once is Markdown, and never markup; nothing is said with no words.
    page = open_page("/", who="olek")
    page.get_by_role("region", name="To review").get_by_role("link", name=TITLE).click()
    page.wait_for_url(f"**{PULL}")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.locator(".flash--error")).to_contain_text("empty")
    page.get_by_role("textbox", name="Add a comment").fill("Is `mean_delay` still over <b>all</b> flights?")
    page.keyboard.press("Control+Enter")
    comment = page.locator("article.card", has_text="still over").last
    expect(comment.locator("code")).to_have_text("mean_delay")
    expect(comment).to_contain_text("<b>all</b>")
    expect(comment.locator(".who")).to_have_text("olek")

    # 2. Code, schema, rows, by the keys of the tabs.
    for key, tab in (("s", "schema"), ("b", "builds"), ("d", "data"), ("c", "code")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"{PULL}/{tab}$"))
        page.wait_for_load_state()
    read_code(page)
    page.goto(f"{PULL}/schema")
    schema = page.get_by_role("region", name="Schema of /nyc/delays/daily")
    expect(schema.get_by_role("row", name=re.compile("cancelled"))).to_contain_text("added")
    expect(schema.get_by_role("row", name=re.compile("worst_delay"))).to_contain_text("breaking")
    page.goto(f"{PULL}/data?dataset=/nyc/delays/daily")
    read_rows(page, olek)

    # 3. All that he kept goes out together, with one verdict.
    page.locator("details.picker > summary", has_text="Finish review").click()
    expect(page.get_by_text("2 pending comments go with it.")).to_be_visible()
    page.get_by_label("Your review").fill("Good, but for two questions.")
    page.get_by_role("radio", name=re.compile("^Approve")).check()
    page.get_by_role("button", name="Submit review").click()
    expect(page.locator(".verdict")).to_contain_text("1 of 1 approvals")
    expect(page.locator("#merge-box")).not_to_contain_text("An approval is missing")
    picture = page.locator("article.card", has_text="Were all of these planned?")
    expect(picture.locator("del")).to_contain_text("89")
    expect(picture.locator("ins").first).to_contain_text("95")

    # 4. The author pushes: the approval is void before his eyes, and he looks at nothing but what came since.
    ines.commit("nyc", DEMO, {"notes.md": "Cancelled flights are flights.\n"}, message="Say what a flight is")
    expect(page.locator(".verdict")).to_contain_text("0 of 1 approvals", timeout=SLOW)
    page.goto(f"{PULL}/code")
    expect(page.locator("table.diff")).to_have_count(1)
    expect(page.locator("table.diff")).to_contain_text("Cancelled flights are flights.")
    page.goto(f"{PULL}/data?dataset=/nyc/delays/daily")
    expect(page.locator("#main")).to_contain_text("The branch's rows are as in your review")

    # 5. He asks for changes, which stands against the merge, and what was settled is settled.
    page.locator("details.picker > summary", has_text="Review").click()
    page.get_by_label("Your review").fill("A flight that never left is none.")
    page.get_by_role("radio", name=re.compile("Ask for changes")).check()
    page.get_by_role("button", name="Submit review").click()
    expect(page.locator("#merge-box")).to_contain_text("A reviewer asked for changes")
    expect(page.locator(".verdict")).to_contain_text("Changes asked for")
    picture.get_by_role("button", name="Resolve").click()
    expect(picture).to_contain_text("Resolved")
    check_fit(page)
