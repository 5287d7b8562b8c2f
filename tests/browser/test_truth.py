"""What a page goes on saying after something has moved: ends are ends, counts are new, messages are news once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import requests
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from tests.factories.installation import Installation

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

BRANCH = "truth/ends"


def post(installation: Installation, path: str, body: Any) -> Any:
    """Ask the REST API for something new."""
    answer = requests.post(
        f"{installation.api}{path}",
        json=body,
        headers={"Authorization": f"Bearer {installation.make_token()}"},
        timeout=60,
    )
    assert answer.status_code in {201, 202, 409}, answer.text
    return answer.json()


def test_a_build_that_ends_leaves_nothing_old_on_its_page(
    open_page: Callable[..., Page], installation: Installation
) -> None:
    post(installation, "/repositories/nyc/branches", {"name": BRANCH, "start_point": "master"})
    targets = {"repository": "nyc", "branch": BRANCH, "targets": ["/nyc/delays/by_carrier"], "force": True}
    build = post(installation, "/builds", targets)
    page = open_page(f"/builds/{build['id']}")
    others = open_page("/r/nyc/builds")
    running = page.locator("#repobar").get_by_role("link", name="Builds")
    expect(page.locator(".page-head .state")).to_have_text("Completed", timeout=120_000)
    expect(running).to_have_text(re.compile(r"Builds\s*0"))
    expect(page.locator("[data-log-status]")).to_have_text(re.compile(r"^\d+ lines, end"))
    expect(others.get_by_role("row", name=f"build {build['id']}")).to_contain_text("Completed", timeout=15_000)
    expect(others.locator("#repobar").get_by_role("link", name="Builds")).to_have_text(re.compile(r"Builds\s*0"))


FOLLOW_ANOTHER = """() => {
  const log = document.querySelector('follow-log').cloneNode(true);
  log.setAttribute('src', '/events/jobs/the-last/log');
  document.querySelector('follow-log').replaceWith(log);
}"""
"""Draw the log again, of a job whose stream the test writes."""


def test_a_log_is_followed_until_its_reader_scrolls_up_and_its_errors_are_found(open_page: Callable[..., Page]) -> None:
    page = open_page("/builds/6")
    waiting = [[*range(90_001, 90_201)]]

    def answer(route: Route) -> None:
        """Bring the lines that are new, and end: the browser connects again by itself."""
        lines = [
            {"n": n, "t": "", "level": "error" if n == 90_020 else "info", "text": f"line {n}"}
            for n in (waiting.pop() if waiting else ())
        ]
        body = f"retry: 100\n\nevent: line\ndata: {json.dumps(lines)}\n\n"
        route.fulfill(content_type="text/event-stream", body=body)

    page.route("/events/jobs/*/log*", answer)
    page.evaluate(FOLLOW_ANOTHER)
    follow, log = page.get_by_label("Follow"), page.get_by_role("log")
    log.scroll_into_view_if_needed()
    expect(page.locator("#L90200")).to_be_in_viewport()
    expect(follow).to_be_checked()
    log.hover()
    page.mouse.wheel(0, -1500)
    expect(follow).not_to_be_checked()
    place = log.evaluate("(pane) => pane.scrollTop")
    waiting.append([*range(90_201, 90_251)])
    expect(page.locator("#L90250")).to_be_attached()
    assert log.evaluate("(pane) => pane.scrollTop") == place

    error = page.locator("#L90020")
    expect(error).to_contain_text("Error: line 90020")
    expect(error).not_to_be_in_viewport()
    page.get_by_role("button", name="First error").click()
    expect(error).to_be_in_viewport()
    expect(error.locator("a")).to_be_focused()
    follow.check()
    expect(page.locator("#L90250")).to_be_in_viewport()


def test_a_log_whose_last_lines_come_with_its_end_is_not_live(open_page: Callable[..., Page]) -> None:
    page = open_page("/builds/6")
    lines = [{"n": 90_001, "t": "", "level": "info", "text": "the last one"}]
    events = [("line", lines), ("done", {"reason": "COMPLETED", "code": 0})]
    stream = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    page.route("/events/jobs/*/log*", lambda route: route.fulfill(content_type="text/event-stream", body=stream))
    page.evaluate(FOLLOW_ANOTHER)
    expect(page.get_by_text("the last one")).to_be_attached()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(page.locator("[data-log-status]")).to_have_text("90001 lines, end of the log")


def test_what_a_page_says_is_asked_for_again_when_a_part_has_settled(open_page: Callable[..., Page]) -> None:
    page = open_page("/r/nyc/pulls/1")
    page.route("**/probe", lambda route: route.fulfill(content_type="text/html", body='<p id="probe">over</p>'))
    page.evaluate("""() => {
      for (const old of document.querySelectorAll('#repobar .count, #inbox .pip, #verdict b')) old.textContent = 'old';
      const news = '<p data-news>It begins.</p><p id="probe" hx-get="/probe" hx-trigger="every 1s" hx-swap="outerHTML"></p>';
      document.getElementById('flash').innerHTML = news;
      htmx.process(document.getElementById('flash'));
    }""")
    expect(page.locator("#probe")).to_have_text("over")
    for place in ("#repobar", "#inbox", "#verdict"):
        expect(page.locator(place)).not_to_contain_text("old")
    expect(page.get_by_text("It begins.")).to_have_count(0)


def test_a_comment_of_another_appears_and_nothing_typed_is_lost(
    open_page: Callable[..., Page], installation: Installation
) -> None:
    page = open_page("/r/nyc/pulls/1", who="mira")
    page.get_by_role("textbox", name="Add a comment").fill("not sent yet")
    page.get_by_role("textbox", name="Add a comment").focus()
    page.evaluate("() => document.getElementById('pull-side').dataset.old = '1'")
    post(installation, "/repositories/nyc/pulls/1/comments", {"body": "Seen while you type."})
    comment = page.locator(".timeline").get_by_text("Seen while you type.")
    expect(comment).to_be_attached(timeout=30_000)
    expect(page.locator("#pull-side[data-old]")).to_have_count(0)
    expect(page.get_by_role("textbox", name="Add a comment")).to_have_value("not sent yet")
    expect(page.get_by_role("textbox", name="Add a comment")).to_be_in_viewport()
    expect(page.get_by_role("textbox", name="Add a comment")).to_be_focused()


@pytest.fixture
def page_of_olek(open_page: Callable[..., Page]) -> Page:
    """Return a page whose clock goes on only where the test says so."""
    page = open_page("/settings", who="olek")
    page.clock.install(time=0)
    page.clock.pause_at(1_000)
    return page


def test_a_message_is_news_once(page_of_olek: Page) -> None:
    page = page_of_olek
    page.get_by_role("button", name="Save").click()
    news = page.locator("[data-news]")
    expect(news).to_have_text(re.compile(r"\s*Saved\.\s*"))
    page.goto("/settings/tokens")
    page.go_back()
    expect(news).to_have_count(0)
    page.get_by_role("button", name="Save").click()
    expect(news).to_be_visible()
    page.clock.run_for(5_000)
    news.hover()
    page.clock.run_for(5_000)
    expect(news).to_be_visible()
    page.mouse.move(0, 0)
    page.clock.run_for(7_000)
    expect(news).to_have_count(0)


def test_a_message_can_be_read_even_where_its_matter_settles_at_once(page_of_olek: Page) -> None:
    page = page_of_olek
    page.get_by_role("button", name="Save").click()
    news = page.locator("[data-news]")
    expect(news).to_be_visible()
    page.clock.run_for(500)
    page.evaluate("() => { document.body.dispatchEvent(new CustomEvent('settled')); }")
    page.clock.run_for(1_500)
    expect(news).to_be_visible()
    page.clock.run_for(2_000)
    expect(news).to_have_count(0)
