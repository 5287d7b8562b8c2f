"""Ines changes how the delays are counted: from the first line to a pull request that others can judge."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.days.conftest import agree, check_fit, compare_rows
from tests.factories.installation import Installation

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.days.conftest import Api

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
BRANCH = "feature/quarter-of-an-hour"
OLD, BROKEN, NEW, BETTER = (
    "LATE = 15",
    "LATE = nonsense",
    "LATE = 20",
    "LATE = 25  # minutes, as the other reports count",
)
TITLE = "Call a flight late after twenty minutes"
FILE = "pipelines/delays.py"
SLOW = 60_000


def edit_file(page: Page, line: str, text: str) -> None:
    """Replace a line in the editor, as a person does."""
    page.goto(f"/r/nyc/edit/{quote(BRANCH, safe='')}/{FILE}")
    page.locator("code-editor .cm-line", has_text=line).click()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    page.keyboard.type(text)
    expect(page.locator("code-editor textarea")).to_have_value(re.compile(rf"^{re.escape(text)}", re.MULTILINE))


def run_snippet(code: str, token: str) -> str:
    """Run the lines that the page offers, as printed, in a Python of their own; return what they print."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TRIBUTARY_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def start_branch(page: Page) -> None:
    """Make the branch where the files are, break a line, be told where, and mend it with a look at the rows first."""
    page.goto("/r/nyc/")
    expect(page.get_by_role("heading", name="nyc: why are flights late?")).to_be_visible()
    page.locator("#main details.picker > summary").first.click()
    page.get_by_label("Name of the new branch").fill(BRANCH)
    expect(page.locator("#bp-hint")).to_contain_text("Free")
    page.get_by_role("button", name="Create branch").click()
    expect(page.get_by_text(f"This is branch {BRANCH}")).to_be_visible()
    edit_file(page, OLD, BROKEN)
    page.get_by_role("button", name="Commit").click()
    expect(page.get_by_text("name 'nonsense' is not defined")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text(re.compile(rf"{FILE}:\d+")).first).to_be_visible()
    edit_file(page, BROKEN, NEW)
    page.get_by_role("button", name="Preview changes").click()
    expect(page.locator("table.diff")).to_contain_text(NEW)
    page.get_by_role("button", name="Commit").click()
    expect(page.get_by_text(re.compile("JobSpecs? published|8 JobSpecs")).first).to_be_visible(timeout=SLOW)


def build(page: Page) -> None:
    """Cancel a build that was too much, and build what is needed, with the plan first."""
    start = f"/builds/new?repository=nyc&branch={quote(BRANCH, safe='')}"
    page.goto(f"{start}&target=/nyc/routes/summary&upstream=1&force=1")
    page.get_by_role("button", name="Start build").click()
    page.get_by_role("button", name="Cancel").click()
    state = page.locator(".page-head .state")
    expect(state).to_contain_text("Aborted", timeout=SLOW)
    page.goto(f"{start}&target=/nyc/delays/daily")
    expect(page.get_by_text("/nyc/delays/daily").first).to_be_visible()
    page.get_by_role("button", name="Start build").click()
    expect(state).to_contain_text("Completed", timeout=SLOW)
    expect(page.locator("#main")).to_contain_text("by fallback")
    expect(page.get_by_role("log")).to_contain_text("5,420 rows")
    expect(page.locator("[data-log-status]")).to_have_text(re.compile(r"^\d+ lines, end"))
    check_fit(page)


def recompute(page: Page, beside: Page) -> None:
    """Compare the rows again from the page that says that they are old; what somebody beside has viewed is old, too."""
    beside.locator("input[data-viewed]").check()
    expect(beside.get_by_text(re.compile(r"^1 of \d+ viewed"))).to_be_visible()
    ends = [str(end.get_attribute("title")) for end in beside.locator(".compared .hash").all()]
    page.get_by_role("navigation", name="Pull request").get_by_role("link", name="Data").click()
    old = page.locator(".flash", has_text="Not of the newest code.")
    for end in ends:
        expect(old.locator(f".hash[title='{end}']")).to_be_visible()
    old.get_by_role("button", name="Recompute").click()
    expect(page).to_have_url(re.compile("/builds$"))
    stale = beside.locator(".flash", has_text="Stale.")
    expect(stale).to_contain_text(f"{BRANCH} has transaction", timeout=SLOW)
    for end in ends:
        expect(stale.locator(f".hash[title='{end}']")).to_be_visible()
    stale.get_by_role("link", name="Recompute").click()
    expect(beside.get_by_text(re.compile(r"^0 of \d+ viewed"))).to_be_visible()
    expect(beside.locator("input[data-viewed]")).not_to_be_checked(timeout=SLOW)
    expect(beside.locator(f".compared .hash[title='{ends[1]}']")).to_have_count(0)


def test_an_author_goes_from_a_line_of_code_to_a_pull_request(
    open_page: Callable[..., Page], installation: Installation, ask: Callable[[str], Api]
) -> None:
    page = open_page("/", who="ines")
    start_branch(page)
    build(page)

    # The branch has rows of its own, for clients as well; master has not moved.
    page.get_by_text("See the rows").click()
    page.wait_for_url("**/d/nyc/delays/daily?**")
    page.get_by_role("link", name="Branches").click()
    expect(page.locator("#main").get_by_text(BRANCH).first).to_be_visible()
    snippet = page.locator("pre", has_text="load_catalog").first.text_content()
    assert snippet is not None
    read = run_snippet(snippet, installation.make_token("ines"))
    assert "day" in read
    assert "carrier" in read
    changes = compare_rows(ask("ines"), "nyc.delays.daily", branch=BRANCH, key=("day", "carrier"), columns=("late",))
    assert (changes.added, changes.removed) == (0, 0)

    # She opens the pull request from where the product leads, and looks at it as others will.
    page.goto("/r/nyc/pulls/new")
    expect(page.get_by_role("heading", name="Recent branches")).to_be_visible()
    page.get_by_label("from", exact=True).select_option(BRANCH)
    page.get_by_label("Title").fill(TITLE)
    page.get_by_label("Description").fill("Ours is the only report that counts from 15. See /nyc/delays/daily.")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(r"/r/nyc/pulls/\d+$"))
    address, number = page.url, page.url.rsplit("/", 1)[1]
    expect(page.locator(".timeline").get_by_role("link", name="/nyc/delays/daily").first).to_be_visible()
    expect(page.locator(".verdict")).to_contain_text(f"~{changes.changed:,}", timeout=SLOW)
    tabs = page.get_by_role("navigation", name="Pull request")
    tabs.get_by_role("link", name="Code").click()
    expect(page.locator("#main")).to_contain_text(NEW)
    tabs.get_by_role("link", name="Schema").click()
    expect(page.locator("#main")).to_contain_text("No schema changes")
    tabs.get_by_role("link", name="Data").click()
    expect(page.locator("#row-diff .stat").first).to_contain_text(f"~{changes.changed:,} changed")
    row = page.locator("table.rows tbody tr").first
    expect(row.locator("del").first).to_be_visible()
    expect(row.locator("ins").first).to_be_visible()
    check_fit(page)

    # Her own review does not count; she asks Mira for one.
    tabs.get_by_role("link", name="Conversation").click()
    expect(page.locator("#tab-conversation")).to_have_attribute("aria-current", "page")
    page.locator("details.picker > summary", has_text="Review").click()
    expect(page.get_by_role("radio", name=re.compile("Approve"))).to_be_disabled()
    expect(page.get_by_text("Nobody approves their own pull request.")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_text("Ask for a review").click()
    page.get_by_label("Person or group").fill("mira")
    page.keyboard.press("Enter")
    side = page.get_by_label("About this pull request")
    expect(side.get_by_role("listitem").filter(has_text="mira")).to_contain_text("asked")

    # What Mira says comes by itself: she approves, and suggests a line, which Ines commits; so the approval is void.
    mira = ask("mira")
    line = next(n for n, text in enumerate(ask("ines").read("nyc", FILE, branch=BRANCH).split("\n"), 1) if NEW in text)
    suggestion = f"Say why.\n```suggestion\n{BETTER}\n```"
    anchor = {"path": FILE, "line": line}
    mira.post(f"/repositories/nyc/pulls/{number}/comments", body=suggestion, anchor=anchor)
    mira.post(f"/repositories/nyc/pulls/{number}/reviews", verdict="approve", body="With that line.")
    expect(page.locator(".timeline")).to_contain_text("Say why.", timeout=SLOW)
    expect(page.locator(".verdict")).to_contain_text("1 of 1 approvals", timeout=SLOW)
    expect(page.get_by_role("button", name="Merge and rebuild")).to_be_enabled()
    tabs.get_by_role("link", name="Code").click()
    beside = open_page(f"{address}/data?dataset=/nyc/delays/daily", who="mira")
    page.get_by_role("button", name="Commit suggestion").click()
    expect(page.locator("table.diff[data-talk]").first).to_contain_text("as the other reports count")
    recompute(page, beside)
    tabs.get_by_role("link", name="Conversation").click()
    expect(page.locator("#merge-box").get_by_role("heading", name=re.compile("Merging is blocked"))).to_be_visible()
    expect(page.locator(".verdict")).to_contain_text("1 became void")
    thread = page.locator("article.card", has_text="Say why.")
    expect(thread).to_contain_text("Resolved by ines")

    # She answers, changes her words, and takes them back; the others see what there was.
    thread.locator("summary", has_text="Reply").click()
    thread.get_by_role("textbox", name="Comment").fill("Done, and **thanks**.")
    page.keyboard.press("Control+Enter")
    reply = thread.locator("li.reply")
    expect(reply.locator("strong")).to_have_text("thanks")
    reply.get_by_role("button", name="Change the comment by ines").click()
    page.get_by_role("textbox", name="Text").fill("Done.")
    page.get_by_role("button", name="Save").click()
    expect(reply).not_to_contain_text("thanks")
    reply.get_by_role("button", name="edited").click()
    expect(page.get_by_role("dialog", name="What it said before")).to_contain_text("thanks")
    page.keyboard.press("Escape")
    reply.get_by_role("button", name="Change the comment by ines").click()
    page.get_by_role("button", name="Delete the comment").click()
    expect(thread).to_contain_text("ines deleted this comment.")

    # A draft asks nobody; another idea is better, so she closes it, and its branch goes.
    for title, draft, word in ((f"{TITLE}, perhaps", "1", "Draft"), (TITLE, "0", "Open")):
        page.get_by_role("button", name="Edit", exact=True).click()
        page.get_by_label("Title").fill(title)
        page.get_by_label("State").select_option(draft)
        page.get_by_role("button", name="Save").click()
        expect(page.locator("h1")).to_contain_text(title)
        expect(page.locator(".page-head .state")).to_have_text(word)
    expect(page.locator(".timeline")).to_contain_text("changed the title")
    for _time in range(2):
        page.get_by_role("button", name="Close pull request").click()
        expect(page.locator(".page-head .state")).to_have_text("Closed")
        expect(page.get_by_role("button", name="Merge and rebuild")).to_have_count(0)
        page.get_by_role("button", name="Open again").click()
        expect(page.locator(".page-head .state")).to_have_text("Open")
    page.get_by_role("button", name="Close pull request").click()
    page.get_by_role("button", name="Delete branch").click()
    agree(page, "Both can be restored from here")
    expect(page.locator("#merge-box")).to_contain_text(f"{BRANCH} is deleted")
    page.goto("/pulls?state=closed")
    expect(page.get_by_role("link", name=TITLE)).to_be_visible()
    assert page.url != address
