"""A file is sent by hand: how far it is, and how it is stopped."""

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
