"""Mira keeps master: she sorts what comes in, merges what is approved, and takes back what should not have landed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.days.conftest import agree, check_fit, compare_rows
from tests.factories.builds import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.days.conftest import Api

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
BRANCH = "feature/later-late"
TITLE = "Call a flight late after half an hour"
FILE = "pipelines/delays.py"
TABLE = "nyc.delays.daily"
SLOW = 60_000


def open_pull(ines: Api) -> str:
    """Open a pull request of Ines' that changes what counts as late, built; return its address."""
    code = ines.read("nyc", FILE).replace("LATE = 15", "LATE = 30")
    ines.branch("nyc", BRANCH, {FILE: code}, message=TITLE)
    ines.build("nyc", BRANCH, "/nyc/delays/daily")
    return ines.pull("nyc", BRANCH, title=TITLE)


def review(page: Page, verdict: str) -> None:
    """Give a verdict."""
    page.locator("details.picker > summary", has_text="Review").click()
    page.get_by_role("radio", name=re.compile(f"^{verdict}")).check()
    page.get_by_role("button", name="Submit review").click()


def count_late(who: Api) -> int:
    """How many flights were late, by the table itself."""
    return sum(row["late"] for row in who.rows(TABLE))


def test_a_maintainer_merges_follows_the_rebuild_and_takes_it_back(
    open_page: Callable[..., Page], ask: Callable[[str], Api]
) -> None:
    ines, mine = ask("ines"), ask("mira")
    address, late = open_pull(ines), count_late(mine)
    expected = compare_rows(mine, TABLE, branch=BRANCH, key=("day", "carrier"), columns=("late",))

    # 1. It waits for her at home; she gives it a label and somebody who sees to it, and finds it by them.
    page = open_page("/")
    row = page.get_by_role("region", name="To review").get_by_role("listitem").filter(has_text=TITLE)
    expect(row).to_contain_text(f"~{expected.changed:,}", timeout=SLOW)
    row.get_by_role("link", name=TITLE).click()
    page.wait_for_url(f"**{address}")
    page.get_by_role("link", name="Make the first label").click()
    page.get_by_text("New label, or another colour").click()
    page.get_by_label("Name", exact=True).fill("delays")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name=re.compile("delays"))).to_be_visible()
    page.goto(address)
    page.get_by_text("Choose labels").click()
    page.get_by_role("checkbox", name="delays").check()
    page.locator("form", has=page.get_by_role("checkbox", name="delays")).get_by_role("button", name="Save").click()
    page.get_by_text("Assign", exact=True).click()
    page.get_by_label("User names, with commas between them").fill("olek")
    page.keyboard.press("Enter")
    expect(page.get_by_label("About this pull request")).to_contain_text("olek")
    page.goto("/r/nyc/pulls?label=delays")
    expect(page.get_by_role("link", name=TITLE)).to_be_visible()
    page.get_by_placeholder("Title, branch or number").fill("nothing has this name")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing found")).to_be_visible()
    check_fit(page)

    # 2. Every reason against the merge is named; past it goes only who says so, and she does not.
    page.goto(address)
    box = page.locator("#merge-box")
    expect(box.get_by_role("heading", name="Merging is blocked for 1 reason")).to_be_visible()
    merge = page.get_by_role("button", name="Merge and rebuild")
    expect(merge).to_be_disabled()
    page.get_by_label("Merge past the open requirements").check()
    expect(merge).to_be_enabled()
    page.get_by_label("Merge past the open requirements").uncheck()
    expect(merge).to_be_disabled()
    expect(page.locator(".page-head, .verdict").last).to_be_in_viewport()
    review(page, "Approve")
    expect(box.get_by_role("heading", name=re.compile("^Ready|^This can|Nothing blocks|can be merged"))).to_be_visible()
    expect(box).to_contain_text(re.compile(r"Merging rebuilds\s+1 dataset\s+on\s+master"))
    merge.click()
    agree(page, "will land on master, which rebuilds 1 dataset there")

    # 3. The page follows the rebuild, and says that it equals what was reviewed; the table says so, too.
    expect(page.locator(".page-head .state")).to_have_text("Merged", timeout=SLOW)
    outcome = box.get_by_role("listitem").filter(has_text="/nyc/delays/daily")
    expect(outcome).to_contain_text(re.compile("equal", re.IGNORECASE), timeout=SLOW)
    assert count_late(mine) == sum(row["late"] for row in mine.rows(TABLE, branch=BRANCH)) < late
    check_fit(page)

    # 4. Its branch goes and comes back, with its data.
    page.get_by_role("button", name="Delete branch").click()
    agree(page, "Both can be restored from here")
    expect(box).to_contain_text(f"{BRANCH} is deleted")
    page.get_by_role("button", name="Restore branch").click()
    expect(box).to_contain_text(f"{BRANCH} is not needed any more")
    assert len(mine.rows(TABLE, branch=BRANCH)) == 5_420

    # 5. It was wrong: a pull request takes it back, and says of the data that it is what was before.
    page.get_by_role("button", name="Revert", exact=True).click()
    page.wait_for_url(lambda url: not url.endswith(address))
    back = page.url
    expect(page.locator("#pull-state")).to_contain_text("reverts #")
    page.get_by_role("button", name=re.compile("^Build")).first.click()
    expect(page.locator(".verdict").get_by_text(re.compile(r"Build \d+ passed"))).to_be_visible(timeout=SLOW)
    page.goto(back)
    expect(page.locator("#main")).to_contain_text(
        re.compile("equal to what was (there )?before", re.IGNORECASE), timeout=SLOW
    )

    # 6. Somebody else approves; she asks for the merge when it is ready, and the queue lands it.
    page.get_by_role("button", name="Merge when ready").click()
    agree(page, "will be tested on top of master")
    expect(box.get_by_role("link", name="Merge queue of master")).to_be_visible()
    ask("olek").post(f"/repositories/nyc/pulls/{back.rsplit('/', 1)[1]}/reviews", verdict="approve")
    expect(page.locator(".page-head .state")).to_have_text("Merged", timeout=SLOW)
    page.get_by_role("link", name="nyc", exact=True).click()
    page.goto("/r/nyc/queue")
    expect(page.get_by_text("Nothing waits to be merged")).to_be_visible()
    expect(page.get_by_role("region", name="Landed or left").first).to_contain_text("Revert")
    wait_until(lambda: count_late(mine) == late, seconds=60, every=0.5)
    page.goto(address)
    expect(box).to_contain_text("Reverted by")
