"""Nina reads the reports, may write nothing, and may see neither the delays below them nor how many flights were late."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.days.conftest import DEMO, check_fit, compare_rows
from tests.factories.tiers import further

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.days.conftest import Api

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
    further(
        "contract/attacks/test_sensitive_columns.py::test_no_way_leads_a_reader_to_a_sensitive_value_and_counts_are_seen"
    ),
]
KEY = ("day", "carrier")
SLOW = 30_000


def test_a_reader_sees_counts_and_never_the_rows_of_others(
    open_page: Callable[..., Page], ask: Callable[[str], Api], reports: str
) -> None:
    rosa = ask("rosa")
    ours = compare_rows(rosa, "reports.bad_days", branch=DEMO, key=KEY, columns=("flights", "late"))
    theirs = compare_rows(rosa, "nyc.delays.daily", branch=DEMO, key=KEY, columns=())

    # 1. What is not hers is not there, and the page says so in words.
    page = open_page("/", who="nina")
    expect(page.get_by_text("No review waits for you")).to_be_visible()
    expect(page.get_by_role("link", name="reports", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="nyc", exact=True)).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("delays")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Guide")).to_be_visible()
    expect(page.get_by_role("heading", name="Datasets")).to_have_count(0)
    page.go_back()
    for path, said in (
        ("/d/nyc/delays/daily", "There is no dataset /nyc/delays/daily, or you may not see it."),
        ("/r/nyc/", "There is no repository nyc, or you may not see it."),
    ):
        expect(open_page(path, who="nina", status=404).get_by_text(said)).to_be_visible()

    # 2. The pull request: counts of all, rows of what is hers, and what is hidden says that it is.
    page.get_by_role("link", name="reports", exact=True).click()
    page.get_by_role("link", name="Say how many flights were cancelled").click()
    page.wait_for_url(f"**{reports}")
    expect(page.get_by_role("button", name="Merge and rebuild")).to_have_count(0)
    page.locator("details.picker > summary", has_text="Review").click()
    expect(page.get_by_role("radio", name=re.compile("^Approve"))).to_be_disabled()
    page.keyboard.press("Escape")
    page.get_by_role("navigation", name="Pull request").get_by_role("link", name="Data").click()
    datasets = page.get_by_role("navigation", name="Datasets")
    unseen = datasets.locator("p", has_text="Not listed: 1 dataset that you may not see, no access to rows")
    expect(unseen.locator(".delta")).to_contain_text(f"+{theirs.added:,}")
    rows = page.locator("#row-diff, #rows")
    for count in (f"−{ours.removed} removed", f"~{ours.changed} changed"):
        expect(rows.locator(".stat").first).to_contain_text(count)
    hidden = page.locator("tr.rd td:last-child").first
    expect(hidden).to_have_text("hidden")
    page.get_by_role("searchbox", name="Find rows").fill("late > 3")
    page.keyboard.press("Enter")
    expect(page.locator("#rows-problem")).to_contain_text("the values of late are hidden from you")
    page.get_by_role("link", name="Show all changed rows").click()
    expect(page.locator("tr.rd").first).to_be_visible()
    with page.expect_download() as download:
        page.locator("summary", has_text="Download").click()
        page.get_by_role("link", name=re.compile("CSV")).first.click()
    heading, *lines = download.value.path().read_text().splitlines()
    assert "cancelled" in heading
    assert "late" not in heading
    assert len(lines) >= ours.removed + ours.changed

    # 3. She asks about a row, and what she quotes is hidden as well.
    row = page.locator("tr[data-key]").first
    row.focus()
    page.keyboard.press("c")
    page.keyboard.type("Is this day gone, @rosa?")
    page.keyboard.press("Control+Enter")
    expect(page.locator("tr.talk .remark", has_text="Is this day gone")).to_be_visible()
    check_fit(page)
    tabs = page.get_by_role("navigation", name="Pull request")
    tabs.get_by_role("link", name="Conversation").click()
    thread = page.locator("article.card", has_text="Is this day gone")
    expect(thread.get_by_role("table")).to_contain_text("flights")
    expect(thread.get_by_role("table")).not_to_contain_text("late")
    tabs.get_by_role("link", name="Lineage").click()
    expect(page.get_by_text("1 changed, 0 downstream; 1 that you may not see")).to_be_visible()
    expect(page.get_by_text("and 1 dataset that you may not see")).to_be_visible()

    # 4. The dataset itself: a lock in place of values, and no lines for clients that would be refused.
    page.get_by_role("table", name="Changed and downstream datasets").get_by_role(
        "link", name="/reports/bad_days"
    ).click()
    page.wait_for_url("**/data?**")
    page.locator("#dataset-title").get_by_role("link").click()
    page.wait_for_url("**/d/reports/bad_days")
    expect(page.get_by_role("columnheader", name="late")).to_be_visible()
    expect(page.locator("table tbody td").filter(has_text="hidden").first).to_be_visible()
    expect(page.get_by_label("Open in")).to_contain_text("late is hidden from you")
    expect(page.locator("pre", has_text="load_catalog")).to_have_count(0)
    check_fit(page)

    # 5. SQL says what it leaves out, and of others' data that there is none.
    page.get_by_role("navigation", name="Repository").get_by_role("link", name="SQL").click()
    run_sql(page, 'SELECT count(*) AS days, max(late) AS latest FROM "/reports/bad_days"')
    expect(page.get_by_text("late hidden: NULL in every row")).to_be_visible(timeout=SLOW)
    result = page.locator("tbody tr").filter(has_text=f"{len(rosa.rows('reports.bad_days'))}")
    expect(result.first).to_contain_text("null")
    refused = open_page("/r/reports/sql", who="nina", refuses=True)
    run_sql(refused, 'SELECT * FROM "/nyc/delays/daily"')
    expect(refused.locator("#main")).to_contain_text("no dataset /nyc/delays/daily", timeout=SLOW)

    # 6. Nothing offers what her role does not allow.
    page.get_by_role("navigation", name="Repository").get_by_role("link", name="Builds").click()
    page.get_by_role("link", name="Find bad days").first.click()
    expect(page.get_by_role("heading", name=re.compile("^Build"))).to_be_visible()
    expect(page.get_by_text("Retry")).to_have_count(0)
    page.get_by_role("navigation", name="Repository").get_by_role("link", name="Settings").click()
    expect(page.get_by_text("You may look, not change: a maintainer can.")).to_be_visible()
    expect(page.locator("main").get_by_role("button")).to_have_count(0)


def run_sql(page: Page, text: str) -> None:
    """Write a query in the editor, and run it."""
    page.locator("code-editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)
    page.keyboard.press("Control+Enter")
