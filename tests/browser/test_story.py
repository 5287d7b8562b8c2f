"""Two people and the whole way: branch, edit, build, look, pull request, review, merge, rebuilt master."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SignIn
from tests.factories.installation import Installation

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
BRANCH = "feature/later-late"
OLD, BROKEN, NEW = "LATE = 15", "LATE = nonsense", "LATE = 30"
FILE = "pipelines/delays.py"
SLOW = 60_000


def edit_file(page: Page, line: str, text: str) -> None:
    """Replace a line in the editor, as a person does."""
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


def test_story_of_a_pull_request(sign_in: SignIn, installation: Installation) -> None:
    ines = sign_in("ines")

    # 1. Browse, branch, edit, commit; see what was published, then an error with file and line.
    ines.goto("/r/nyc/")
    expect(ines.get_by_role("heading", name="nyc: why are flights late?")).to_be_visible()
    ines.locator("#main details.picker > summary").first.click()
    ines.get_by_label("Name of the new branch").fill(BRANCH)
    expect(ines.locator("#bp-hint")).to_contain_text("Free")
    ines.get_by_role("button", name="Create branch").click()
    expect(ines.get_by_text(f"This is branch {BRANCH}")).to_be_visible()
    ines.goto(f"/r/nyc/edit/{quote(BRANCH, safe='')}/{FILE}")
    edit_file(ines, OLD, BROKEN)
    ines.get_by_role("button", name="Commit").click()
    expect(ines.get_by_text("name 'nonsense' is not defined")).to_be_visible(timeout=SLOW)
    expect(ines.get_by_text(re.compile(rf"{FILE}:\d+")).first).to_be_visible()
    ines.goto(f"/r/nyc/edit/{quote(BRANCH, safe='')}/{FILE}")
    edit_file(ines, BROKEN, NEW)
    ines.get_by_role("button", name="Commit").click()
    expect(ines.get_by_text(re.compile("JobSpecs? published|7 JobSpecs")).first).to_be_visible(timeout=SLOW)

    # A build of everything above Spark's summary is cancelled while it runs.
    ines.goto(
        f"/builds/new?repository=nyc&branch={quote(BRANCH, safe='')}&target=/nyc/routes/summary&upstream=1&force=1"
    )
    ines.get_by_role("button", name="Start build").click()
    ines.get_by_role("button", name="Cancel").click()
    expect(ines.locator(".page-head .state")).to_contain_text("Aborted", timeout=SLOW)

    # 2. The plan first, then the build with its states, log and lineage.
    ines.goto(f"/builds/new?repository=nyc&branch={quote(BRANCH, safe='')}&target=/nyc/delays/daily")
    expect(ines.get_by_text("/nyc/delays/daily").first).to_be_visible()
    ines.get_by_role("button", name="Start build").click()
    expect(ines.locator(".page-head .state")).to_contain_text("Completed", timeout=SLOW)
    expect(ines.locator("#main")).to_contain_text("by fallback")
    expect(ines.get_by_role("log")).to_contain_text("rows")

    # 3. The branch has its own rows; master has not moved.
    ines.goto(f"/d/nyc/delays/daily?branch={quote(BRANCH, safe='')}&tab=branches")
    expect(ines.get_by_text(BRANCH).first).to_be_visible()
    snippet = ines.locator("pre", has_text="load_catalog").first.text_content()
    assert snippet is not None
    read = run_snippet(snippet, installation.make_token("ines"))
    assert "day" in read
    assert "carrier" in read

    # 4. The pull request with its diffs.
    ines.goto(f"/r/nyc/pulls/new?source={quote(BRANCH, safe='')}")
    ines.get_by_label("Title").fill("Call a flight late after half an hour")
    ines.get_by_role("button", name=re.compile("Open pull request|Create pull request")).click()
    ines.wait_for_url(re.compile(r"/r/nyc/pulls/\d+$"))
    address = ines.url
    ines.goto(f"{address}/code")
    expect(ines.locator("#main")).to_contain_text(NEW)
    ines.goto(f"{address}/data")
    ines.locator("a", has_text="/nyc/delays/daily").first.click()
    row = ines.locator("table.rows tbody tr").first
    expect(row).to_be_visible(timeout=SLOW)
    expect(row.locator("del").first).to_be_visible()
    expect(row.locator("ins").first).to_be_visible()
    ines.goto(f"{address}/schema")
    expect(ines.locator("#main")).to_contain_text("/nyc/delays/daily")

    # 5. Somebody else approves and merges; master is rebuilt and equals what was reviewed.
    mira = sign_in("mira")
    mira.goto(address)
    expect(mira.get_by_text("Merging is blocked")).to_be_visible()
    mira.locator("details.picker > summary", has_text="Review").click()
    mira.get_by_role("radio", name=re.compile("^Approve")).check()
    mira.get_by_role("button", name="Submit review").click()
    expect(mira.get_by_role("button", name="Merge and rebuild")).to_be_enabled(timeout=SLOW)
    mira.get_by_role("button", name="Merge and rebuild").click()
    expect(mira.locator(".page-head .state, .state--big").first).to_contain_text("Merged", timeout=SLOW)
    expect(mira.locator("#merge-box")).to_contain_text(re.compile("equal", re.IGNORECASE), timeout=SLOW)
    token = installation.make_token("mira")
    number = int(address.rsplit("/", 1)[1])
    assert installation.get(f"/repositories/nyc/pulls/{number}", token=token)["state"] == "merged"
