"""What several people do alike where a pull request is talked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page


def comment_on_a_line(page: Page) -> None:
    """Comment on the first line that is new, as olek, see the comment below it, and resolve it."""
    line = page.locator("table.diff[data-talk] > tbody > tr.a").first
    line.locator("td.mk").click()
    page.keyboard.type("Why **this** line?")
    page.keyboard.press("Control+Enter")
    remark = page.locator("tr.talk .remark", has_text="Why this line?").last
    expect(remark.locator("strong")).to_have_text("this")
    expect(line.locator("xpath=following-sibling::tr[1]")).to_contain_text("Why this line?")
    remark.get_by_role("button", name="Resolve").click()
    expect(page.locator("tr.talk .remark", has_text="Why this line?").last).to_contain_text("Resolved by olek")
