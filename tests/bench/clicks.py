"""From click to paint: what a reader of the demo waits for in a browser, with all that the server does meanwhile.

    make bench-pages           or    python -m tests.bench.clicks [--repeat 9]

Prints the median and the slowest of each act in milliseconds, from the click to the frame after the new content: pressed out
of nowhere, as a key does it, and with a pointer that has come to rest on what it clicks.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from tests.factories.browser import find_browser
from tests.factories.installation import running_installation

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.factories.installation import Installation

GOAL_MS = 100
REST_MS = 500
"""So long a page has been there before somebody clicks: sooner nobody has read a word of it, and it is still settling."""
DAILY = "/r/nyc/pulls/1/data?dataset=/nyc/delays/daily"
POINTED_MS = 80
"""So long a pointer rests before the button goes down: less than most hands take to aim."""
IN_PLACE = """
selector => {
  window.painted = new Promise(done => {
    document.addEventListener('click', () => {
      const start = performance.now();
      const paint = () => requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
      const isAsked = document.querySelector(selector).closest('[hx-boost="true"]');
      if (isAsked) document.body.addEventListener('htmx:afterSettle', paint, {once: true});
      else paint();
    }, {capture: true, once: true});
  });
}
"""
"""What a click changes on the page; what htmx asks for is there once it has settled."""


@dataclass(frozen=True)
class Act:
    """Something that a reader clicks on."""

    page: str
    selector: str


ACTS = {
    "filter: changed rows": Act(DAILY, "nav[aria-label='Kind of change'] a[href*='change=updated']"),
    "page: the next rows": Act(f"{DAILY}&limit=25", "#rows-next"),
    "expand: all columns": Act(f"{DAILY}&change=updated", "#rows-columns"),
    "expand: the checks that are met": Act("/r/nyc/pulls/1", "#merge-box details > summary"),
    "tab: the schema": Act("/r/nyc/pulls/1", "#tab-schema"),
    "tab: the data": Act("/r/nyc/pulls/1", "#tab-data"),
}


def main() -> None:
    """Start the product with its demo, click, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        with running_installation(home) as installation:
            show(measure(installation, repeat))


def measure(installation: Installation, repeat: int) -> dict[str, list[float]]:
    """Return the milliseconds of each act; its first time, which compiles, is left out."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_browser(), chromium_sandbox=False)
        page = chromium.new_page(base_url=installation.url, viewport={"width": 1400, "height": 1000})
        page.goto("/login")
        page.fill("#id_username", "mira")
        page.fill("#id_password", installation.password_of("mira"))
        page.press("#id_password", "Enter")
        page.wait_for_url(f"{installation.url}/")
        return {
            f"{name}{manner}": [click(page, act, by) for _ in range(repeat + 1)][1:]
            for name, act in ACTS.items()
            for manner, by in {"": press, ", pointed at": point}.items()
        }


def click(page: Page, act: Act, by: Callable[[Page, str], None]) -> float:
    """Milliseconds from a click to what is seen of it."""
    page.goto(act.page)
    page.wait_for_timeout(REST_MS)
    page.evaluate(IN_PLACE, act.selector)
    by(page, act.selector)
    return float(page.evaluate("() => window.painted"))


def press(page: Page, selector: str) -> None:
    """Click on something that nobody has pointed at."""
    page.evaluate("selector => document.querySelector(selector).click()", selector)


def point(page: Page, selector: str) -> None:
    """Come to rest on something, and click."""
    page.hover(selector)
    page.wait_for_timeout(POINTED_MS)
    page.mouse.down()
    page.mouse.up()


def show(measured: dict[str, list[float]]) -> None:
    """Print a line for each act."""
    print(f"{'from click to paint':<44}{'median':>9}{'slowest':>10}")
    for name, values in measured.items():
        median = statistics.median(values)
        mark = "" if median <= GOAL_MS else f"  over {GOAL_MS} ms"
        print(f"{name:<44}{median:>6.0f} ms{max(values):>7.0f} ms{mark}")


if __name__ == "__main__":
    main()
