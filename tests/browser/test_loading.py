"""A file is loaded by hand: sent, looked at, read as somebody chooses, and its rows are on the branch."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
SLOW = 60_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a small file whose codes look like numbers."""
    codes = tmp_path / "codes.csv"
    codes.write_text("code;n\n10;1\n20;2\n")
    return codes


def test_a_writer_finds_the_way_from_the_list_to_the_rows(open_page: Callable[..., Page], file: Path) -> None:
    page = open_page("/datasets", who="ines")
    page.get_by_role("link", name="Load a file").click()
    page.get_by_label("Dataset").fill("/nyc/loaded/codes")
    page.get_by_label("File").set_input_files(file)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="Load codes.csv")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("Not master.")).to_be_visible()
    page.get_by_label("First line").select_option("is a row")
    expect(page.get_by_role("columnheader", name="column_1")).to_be_visible()
    page.get_by_label("First line").select_option("names the columns")
    page.get_by_label("Type of code").select_option("string")
    page.get_by_role("button", name="Load the file").click()
    page.get_by_role("link", name="See the rows").click(timeout=SLOW)
    expect(page).to_have_url(re.compile(r"/d/nyc/loaded/codes\?branch=ines%2Fupload$"))
    expect(page.get_by_role("columnheader", name="code")).to_contain_text("string")


def test_sending_shows_how_far_it_is_and_can_be_stopped(open_page: Callable[..., Page], tmp_path: Path) -> None:
    large = tmp_path / "large.csv"
    large.write_text("a,b\n" + f"1,{'x' * 96}\n" * 200_000)
    page = open_page("/upload?dataset=/nyc/raw/airlines", who="ines")
    network = page.context.new_cdp_session(page)
    slow = {"offline": False, "latency": 10, "downloadThroughput": 5e6, "uploadThroughput": 1e6}
    network.send("Network.emulateNetworkConditions", slow)
    page.get_by_label("File").set_input_files(large)
    page.get_by_role("button", name="Send and look at it").click()
    expect(page.locator("[data-sent]")).to_have_text(re.compile(r"^\d+ % sent$"))
    page.get_by_role("button", name="Stop sending").click()
    expect(page.locator("[data-sending]")).to_be_hidden()
    expect(page.get_by_role("button", name="Send and look at it")).to_be_enabled()
