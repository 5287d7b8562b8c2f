"""Rosa owns a report that is made of the delays: she hears of what will break it, says so, and follows in time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.days.conftest import check_fit, compare_rows
from tests.factories.tiers import further

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.days.conftest import Api

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
    further("integration/pulls/test_lineage.py::test_readers_on_any_branch_are_named_with_what_is_known"),
]
BRANCH = "feature/late-flights"
PASTE = """(editor, text) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData('text/plain', text);
  editor.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
}"""
FILE = "pipelines/delays.py"
SLOW = 60_000


def rename_late(ines: Api) -> str:
    """Open a pull request of Ines' that renames a column of the delays, built; return its address."""
    code = ines.read("nyc", FILE)
    renamed = code.replace('E.col("late")', 'E.col("late_flights")').replace("late=(pl", "late_flights=(pl")
    ines.branch("nyc", BRANCH, {FILE: renamed}, message="Call the column what it counts")
    ines.build("nyc", BRANCH, "/nyc/delays/daily")
    return ines.pull("nyc", BRANCH, title="Call the column what it counts")


def test_the_owner_of_a_downstream_dataset_hears_of_it_objects_and_follows(
    open_page: Callable[..., Page], ask: Callable[[str], Api], reports: str
) -> None:
    # 1. She watches what her report is made of.
    page = open_page("/d/reports/bad_days?tab=lineage", who="rosa")
    page.locator("#main a", has_text="/nyc/delays/daily").first.click()
    page.wait_for_url("**/d/nyc/delays/daily**")
    page.get_by_role("button", name="Watch ").click()
    expect(page.get_by_role("button", name="You watch ")).to_be_visible()

    # 2. Somebody opens a pull request that breaks it: the inbox leads there, and it says whom it breaks.
    address = rename_late(ask("ines"))
    page.goto("/")
    page.locator("#inbox").get_by_role("link").click()
    notice = page.locator("li.notice", has_text="Call the column what it counts").first
    expect(notice).to_contain_text("It changes /nyc/delays/daily.")
    notice.get_by_role("link", name="Call the column what it counts").click()
    page.wait_for_url(f"**{address}")
    breaks = page.get_by_role("list", name="What merging breaks")
    expect(breaks).to_contain_text(re.compile(r"breaks\s+/reports/bad_days:\s+reads late\b"))
    expect(page.locator("#merge-box").get_by_role("button", name="Merge and rebuild")).to_have_count(0)
    tabs = page.get_by_role("navigation", name="Pull request")
    tabs.get_by_role("link", name="Lineage").click()
    expect(page.get_by_role("heading", name="Readers of columns that go")).to_be_visible()
    row = page.get_by_role("table", name="Changed and downstream datasets").get_by_role(
        "row", name=re.compile("bad_days")
    )
    expect(row).to_contain_text("downstream, of another repository")
    expect(row).to_contain_text("/nyc/delays/daily: carrier, day, flights, late")
    node = page.locator("job-graph svg a", has_text="bad_days")
    node.hover()
    expect(node).to_be_visible()
    check_fit(page)

    # 3. The schema says it by field, the rows say that it is more than a name; she rejects this data, with the reason.
    tabs.get_by_role("link", name="Schema").click()
    schema = page.get_by_role("region", name="Schema of /nyc/delays/daily")
    expect(schema.get_by_role("row", name=re.compile(r"\d late "))).to_contain_text("breaking")
    expect(schema.get_by_role("row", name=re.compile(r"\d late_flights "))).to_be_visible()
    tabs.get_by_role("link", name="Data").click()
    page.get_by_text("Reject it").click()
    page.get_by_label("What is wrong with the data?").fill("/reports/bad_days reads late: please give us a week.")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.locator("#verdicts")).to_contain_text("rejected")
    tabs.get_by_role("link", name="Conversation").click()
    expect(page.locator("#merge-box")).to_contain_text("rosa rejected the data of /nyc/delays/daily")
    expect(page.locator("#main")).to_contain_text("please give us a week")

    # 4. She makes her report ready on a branch of the same name, which reads the branch of the delays.
    page.goto("/r/reports/")
    page.locator("#main details.picker > summary").first.click()
    page.get_by_label("Name of the new branch").fill(BRANCH)
    page.get_by_role("button", name="Create branch").click()
    page.goto(f"/r/reports/edit/{BRANCH.replace('/', '%2F')}/pipelines/bad_days.py")
    page.get_by_role("button", name="Preview", exact=True).click()
    preview = page.locator("#preview:not([hx-get])")
    expect(preview.get_by_text("Failed")).to_be_visible(timeout=SLOW)
    expect(preview).to_contain_text("late")
    text = page.locator("code-editor textarea").input_value().replace('"late"', '"late_flights"')
    page.locator("code-editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.locator("code-editor .cm-content").evaluate(PASTE, text)
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(preview.get_by_text("Ready")).to_be_visible(timeout=SLOW)
    expect(preview.locator("thead").filter(has_text="late_flights")).to_be_visible()
    page.get_by_role("button", name="Commit").click()
    expect(page.get_by_text(re.compile("1 JobSpec")).first).to_be_visible(timeout=SLOW)
    page.goto(f"/builds/new?repository=reports&branch={BRANCH}&target=/reports/bad_days")
    page.get_by_role("button", name="Start build").click()
    expect(page.locator(".page-head .state")).to_have_text("Completed", timeout=SLOW)
    expect(page.locator("#main")).to_contain_text("this branch")

    # 5. Nothing but the name differs, and the page of her branch says so in true numbers.
    page.get_by_role("link", name="Open a pull request").click()
    page.get_by_role("button", name=re.compile("Open pull request|Create pull request")).click()
    page.wait_for_url(re.compile(r"/r/reports/pulls/\d+$"))
    there = compare_rows(ask("rosa"), "reports.bad_days", branch=BRANCH, key=("day", "carrier"), columns=("flights",))
    assert (there.added, there.removed, there.changed) == (0, 0, 0)
    page.goto(f"{page.url}/data?dataset=/reports/bad_days")
    expect(page.locator("#rows")).to_contain_text(
        re.compile("no changed rows|No row|same", re.IGNORECASE), timeout=SLOW
    )
    check_fit(page)

    # 6. So she takes her objection back.
    page.goto(f"{address}/data?dataset=/nyc/delays/daily")
    page.get_by_role("button", name="Take it back").click()
    expect(page.locator("#verdicts")).not_to_contain_text("rejected")
