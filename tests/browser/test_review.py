"""What people do on a pull request beside merging it; each test leaves it as it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PULL = "/r/nyc/pulls/1"
TITLE = "Count cancelled flights in the daily delays"


def test_lines_are_chosen_by_two_clicks_and_a_change_of_them_suggested(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{PULL}/code", who="olek")
    rows = page.locator("table.diff").first.locator("tr:has(> td.ln:nth-child(2):not(:empty))")
    texts = [rows.nth(number).locator("td").last.inner_text() for number in (1, 2)]
    rows.nth(1).locator("td.mk").click()
    rows.nth(2).locator("td.mk").click(modifiers=["Shift"])
    page.locator("tr.talk--say").get_by_role("button", name="Suggest a change").click()
    written = page.locator("tr.talk--say textarea")
    expect(written).to_have_value("\n".join(["```suggestion", *texts, "```", ""]))
    written.fill("```suggestion\none line for two\n```")
    page.keyboard.press("Control+Enter")
    change = page.get_by_role("group", name="Suggested change").last
    change.locator("td.mk").first.click()  # a suggested line is no line of the file: it takes no remark
    expect(page.locator("tr.talk--say textarea")).to_be_hidden()
    expect(change.locator("tr.d")).to_have_count(2)
    expect(change.locator("tr.a")).to_contain_text("one line for two")

    writer = open_page(f"{PULL}/code", who="ines")
    expect(writer.get_by_role("button", name="Commit suggestion")).to_be_visible()
    writer.get_by_role("button", name="Commit the chosen").click()
    expect(writer.locator(".flash--error")).to_contain_text("Choose one to 100 suggestions.")
    page.locator("article.remark", has=change).get_by_role("button", name="Resolve").click()


def test_a_thread_is_answered_changed_and_deleted(open_page: Callable[..., Page]) -> None:
    writer = open_page(PULL, who="ines")
    writer.get_by_role("textbox", name="Add a comment").fill("Who owns this number?")
    writer.keyboard.press("Control+Enter")
    thread = "article.card:has-text('Who owns this number?')"
    expect(writer.locator(thread)).to_be_visible()

    reader = open_page(PULL, who="olek")
    reader.locator(thread).locator("summary", has_text="Reply").click()
    reader.locator(thread).get_by_role("textbox", name="Comment").fill("We do, in finanse.")
    reader.keyboard.press("Control+Enter")
    reply = reader.locator(thread).locator("li.reply")
    expect(reply).to_contain_text("We do, in finanse.")
    expect(writer.locator(thread).locator("li.reply")).to_contain_text("We do", timeout=20_000)  # it came by itself

    reply.get_by_role("button", name="Change the comment by olek").click()
    reader.get_by_role("textbox", name="Text").fill("We do, in finance.")
    reader.get_by_role("button", name="Save").click()
    expect(reply).to_contain_text("We do, in finance.")
    reply.get_by_role("button", name="edited").click()
    expect(reader.get_by_role("dialog", name="What it said before")).to_contain_text("finanse")
    reader.keyboard.press("Escape")

    writer.reload()
    writer.locator(thread).get_by_role("button", name="Change the comment by ines").click()
    writer.get_by_role("button", name="Delete the comment").click()
    card = writer.locator("article.card", has=writer.locator("li.reply", has_text="We do, in finance."))
    expect(card).to_contain_text("ines deleted this comment.")


def test_a_click_on_a_cell_takes_a_remark_there(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{PULL}/data?dataset=/nyc/delays/daily", who="olek")
    page.get_by_text("Comment on a row or cell").click()
    cell = page.locator("tr[data-key] td.chg, tr[data-key] td.ins").first
    cell.click()
    page.keyboard.type("Is this right?")
    page.keyboard.press("Control+Enter")
    remark = page.locator("tr.talk .remark", has_text="Is this right?").last
    expect(remark).to_contain_text("column ")
    expect(page.locator("tr[data-key]:has(+ tr.talk)")).to_have_count(1)

    # The dialogs of the page are its, too, and show what was opened last.
    remark.get_by_role("button", name="Change the comment by olek").click()
    page.get_by_role("textbox", name="Text").fill("Is this wrong?")
    page.get_by_role("button", name="Save").click()
    changed = page.locator("tr.talk .remark", has_text="Is this wrong?").last
    for _time in range(2):
        changed.get_by_role("button", name="edited").click()
        expect(page.get_by_role("dialog", name="What it said before")).to_contain_text("Is this right?")
        page.keyboard.press("Escape")


def test_a_dialog_that_gets_nothing_closes_and_the_page_says_why(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL, who="olek", refuses=True)
    page.get_by_role("textbox", name="Add a comment").fill("Soon to be asked for in vain.")
    page.keyboard.press("Control+Enter")
    comment = page.locator("article.card", has_text="Soon to be asked for in vain.")
    page.route("**/comments/*/change", lambda route: route.abort())
    comment.get_by_role("button", name="Change the comment by olek").click()
    expect(page.locator("#live-flash")).to_contain_text("The server did not answer.")
    expect(page.get_by_role("dialog", name="Change a comment")).to_be_hidden()


def test_a_plus_in_a_cell_and_a_key_open_the_form_where_the_pointer_is(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{PULL}/data?dataset=/nyc/delays/daily", who="olek")
    row = page.locator("tr[data-key]").nth(2)
    row.locator("td.chg").first.hover()
    page.get_by_role("button", name="+").click()
    form = page.locator("tr.talk--say form")
    expect(form.get_by_role("textbox", name="Text").or_(form.locator("textarea"))).to_be_focused()
    expect(form.locator("[name='key.carrier']")).to_have_value(row.locator("th.key").nth(1).inner_text())
    expect(form.locator("select")).not_to_have_value("")
    page.keyboard.type("c is a letter here")
    page.mouse.move(0, 0)
    page.locator("tr[data-key]").first.focus()
    page.keyboard.press("j")
    page.keyboard.press("c")
    expect(form).to_be_visible()
    above = form.locator("xpath=ancestor::tr[1]/preceding-sibling::tr[@data-key][1]")
    expect(above).to_have_attribute("data-key", str(page.locator("tr[data-key]").nth(1).get_attribute("data-key")))
    expect(form.locator("select")).to_have_value("")
    page.goto(f"{PULL}/code")
    page.keyboard.press("j")
    page.keyboard.press("c")
    expect(page.locator("tr.talk--say textarea")).to_be_focused()
    page.locator("table.diff tr.a").nth(1).locator("td").last.hover()
    page.get_by_role("button", name="+").click()
    number = page.locator("table.diff tr.a").nth(1).locator("td.ln").last.inner_text()
    expect(page.locator("tr.talk--say input[name=line]")).to_have_value(number)
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page).to_have_url(re.compile("/code$"))


def test_a_column_of_a_schema_takes_remarks(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{PULL}/schema", who="olek")
    columns = page.locator("tr[data-column]")
    columns.nth(1).locator("td").last.hover()
    page.get_by_role("button", name="+").click()
    form = page.locator("tr.talk--say form")
    expect(form.locator("select")).to_have_value(str(columns.nth(1).get_attribute("data-column")))
    page.mouse.move(0, 0)
    columns.first.focus()
    page.keyboard.press("c")
    page.keyboard.type("Since when?")
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile(f"{PULL}/schema"))
    remark = page.locator("tr[data-column] + tr.talk .remark", has_text="Since when?")
    expect(remark).to_be_visible()
    remark.get_by_role("button", name="Resolve").click()
    expect(page.locator("tr.talk .remark", has_text="Since when?")).to_contain_text("Resolved by olek")
    page.goto(PULL)
    page.locator("article.card", has_text="Since when?").get_by_role("link", name=re.compile("nyc")).first.click()
    expect(page).to_have_url(re.compile(f"{PULL}/schema#/nyc/"))


def test_a_viewed_file_folds(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{PULL}/code", who="olek")
    files = page.locator("input[data-viewed]").count()
    page.locator("input[data-viewed]").first.check()
    expect(page.get_by_text(f"1 of {files} viewed")).to_be_visible()
    expect(page.locator(".folded")).to_have_count(1)
    page.locator("input[data-viewed]").first.uncheck()
    expect(page.get_by_text(f"0 of {files} viewed")).to_be_visible()
    page.goto(f"{PULL}/data?dataset=/nyc/delays/daily")
    page.locator("input[data-viewed]").check()
    expect(page.get_by_text(re.compile("1 of .* viewed"))).to_be_visible()
    page.locator("input[data-viewed]").uncheck()
    expect(page.get_by_text(re.compile("0 of .* viewed"))).to_be_visible()


def test_asking_for_changes_stands_against_the_merge_until_it_is_taken_back(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL, who="olek")
    page.locator("details.picker > summary", has_text="Review").click()
    page.get_by_label("Your review").fill("The sum of cancelled is missing.")
    page.get_by_role("radio", name=re.compile("Ask for changes")).check()
    page.get_by_role("button", name="Submit review").click()
    expect(page.locator("#merge-box")).to_contain_text("A reviewer asked for changes")
    expect(page.locator(".verdict")).to_contain_text("Changes asked for")
    page.locator("details.picker > summary", has_text="Review").click()
    page.get_by_role("radio", name=re.compile("Approve")).check()
    page.get_by_role("button", name="Submit review").click()
    expect(page.locator("#merge-box")).not_to_contain_text("A reviewer asked for changes")
    # The approval counts; a new title does not make it void, so it is taken back for the tests beside this one.
    expect(page.locator(".verdict")).to_contain_text("1 of 1 approvals")
    page.locator("details.picker > summary", has_text="Review").click()
    page.get_by_role("radio", name=re.compile("Ask for changes")).check()
    page.get_by_role("button", name="Submit review").click()
    expect(page.locator("#merge-box")).to_contain_text("A reviewer asked for changes")


def test_the_comparison_page_says_that_it_is_open_already(open_page: Callable[..., Page]) -> None:
    page = open_page("/r/nyc/pulls/new", who="ines")
    expect(page.get_by_role("heading", name="Recent branches")).to_be_visible()
    page.get_by_label("from").select_option("feature/cancelled-flights")
    expect(page.locator(".flash--info")).to_contain_text("Already open")
    page.get_by_role("link", name="Go to the pull request").click()
    expect(page).to_have_url(re.compile(f"{PULL}$"))


def test_lists_are_filtered_by_state_and_words(open_page: Callable[..., Page]) -> None:
    page = open_page("/pulls")
    page.get_by_placeholder("Title, branch or number").fill("nothing has this name")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing found")).to_be_visible()
    page.goto("/pulls?q=cancelled")
    expect(page.get_by_role("link", name=re.compile(TITLE))).to_be_visible()


def test_a_part_that_asks_for_itself_waits_while_somebody_writes_in_it(open_page: Callable[..., Page]) -> None:
    page = open_page(PULL, who="olek")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/home/server" in request.url else None)
    page.evaluate(
        """() => {
          const part = document.createElement('div');
          part.innerHTML = `<div id="part" hx-get="/home/server" hx-trigger="every 100ms" hx-swap="innerHTML">
            <textarea aria-label="Said"></textarea></div>`;
          document.querySelector('main').prepend(part);
          part.querySelector('textarea').focus();
          htmx.process(part);
        }"""
    )
    said = page.get_by_role("textbox", name="Said", exact=True)
    said.press_sequentially("half a sen")
    said.blur()
    page.wait_for_timeout(500)
    assert asked == []
    expect(said).to_have_value("half a sen")
    said.fill("")
    said.blur()
    expect(page.locator("#part")).to_contain_text("Worker")
