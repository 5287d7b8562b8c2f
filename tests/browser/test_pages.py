"""Every page: no fault in the console, no breach of the policy, no accessibility finding, no sideways scroll."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.factories.tiers import thin

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.factories.installation import Installation

pytestmark = pytest.mark.browser

BRANCH = "feature/cancelled-flights"
PULL = "/r/nyc/pulls/1"
DAILY = "dataset=/nyc/delays/daily"
PAGES = {
    "home": "/",
    "activity": "/activity",
    "search": "/search?q=delays",
    "guide": "/guide",
    "guide-operation": "/guide/operation",
    "settings": "/settings",
    "tokens": "/settings/tokens",
    "profile": "/settings/profile",
    "notification-settings": "/settings/notifications",
    "inbox": "/inbox",
    "inbox-all": "/inbox?state=all",
    "tour": "/?tour=1",
    "repositories": "/repositories",
    "repository-new": "/repositories/new",
    "repository": "/r/nyc/",
    "repository-tree": f"/r/nyc/tree/{BRANCH}/pipelines",
    "repository-blob": f"/r/nyc/blob/{BRANCH}/pipelines/clean.py",
    "repository-edit": f"/r/nyc/edit/{BRANCH}/pipelines/clean.py",
    "repository-new-file": f"/r/nyc/new/{BRANCH}/pipelines",
    "repository-commits": f"/r/nyc/commits/{BRANCH}",
    "repository-commit": "/r/nyc/commit/{commit}",
    "repository-compare": f"/r/nyc/compare?base=master&head={BRANCH}",
    "repository-branches": "/r/nyc/branches",
    "repository-jobspecs": "/r/nyc/jobspecs",
    "repository-datasets": "/r/nyc/datasets",
    "repository-builds": "/r/nyc/builds",
    "repository-settings": "/r/nyc/settings",
    "repository-pulls": "/r/nyc/pulls",
    "labels": "/r/nyc/labels",
    "merge-queue": "/r/nyc/queue",
    "pull-new": f"/r/nyc/pulls/new?source={BRANCH}",
    "pull": PULL,
    "pull-commits": f"{PULL}/commits",
    "pull-code": f"{PULL}/code",
    "pull-code-split": f"{PULL}/code?view=split",
    "pull-schema": f"{PULL}/schema",
    "pull-data": f"{PULL}/data?{DAILY}",
    "pull-data-filtered": f"{PULL}/data?{DAILY}&change=updated&column=flights&columns=all&limit=25",
    "pull-data-wide": f"{PULL}/data?dataset=/nyc/clean/flights&also=origin",
    "pull-statistics": f"{PULL}/data?{DAILY}&show=statistics",
    "pull-over-time": f"{PULL}/data?{DAILY}&show=time&column=mean_delay",
    "pull-three-ways": f"{PULL}/data?{DAILY}&show=both",
    "pull-two-lines": f"{PULL}/data?{DAILY}&change=updated&lines=two&limit=25",
    "pull-row": f"{PULL}/data?{DAILY}&row=2013-01-03,%20AA",
    "pull-conflicts": f"{PULL}/conflicts",
    "repository-sql": "/r/nyc/sql",
    "pull-not-compared": f"{PULL}/data?dataset=/nyc/routes/summary",
    "pull-builds": f"{PULL}/builds",
    "pull-checks": f"{PULL}/checks",
    "pull-lineage": f"{PULL}/lineage",
    "pulls": "/pulls",
    "pulls-merged": "/pulls?state=merged",
    "datasets": "/datasets",
    "dataset": "/d/nyc/delays/daily",
    "dataset-schema": "/d/nyc/delays/daily?tab=schema",
    "dataset-history": "/d/nyc/delays/daily?tab=history",
    "dataset-branches": "/d/nyc/delays/daily?tab=branches",
    "dataset-catalog": "/d/nyc/delays/daily?tab=catalog",
    "dataset-catalog-branch": f"/d/nyc/delays/daily?tab=catalog&branch={BRANCH}&own=1",
    "dataset-lineage": "/d/nyc/delays/daily?tab=lineage",
    "dataset-compare": f"/d/nyc/delays/daily?tab=compare&from=master&to={BRANCH}",
    "dataset-compare-nothing": "/d/nyc/delays/daily?tab=compare&from=master&to=nowhere",
    "dataset-blame": f"/datasets/{{daily}}/blame?branch={BRANCH}&key.day=2013-01-01&key.carrier=UA",
    "dataset-blame-nothing": "/datasets/{daily}/blame",
    "upload": "/upload",
    "upload-into": "/upload?dataset=/nyc/raw/airlines",
    "builds": "/builds",
    "build-new": "/builds/new",
    "build": "/builds/{build}",
}
MOST_NODES = 5_000


@pytest.fixture(scope="package")
def places(installation: Installation) -> dict[str, Any]:
    """Return the numbers that addresses need."""
    token = installation.make_token()
    builds = installation.get("/builds?limit=1", token=token)["results"]
    commits = installation.get(f"/repositories/nyc/commits?branch={BRANCH}", token=token)["results"]
    daily = installation.get("/datasets?path=/nyc/delays/daily", token=token)["results"][0]["id"]
    return {"build": builds[0]["id"], "commit": commits[0]["sha"], "daily": daily}


PAGES_OF_ADMINS = {
    "styleguide": "/styleguide",
    "users": "/settings/users",
    "user": "/settings/users/olek",
    "audit": "/settings/audit",
}
MOST_ALIKE = 5
"""So many lines of a table or a list are looked at: the others are drawn by the same lines of a template."""
DARK_IN_EVERY_RUN = (
    "home",
    "guide",
    "repository-edit",
    "repository-commit",
    "pull",
    "pull-code",
    "pull-schema",
    "pull-data",
    "pull-statistics",
    "pull-checks",
    "pull-lineage",
    "dataset",
    "dataset-compare",
    "build",
)
"""Each kind of content once; the style guide has every component, and is looked at in both schemes."""
OF_COLOURS = ["color-contrast", "link-in-text-block"]
"""Rules of axe that may find in the dark what they do not in the light; no other looks at colours."""
OPEN_POPOVERS = """() => document.querySelectorAll('details').forEach((details) => {
  details.open = true;
  const popover = details.querySelector(':scope > .popover');
  if (popover) popover.style.position = 'static';  // so that it covers nothing else
})"""

DIALOGS_TO_OPEN = """(dialogs) => dialogs
  .filter(({id, children}) => !children[1].matches(':empty') || document.querySelector(`[data-dialog="${id}"]`))
  .map(({id}) => id)"""
OPEN_DIALOG = """(dialog) => {
  const opener = document.querySelector(`main:not(:has(.guide)) [data-dialog="${dialog.id}"][hx-get]`);
  if (opener) opener.click(); else dialog.showModal();
  return Boolean(opener);
}"""
"""What a dialog that is one for many shows comes with the button that opens it; those of the style guide wait for ever."""

RUN_OVER = """() => [...document.querySelectorAll('.rl__c, .list td, .box > header')]
  .filter((cell) => cell.offsetParent && cell.scrollWidth > cell.clientWidth + 1 && getComputedStyle(cell).overflowX === 'visible')
  .map((cell) => cell.innerText)"""
"""Texts that run out of their column, and so over what stands beside it."""


@pytest.mark.parametrize("name", PAGES)
def test_page_is_sound(name: str, open_page: Callable[..., Page], places: dict[str, Any], seen: set[str]) -> None:
    page = open_page(PAGES[name].format(**places), looks=True)
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.querySelectorAll('*').length") <= MOST_NODES
    assert page.evaluate(RUN_OVER) == []
    check_width(page)
    check_all_open(page, seen, "light")


@pytest.mark.parametrize("name", thin(PAGES, every_run=DARK_IN_EVERY_RUN))
def test_page_is_sound_in_the_dark(
    name: str, open_page: Callable[..., Page], places: dict[str, Any], seen: set[str]
) -> None:
    page = open_page(PAGES[name].format(**places), looks=True)
    check_all_open(page, seen, "dark")


@pytest.mark.parametrize("name", PAGES_OF_ADMINS)
def test_page_of_admins_is_sound(name: str, open_page: Callable[..., Page], seen: set[str]) -> None:
    page = open_page(PAGES_OF_ADMINS[name], who="admin", looks=True)
    check_width(page)
    check_all_open(page, seen, "light", "dark")


@pytest.mark.parametrize("name", ["login"])
def test_page_for_strangers_is_sound(name: str, open_page: Callable[..., Page], seen: set[str]) -> None:
    page = open_page(f"/{name}", who="", looks=True)
    check_width(page)
    check_all_open(page, seen, "light", "dark")


@pytest.fixture(scope="package")
def seen() -> set[str]:
    """Dialogs that have been looked at, each with the scheme: they are the same on many pages."""
    return set()


def check_width(page: Page) -> None:
    """See that a narrow window has all of it, and leave the window as it was."""
    wide = page.viewport_size
    page.set_viewport_size({"width": 500, "height": 1000})
    assert measure_overflow(page) <= 0, "the page scrolls sideways at 500 px"
    page.set_viewport_size(wide)  # type: ignore[arg-type] - each has a size


def check_all_open(page: Page, seen: set[str], *schemes: Literal["light", "dark"]) -> None:
    """Look for faults in these schemes, with everything open that opens: what is folded, popovers, each dialog."""
    page.evaluate(OPEN_POPOVERS)
    dialogs = {
        dialog: f"{'-'.join(schemes)} {re.sub(r'[0-9]+', '', dialog)}"
        for dialog in page.locator("dialog[id]").evaluate_all(DIALOGS_TO_OPEN)
    }
    for dialog in ("", *(dialog for dialog, kind in dialogs.items() if kind not in seen)):
        if dialog:
            seen.add(dialogs[dialog])
            if page.locator(f"[id='{dialog}']").evaluate(OPEN_DIALOG):
                expect(page.locator(f"[id='{dialog}'] .dialog__body")).not_to_be_empty()
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            assert find_faults(page) == []
        if dialog:
            page.locator(f"[id='{dialog}']").evaluate("(dialog) => dialog.close()")


def find_faults(page: Page) -> list[str]:
    """Return what axe finds against WCAG 2.2 AA and its own best practice, in the dark against its rules of colours.

    Two kinds of finding are left out. The scroller inside the code editor takes the focus by its content, which the rule
    cannot see. The size of line numbers is constrained by the line height of the text beside them, which the criterion
    excepts and the rule cannot see either.
    """
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    # all findings are told; naming what else was looked at would take longer than to look
    # (and no rule of these tags reads style sheets or sounds, which axe would fetch again for each look)
    options = {"runOnly": OF_COLOURS if is_dark else tags, "resultTypes": ["violations"], "preload": False}
    context = {
        "include": [["html"]],
        "exclude": [[f"{line}:nth-child(n+{MOST_ALIKE + 1})"] for line in ("tbody > tr", "li")],
    }
    run = "async ([context, options]) => (await axe.run(context, options)).violations"
    violations = page.evaluate(run, [context, options])
    return [
        f"{violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in violations
        for node in violation["nodes"]
        if "cm-scroller" not in str(node["target"])
        and not (violation["id"] == "target-size" and 'href="#L' in node["html"])
    ]


def measure_overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than the window."""
    overflow: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return overflow


def test_a_preview_of_code_is_sound(open_page: Callable[..., Page]) -> None:
    page = open_page(f"/r/nyc/edit/{BRANCH}/pipelines/delays.py", who="ines")
    run = page.get_by_role("button", name="Preview", exact=True)
    run.click()
    preview = page.locator("#preview:not([hx-get])")
    expect(preview.get_by_text("Ready")).to_be_visible(timeout=120_000)
    page.wait_for_url("**/r/nyc/previews/*")
    expect(preview.get_by_role("table", name="rows of /nyc/delays/daily")).to_be_visible()
    preview.get_by_role("tab", name="Difference").click()
    expect(preview.get_by_text("Both have written the same rows")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type] - one of its literals
        assert find_faults(page) == []
    page.set_viewport_size({"width": 500, "height": 1000})
    assert measure_overflow(page) <= 0
    page.locator("code-editor .cm-content").click()
    page.keyboard.press("Control+Home")
    page.keyboard.insert_text("raise ValueError('not today')\n")
    run.click()
    expect(preview.get_by_text("Failed")).to_be_visible(timeout=120_000)
    expect(preview).to_contain_text("pipelines/delays.py:1 ValueError: not today")
    page.evaluate("scrollTo(0, 0)")  # lines out of sight are not drawn
    expect(page.locator("code-editor .cm-lint-marker-error").first).to_be_visible()
    page.reload()  # the address keeps what was run
    expect(page.locator("code-editor textarea")).to_have_value(re.compile("^raise ValueError"))
    page.evaluate("scrollTo(0, 0)")  # lines out of sight are not drawn
    expect(page.locator("code-editor .cm-lint-marker-error").first).to_be_visible()
