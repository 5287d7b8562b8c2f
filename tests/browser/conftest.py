"""A real browser against the running product. Any console error, page error or policy violation fails the test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page

from tests.factories.browser import find_browser
from tests.factories.installation import Demo, Installation

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error

SignIn = Callable[[str], Page]
CookiesOf = Callable[[Installation, str], Any]
QUIET = ("gpu", "quic", "background-networking", "component-update", "sync")
STOPPED = ("htmx:sendAbort,", "htmx:afterRequest,")
"""What htmx writes of a request that somebody stops; one that fails has more than these."""
NOTE_VIOLATIONS = """
window.violations = [];
addEventListener('securitypolicyviolation', (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """Return how Debian's Chromium starts; Playwright's own browser is never fetched."""
    return {
        "executable_path": find_browser(),
        "chromium_sandbox": False,
        "args": ["--no-first-run", *(f"--disable-{name}" for name in QUIET)],
    }


@pytest.fixture(scope="session")
def browser_context_args() -> dict[str, Any]:
    """Return what every context has in common, so that pictures and texts are the same everywhere."""
    return {
        "viewport": {"width": 1400, "height": 1000},
        "reduced_motion": "reduce",
        "locale": "en-GB",
        "timezone_id": "UTC",
    }


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo for all installations of the run's browser tests."""
    return Demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="package")
def installation(demo: Demo) -> Iterator[Installation]:
    """The whole product with its demo, as a user starts it; it ends with the tests of this folder."""
    with demo.running() as running:
        yield running


@pytest.fixture(scope="session")
def cookies_of(browser: Browser, browser_context_args: dict[str, Any]) -> CookiesOf:
    """Return the cookies of a person at an installation, signed in there once through the page."""
    known: dict[tuple[str, str], Any] = {}

    def find(installation: Installation, username: str) -> Any:
        if (installation.url, username) not in known:
            context = browser.new_context(**browser_context_args)
            page = context.new_page()
            page.goto(f"{installation.url}/login")
            page.get_by_role("textbox", name="Username").or_(page.get_by_role("textbox", name="User name")).fill(
                username
            )
            page.get_by_label("Password").fill(installation.password_of(username))
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(lambda url: "/login" not in url)
            known[installation.url, username] = context.storage_state()
            context.close()
        return known[installation.url, username]

    return find


@pytest.fixture(scope="package")
def looked_at(browser: Browser, browser_context_args: dict[str, Any]) -> Iterator[dict[str, Page]]:
    """The pages of those who only look, by name: each goes from address to address, as a person does."""
    pages: dict[str, Page] = {}
    yield pages
    for page in pages.values():
        page.context.close()


@pytest.fixture
def open_page(
    browser: Browser,
    browser_context_args: dict[str, Any],
    installation: Installation,
    cookies_of: CookiesOf,
    looked_at: dict[str, Page],
) -> Iterator[Callable[..., Page]]:
    """Open an address as a person; at the end of the test nothing may have gone wrong in any opened page.

    Who only looks does so in a page that other tests have opened before: a new one takes longer than most looks.
    """
    contexts: list[BrowserContext] = []
    pages: list[Page] = []
    problems: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not message.text.startswith(STOPPED):
            problems.append(
                f"console: {message.text} at {message.location} on {message.page.url if message.page else None}"
            )

    def note_error(error: Error) -> None:
        problems.append(f"script: {error}")

    def make(who: str, **more: Any) -> Page:
        context = browser.new_context(
            **{
                **browser_context_args,
                "base_url": installation.url,
                "storage_state": cookies_of(installation, who) if who else None,
                **more,
            }
        )
        page = context.new_page()
        page.add_init_script(NOTE_VIOLATIONS)
        return page

    def open_at(
        path: str, *, who: str = "mira", status: int = 200, refuses: bool = False, looks: bool = False, **more: Any
    ) -> Page:
        if looks:
            page = looked_at.get(who) or looked_at.setdefault(who, make(who))
            page.set_viewport_size(more.get("viewport") or browser_context_args["viewport"])
            page.emulate_media(color_scheme="light")
        else:
            page = make(who, **more)
            contexts.append(page.context)
        if status == 200 and not refuses:  # Chromium calls every answer of another status an error
            page.on("console", note)
        page.on("pageerror", note_error)
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == status, f"{path} answered {answer.status}"
        pages.append(page)
        return page

    yield open_at
    for page in pages:
        if not page.is_closed():
            problems.extend(f"policy: {one}" for one in page.evaluate("window.violations ?? []"))
    for context in contexts:
        context.close()
    for page in looked_at.values():
        with contextlib.suppress(KeyError):
            page.remove_listener("pageerror", note_error)
            page.remove_listener("console", note)
    assert not problems, "\n".join(problems)


@pytest.fixture
def sign_in(open_page: Callable[..., Page]) -> SignIn:
    """Return a way to get a page of a person's own, signed in and at home."""
    return lambda username: open_page("/", who=username)
