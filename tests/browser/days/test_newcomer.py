"""Nora has an account since this morning: she is shown around, finds her way by keys, and begins something of her own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.days.conftest import check_fit
from tests.factories.tiers import further
from webapp.site.pages.tour import STOPS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.days.conftest import Api
    from tests.factories.installation import Installation

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
    further("integration/site/test_tour.py::test_steps_lead_on_and_back"),
]
SEEN = (
    'text=spark.table("t.nyc.delays.daily")',
    "table.diff",
    "tr.rd",
    "#merge-box",
    "text=feature/cancelled-flights",
)
"""What is on each page of what its step speaks of."""
SLOW = 60_000


def test_a_newcomer_is_shown_around_and_begins(
    open_page: Callable[..., Page], installation: Installation, ask: Callable[[str], Api], tmp_path: Path
) -> None:
    # 1. Nothing is there yet, and every list says what the next step is.
    installation.make_user("nora", roles={})
    page = open_page("/", who="nora")
    expect(page.get_by_text("You see no repository yet.")).to_be_visible()
    expect(page.get_by_role("link", name="Take the tour")).to_have_count(0)
    for path, said in (
        ("/repositories", "No repository"),
        ("/datasets", "No dataset"),
        ("/builds", "No build"),
        ("/pulls", "No open pull request"),
        ("/inbox", "All read"),
    ):
        page.goto(path)
        expect(page.locator("main")).to_contain_text(re.compile(said))
    check_fit(page)

    # 2. A maintainer lets her in, and she takes the tour to its end.
    installation.make_user("nora", roles={"nyc": "writer"})
    page.goto("/")
    page.get_by_role("link", name="Take the tour").click()
    for number, (stop, seen) in enumerate(zip(STOPS, SEEN, strict=True), start=1):
        expect(page.get_by_role("region", name=stop.title)).to_contain_text(f"step {number} of {len(STOPS)}")
        expect(page.locator(seen).first).to_be_visible()
        check_fit(page)
        if number < len(STOPS):
            page.get_by_role("link", name="Next", exact=True).first.click()
    page.get_by_role("link", name="Back", exact=True).click()
    expect(page.get_by_text("step 4 of 5")).to_be_visible()
    page.get_by_role("button", name="End the tour").click()
    expect(page).to_have_url(re.compile(r"/$"))
    expect(page.get_by_role("heading", name="Waiting for me")).to_be_visible()
    expect(page.get_by_role("link", name="Take the tour")).to_have_count(0)

    # 3. By keys: what they are, a section of the guide, a dataset by its path.
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("fallback chain")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Guide").get_by_role("link").first.click()
    expect(page).to_have_url(re.compile("/guide/"))
    expect(page.locator("main")).to_contain_text("fallback")
    page.keyboard.press("/")
    page.keyboard.type("/nyc/delays/by_carrier")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/d/nyc/delays/by_carrier$"))
    airlines = {row["carrier"]: row["flights"] for row in ask("mira").rows("nyc.delays.by_carrier")}
    row = page.locator("table tbody tr").filter(has=page.get_by_role("cell", name="HA", exact=True))
    expect(row).to_contain_text(f"{airlines['HA']}")

    # 4. She loads a file of her own: what looks like a number stays what it is, and master is not hers to write.
    codes = tmp_path / "codes.csv"
    codes.write_text("code;n\n10;1\n20;2\n")
    page.get_by_role("link", name="Datasets", exact=True).first.click()
    page.get_by_role("link", name="Load a file").click()
    page.get_by_label("Dataset").fill("/nyc/loaded/codes")
    page.get_by_label("File").set_input_files(codes)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="Load codes.csv")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("Not master.")).to_be_visible()
    page.get_by_label("First line").select_option("is a row")
    expect(page.get_by_role("columnheader", name="column_1")).to_be_visible()
    page.get_by_label("First line").select_option("names the columns")
    page.get_by_label("Type of code").select_option("string")
    page.get_by_role("button", name="Load the file").click()
    page.get_by_role("link", name="See the rows").click(timeout=SLOW)
    expect(page).to_have_url(re.compile(r"/d/nyc/loaded/codes\?branch=nora%2Fupload$"))
    expect(page.get_by_role("columnheader", name="code")).to_contain_text("string")
    loaded = ask("nora").rows("nyc.loaded.codes", branch="nora/upload")
    assert loaded == [{"code": "10", "n": 1}, {"code": "20", "n": 2}]
    check_fit(page)

    # 5. A repository of her own begins from a template, and says what comes next.
    page.goto("/repositories/new")
    page.get_by_label("Name").fill("first-steps")
    page.get_by_role("button", name=re.compile("Create|Make")).click()
    page.wait_for_url("**/r/first-steps/**")
    expect(page.locator("main")).to_contain_text("Make a branch and add a module with a transform.")
    for tab, said in (("Pull requests", "No open pull request"), ("Builds", "No build"), ("Datasets", "No dataset")):
        page.get_by_role("navigation", name="Repository").get_by_role("link", name=re.compile(f"^{tab}")).click()
        expect(page.locator("main")).to_contain_text(said)

    # 6. It is evening: she wants it dark, and no shortcuts.
    page.goto("/settings")
    page.get_by_label("Colours").select_option("dark")
    page.get_by_label("Single-key shortcuts").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html")).to_have_attribute("data-color-mode", "dark")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()
