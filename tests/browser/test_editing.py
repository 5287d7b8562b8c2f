"""Two people edit one file: nothing that was typed is lost, nothing of the other is overwritten unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import requests
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    from tests.factories.installation import Installation

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
BRANCH = "editing/together"


@pytest.fixture
def page(
    browser: Browser, browser_context_args: dict[str, Any], installation: Installation, cookies_of: Callable[[str], Any]
) -> Iterator[Page]:
    """Return a page of Ines'. Chromium reports the refusal that this test is about as a console error, so none is read."""
    context = browser.new_context(
        **{**browser_context_args, "base_url": installation.url, "storage_state": cookies_of("ines")}
    )
    yield context.new_page()
    context.close()


def _post(installation: Installation, token: str, path: str, body: Any) -> Any:
    answer = requests.post(
        f"{installation.api}{path}", json=body, headers={"Authorization": f"Bearer {token}"}, timeout=60
    )
    assert answer.status_code in {201, 409}, answer.text
    return answer.json()


def _write(installation: Installation, token: str, text: str) -> str:
    change = {"path": "notes.md", "content": text}
    made = _post(
        installation,
        token,
        "/repositories/nyc/commits",
        {"branch": BRANCH, "message": "Note", "changes": [change]},
    )
    return str(made["sha"])


def test_conflicting_edits_keep_both_texts(page: Page, installation: Installation) -> None:
    token = installation.make_token()
    _post(installation, token, "/repositories/nyc/branches", {"name": BRANCH, "start_point": "master"})
    _write(installation, token, "first\nsecond\n")
    page.goto(f"/r/nyc/edit/{BRANCH}/notes.md")
    page.locator("code-editor .cm-content").click()
    page.keyboard.press("Control+Home")
    page.keyboard.type("my line\n")
    _write(installation, token, "first\ntheir second\n")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("Somebody else changed this file")
    expect(page.locator("table.diff")).to_contain_text("their second")
    expect(page.locator("code-editor textarea")).to_have_value("my line\nfirst\nsecond\n")
    page.locator("code-editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("my line\nfirst\ntheir second\n")
    page.get_by_role("button", name="Commit").click()
    expect(page.get_by_text(f"to {BRANCH}.")).to_be_visible()
    expect(page.locator("#main")).to_contain_text("their second")
    expect(page.locator("#main")).to_contain_text("my line")


def test_keys_of_a_repository(page: Page) -> None:
    page.goto("/r/nyc/")
    page.keyboard.press("t")
    page.wait_for_url("**/r/nyc/find/master")
    page.keyboard.type("clean")
    page.keyboard.press("Enter")
    page.wait_for_url("**/blob/master/pipelines/clean.py")
    page.keyboard.press("e")
    page.wait_for_url("**/edit/master/pipelines/clean.py")
    page.goto("/r/nyc/")
    page.keyboard.press("w")
    expect(page.get_by_label("Find a branch")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Find a branch")).to_be_hidden()
