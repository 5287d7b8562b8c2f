"""Two people edit one file: nothing that was typed is lost, nothing of the other is overwritten unseen."""

from __future__ import annotations

import io
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from tests.browser.conftest import CookiesOf
    from tests.factories.installation import Installation

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
BRANCH = "editing/together"


@pytest.fixture
def page(
    browser: Browser, browser_context_args: dict[str, Any], installation: Installation, cookies_of: CookiesOf
) -> Iterator[Page]:
    """Return a page of Ines'. Chromium reports the refusal that this test is about as a console error, so none is read."""
    context = browser.new_context(
        **{**browser_context_args, "base_url": installation.url, "storage_state": cookies_of(installation, "ines")}
    )
    yield context.new_page()
    context.close()


def _post(installation: Installation, token: str, path: str, body: Any) -> Any:
    answer = requests.post(
        f"{installation.api}{path}", json=body, headers={"Authorization": f"Bearer {token}"}, timeout=60
    )
    assert answer.status_code in {201, 409}, answer.text
    return answer.json()


def _make_branch(installation: Installation, branch: str, change: dict[str, str]) -> None:
    """Make a branch of master with a commit of one change."""
    token = installation.make_token()
    _post(installation, token, "/repositories/nyc/branches", {"name": branch, "start_point": "master"})
    _post(installation, token, "/repositories/nyc/commits", {"branch": branch, "message": "Seed", "changes": [change]})


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


def test_a_cell_is_changed_and_no_other_byte(page: Page, installation: Installation) -> None:
    branch = "editing/cells"
    text = '\ufeffcode,name,note\nUA,"United, Inc.",\nAA,American,"says ""hi"""\nB6,JetBlue'
    _make_branch(installation, branch, {"path": "seeds/nyc/codes.csv", "content": text})
    page.goto(f"/r/nyc/edit/{branch}/seeds/nyc/codes.csv")
    expect(page.get_by_label("name of row 1")).to_have_value("United, Inc.")
    expect(page.locator(".rows__odd")).to_have_count(1)
    page.get_by_label("note of row 1").fill('big, "old"')
    page.get_by_label("note of row 1").press("Enter")
    expect(page.get_by_label("note of row 2")).to_be_focused()
    page.get_by_role("searchbox", name="Find rows").fill("amer")
    expect(page.get_by_text("1 of 3 rows")).to_be_visible()
    page.get_by_label("name of row 2").fill("American Airlines")
    page.get_by_role("button", name="Add a row").click()
    page.keyboard.type("DL")
    changed = (
        '\ufeffcode,name,note\nUA,"United, Inc.","big, ""old"""\nAA,American Airlines,"says ""hi"""\nB6,JetBlue\nDL,,\n'
    )
    expect(page.locator("code-editor textarea")).to_have_value(changed)
    page.get_by_role("tab", name="Text").click()
    page.locator("code-editor .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("F9,Frontier,")
    page.get_by_role("tab", name="Rows").click()
    page.get_by_role("searchbox", name="Find rows").fill("")
    expect(page.get_by_label("name of row 5")).to_have_value("Frontier")
    page.get_by_role("button", name="Remove row 4").click()
    page.get_by_role("button", name="Commit").click()
    expect(page.get_by_text(f"to {branch}.")).to_be_visible()
    raw = page.request.get(f"/r/nyc/raw/{branch}/seeds/nyc/codes.csv").body().decode()
    assert raw == changed.replace("DL,,\n", "F9,Frontier,")


def test_a_cell_of_json_lines_is_changed_and_no_other_byte(page: Page, installation: Installation) -> None:
    branch = "editing/lines"
    text = (
        '{"code":"UA",  "flights": 12345678901234567890.10, "tags": [1, 2]}\n\n'
        '{"code": "AA", "note": "says \\"hi\\""}\n{"flights": null}'
    )
    _make_branch(installation, branch, {"path": "seeds/nyc/lines.jsonl", "content": text})
    page.goto(f"/r/nyc/edit/{branch}/seeds/nyc/lines.jsonl")
    expect(page.get_by_label("flights of row 1")).to_have_value("12345678901234567890.10")
    expect(page.get_by_label("tags of row 1")).to_have_value("[1, 2]")
    expect(page.get_by_label("note of row 2")).to_have_value('says "hi"')
    page.get_by_label("code of row 1").fill("7")
    page.get_by_label("flights of row 2").fill("2.50")
    page.get_by_label("note of row 2").fill("")
    page.get_by_label("tags of row 3").fill("none")
    page.get_by_role("button", name="Add a row").click()
    page.keyboard.type("DL")
    changed = (
        '{"code":"7",  "flights": 12345678901234567890.10, "tags": [1, 2]}\n\n'
        '{"code": "AA", "note": null, "flights": 2.50}\n{"flights": null, "tags": "none"}\n'
        '{"code": "DL", "flights": null, "tags": null, "note": null}\n'
    )
    expect(page.locator("code-editor textarea")).to_have_value(changed)
    page.get_by_role("button", name="Remove row 2").click()
    page.get_by_role("button", name="Commit").click()
    expect(page.get_by_text(f"to {branch}.")).to_be_visible()
    raw = page.request.get(f"/r/nyc/raw/{branch}/seeds/nyc/lines.jsonl").body().decode()
    assert raw == changed.replace('{"code": "AA", "note": null, "flights": 2.50}\n', "")


def test_a_cell_of_a_parquet_file_is_changed(page: Page, installation: Installation) -> None:
    branch = "editing/parquet"
    table = pa.table({"code": ["AA", "B6"], "note": pa.nulls(2, pa.string()), "flights": pa.array([1, 2], pa.int32())})
    pq.write_table(table, file := io.BytesIO())
    content = b64encode(file.getvalue()).decode()
    _make_branch(installation, branch, {"path": "seeds/nyc/rows.parquet", "content_base64": content})
    page.goto(f"/r/nyc/blob/{branch}/seeds/nyc/rows.parquet")
    page.get_by_role("link", name="Edit", exact=True).click()
    page.get_by_label("note of row 1").fill("12")
    page.get_by_label("flights of row 2").fill("many")
    page.get_by_role("button", name="Commit").click()
    refusal = "line 2: column 'flights' takes a whole number (int32), not \"many\""
    expect(page.get_by_role("alert")).to_contain_text(refusal)
    expect(page.get_by_label("note of row 1")).to_have_value("12")
    page.get_by_label("flights of row 2").fill("3")
    page.get_by_role("button", name="Commit").click()
    expect(page.get_by_text(f"to {branch}.")).to_be_visible()
    raw = page.request.get(f"/r/nyc/raw/{branch}/seeds/nyc/rows.parquet").body()
    changed = pq.read_table(io.BytesIO(raw))
    assert changed.schema == table.schema
    assert changed.to_pydict() == {"code": ["AA", "B6"], "note": ["12", None], "flights": [1, 3]}


def test_paths_and_columns_are_offered_between_quotes(page: Page) -> None:
    page.goto("/r/nyc/edit/master/pipelines/clean.py")
    page.locator("code-editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text('daily = TableInput("/nyc/delays/daily")\nother = ')
    page.keyboard.type('"/nyc/del')
    offered = page.locator("code-editor .cm-tooltip-autocomplete li")
    expect(offered.filter(has_text="/nyc/delays/daily")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("End")
    page.keyboard.insert_text("\ncolumn = ")
    page.keyboard.type('"carr')
    # Enter counts only once the offer has been seen for a moment; a click says which one is meant.
    offered.filter(has_text="carrier").first.click()
    expect(page.locator("code-editor textarea")).to_have_value(re.compile(r'column = "carrier'))


def test_a_conflict_is_resolved_by_buttons_and_problems_are_shown_at_their_lines(
    page: Page, installation: Installation
) -> None:
    token, branch, target = installation.make_token(), "editing/conflict", "editing/target"
    for name, text in ((target, "a\nb\n"), (branch, "")):
        start = "master" if name == target else target
        _post(installation, token, "/repositories/nyc/branches", {"name": name, "start_point": start})
        if text:
            _commit(installation, token, name, text)
    _commit(installation, token, branch, "a\nours\n")
    _commit(installation, token, target, "a\ntheirs\n")
    body = {"title": "Conflict", "source": branch, "target": target}
    number = _post(installation, token, "/repositories/nyc/pulls", body)["number"]
    page.goto(f"/r/nyc/pulls/{number}")
    page.get_by_role("link", name="Resolve conflicts").click()
    page.get_by_role("button", name="Use both").click()
    expect(page.locator("code-editor textarea")).to_have_value("a\nours\ntheirs\n")
    page.get_by_role("button", name="Commit the merge").click()
    expect(page.get_by_text(f"{branch} has every commit of {target} now. 1 file resolved.")).to_be_visible()

    page.goto(f"/r/nyc/edit/{branch}/pipelines/clean.py")
    page.locator("code-editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("print(missing)\n")
    marker = page.locator("code-editor .cm-lint-marker-warning")
    expect(marker).to_be_visible()
    page.get_by_role("searchbox", name="Filter files").fill("notes")
    page.get_by_role("button", name="notes.md").click()
    page.wait_for_url("**/notes.md")
    expect(page.get_by_role("button", name="pipelines/clean.py", exact=True)).to_be_visible()
    page.get_by_role("button", name="Preview changes").click()
    expect(page.get_by_role("heading", name="pipelines/clean.py")).to_be_visible()
    expect(page.locator("table.diff").first).to_contain_text("print(missing)")


def test_each_rule_that_conflicts_is_chosen_by_itself(page: Page, installation: Installation) -> None:
    token, branch, target = installation.make_token(), "editing/rules", "editing/their-rules"
    rules = '[folders]\nowned = ["/nyc"]\n\n[owners]\n"/nyc/clean" = ["{}"]\n"/nyc/delays" = ["{}"]\n'
    for name, people in ((target, ("mira", "rolf")), (branch, ("ines", "olek"))):
        _post(installation, token, "/repositories/nyc/branches", {"name": name, "start_point": "master"})
        _commit(installation, token, name, rules.format(*people), path="pipeline.toml")
    body = {"title": "Rules", "source": branch, "target": target}
    number = _post(installation, token, "/repositories/nyc/pulls", body)["number"]
    page.goto(f"/r/nyc/pulls/{number}/conflicts")
    place = page.get_by_label('[owners] "/nyc/clean"')
    expect(place).to_be_hidden()
    page.get_by_label("Choose for each").check()
    expect(page.locator("code-editor")).to_be_hidden()
    place.select_option(label=branch)
    page.get_by_label('[owners] "/nyc/delays"').select_option(label=target)
    page.get_by_role("button", name="Commit the merge").click()
    expect(page.get_by_text(f"{branch} has every commit of {target} now. 1 file resolved.")).to_be_visible()
    page.goto(f"/r/nyc/blob/{branch}/pipeline.toml")
    expect(page.locator("#main")).to_contain_text('"/nyc/clean" = ["ines"]')
    expect(page.locator("#main")).to_contain_text('"/nyc/delays" = ["rolf"]')


def _commit(installation: Installation, token: str, branch: str, text: str, path: str = "notes.md") -> None:
    change = {"path": path, "content": text}
    body = {"branch": branch, "message": "Note", "changes": [change]}
    _post(installation, token, "/repositories/nyc/commits", body)
