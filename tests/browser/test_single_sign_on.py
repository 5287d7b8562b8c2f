"""A person's whole way in and out by a real provider, in a real browser, without an installation of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NOTE_VIOLATIONS
from tests.browser.test_pages import find_faults, measure_overflow
from tests.factories.oidc import running_oidc_provider

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def page(
    live_server: Any, settings: Any, tmp_path: Path, browser: Browser, browser_context_args: dict[str, Any]
) -> Iterator[Page]:
    with running_oidc_provider(tmp_path, url=live_server.url) as provider:
        for name, value in provider.settings_for(live_server.url).items():
            setattr(settings, name, value)
        context = browser.new_context(**browser_context_args, base_url=live_server.url)
        # The provider's own pages ask for a font.
        context.route("https://fonts.googleapis.com/**", lambda route: route.fulfill(body="", content_type="text/css"))
        page = context.new_page()
        page.add_init_script(NOTE_VIOLATIONS)
        problems: list[str] = []
        page.on("console", lambda message: problems.append(f"{message.location} {message.text}"))
        yield page
        problems += page.evaluate("window.violations")
        context.close()
        assert [problem for problem in problems if live_server.url in problem] == []


def check_soundness(page: Page) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type] - one of its literals
        assert find_faults(page) == []
    page.set_viewport_size({"width": 400, "height": 1000})
    assert measure_overflow(page) <= 0
    page.set_viewport_size({"width": 1400, "height": 1000})


def test_somebody_signs_in_by_the_provider_and_out_of_both(page: Page) -> None:
    page.goto("/settings/profile")
    check_soundness(page)
    page.get_by_role("link", name="Sign in with Example ID").click()
    page.get_by_placeholder("Enter any login").fill("ines")
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url("**/settings/profile")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Inés Ruiz")
    expect(page.get_by_role("row", name="this one")).to_contain_text("Chrome on Linux")
    expect(page.get_by_label("Account", exact=True)).to_contain_text("stewards")
    check_soundness(page)

    page.locator("summary.me").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out of Tributary")).to_be_visible()
    page.get_by_role("link", name="Sign out of Example ID").click()
    page.get_by_role("button", name="Yes, sign me out").click()
    page.wait_for_url("**/login?*")
    expect(page.get_by_role("link", name="Sign in with Example ID")).to_be_visible()
