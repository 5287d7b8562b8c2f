"""Suggestions on lines of code: written by readers, committed by writers, several at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import repositories as make
from tests.factories.clients import a_client, a_rest_client, read_page
from webapp.core.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from webapp.pulls import services
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import Comment, PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"
NOTES = "one\nTWO\nthree\nfour\nfive\n"


@pytest.fixture
def pull(ines: Principal, silent_bell: None) -> PullRequest:
    """A pull request that changes line 2 of one file, and makes another one."""
    repository = make.a_repository("shop", by=ines)
    make.a_commit(repository, {"notes.txt": NOTES.lower()}, by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": NOTES, "more.txt": "x\r\ny"}, branch="feature", by=ines)
    return services.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


@pytest.fixture
def olek(pull: PullRequest) -> Principal:
    """A reader."""
    return make.a_member(pull.repository, "reader", "olek")


def suggest(
    pull: PullRequest, by: Principal, *lines: str, path: str = "notes.txt", line: int = 2, **anchor: Any
) -> Comment:
    body = "\n".join(["Better:", "```suggestion", *lines, "```", "What do you think?"])
    place = {"path": path, "line": line, "side": "head", **anchor}
    return services.add_comment(pull=pull, body=body, by=by, anchor=place)


def read(pull: PullRequest, path: str = "notes.txt") -> str:
    return repositories.read_file(pull.repository, pull.head_sha, path).decode()


def test_page_shows_it_and_a_click_commits_it(pull: PullRequest, olek: Principal, ines: Principal) -> None:
    comment = suggest(pull, olek, "two & <b>more</b>")
    page = read_page(a_client(ines), f"{PAGE}/code")
    assert "two &amp; &lt;b&gt;more&lt;/b&gt;" in page
    assert "1 suggested change can be committed" in page
    assert "suggested change" not in read_page(a_client(olek), f"{PAGE}/code"), "a reader cannot commit it"

    looked_at = re.search(r'name="looked_at" value="([^"]+)"', page)
    assert looked_at is not None
    form = {"only": comment.pk, "comments": "999", "expected_head": pull.head_sha, "looked_at": looked_at[1]}
    body = comment.body
    services.edit_comment(comment=comment, body=body.replace("two", "evil"), by=olek)
    assert "olek changed comment" in a_client(ines).post(f"{PAGE}/suggestions", form, follow=True).text
    services.edit_comment(comment=comment, body=body, by=olek)
    answer = a_rest_client(ines).post(
        "/api/v1/repositories/shop/pulls/1/suggestions",
        {"comments": [comment.pk], "looked_at": looked_at[1]},
        content_type="application/json",
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "suggestion_changed")
    page = read_page(a_client(ines), f"{PAGE}/code")
    form["looked_at"] = re.findall(r'name="looked_at" value="([^"]+)"', page)[0]
    answer = a_client(ines).post(f"{PAGE}/suggestions", form, follow=True)

    pull.refresh_from_db()
    assert f"Committed as {pull.head_sha[:7]}." in answer.text
    assert read(pull) == NOTES.replace("TWO", "two & <b>more</b>")
    commit = repositories.get_commit(pull.repository, pull.head_sha)
    assert commit.message == "Apply suggestion on notes.txt\n\nCo-authored-by: olek <olek@example.org>\n"
    assert commit.author.name == "ines"
    comment.refresh_from_db()
    assert (comment.resolved_at is not None, comment.resolved_by_id) == (True, ines.user_id)
    assert "can be committed" not in read_page(a_client(ines), f"{PAGE}/code")


def test_several_become_one_commit(pull: PullRequest, olek: Principal, ines: Principal) -> None:
    suggestions = [
        suggest(pull, olek, "first", "second", line=1),
        suggest(pull, olek, line=4, start_line=3),
        suggest(pull, ines, "why", path="more.txt", line=2),
    ]
    before = pull.head_sha
    form = {"comments": [comment.pk for comment in suggestions], "message": "As Olek wished"}
    assert a_client(ines).post(f"{PAGE}/suggestions", form).status_code == 302

    pull.refresh_from_db()
    assert (read(pull), read(pull, "more.txt")) == ("first\nsecond\nTWO\nfive\n", "x\r\nwhy")
    commit = repositories.get_commit(pull.repository, pull.head_sha)
    assert commit.parents == (before,)
    assert commit.message == "As Olek wished\n\nCo-authored-by: olek <olek@example.org>\n"


def test_one_in_a_reply_is_of_the_thread_s_lines(pull: PullRequest, olek: Principal, ines: Principal) -> None:
    anchor = {"path": "notes.txt", "line": 3, "start_line": 2, "side": "head"}
    thread = services.add_comment(pull=pull, body="One line, please.", by=olek, anchor=anchor)
    reply = services.add_comment(pull=pull, body="```suggestion\n2, 3\n```", by=ines, reply_to=thread.pk)
    assert "lines 2 to 3" in read_page(a_client(olek), f"{PAGE}/code")
    services.commit_suggestions(pull=pull, comments=[reply.pk], by=ines)
    assert read(pull) == "one\n2, 3\nfour\nfive\n"
    thread.refresh_from_db()
    assert thread.resolved_at is not None


def test_what_does_not_fit_is_refused_and_changes_nothing(pull: PullRequest, olek: Principal, ines: Principal) -> None:
    comment = suggest(pull, olek, "two")
    before = suggest(pull, olek, "two", side="base")
    plain = services.add_comment(pull=pull, body="Why?", by=olek, anchor={"path": "notes.txt", "line": 2})
    overlapping = suggest(pull, olek, "x", line=3, start_line=1)
    head = pull.head_sha
    for numbers, error, words in (
        ([], InvalidInput, "Choose one to 100"),
        ([999], NotFound, "no comment 999"),
        ([plain.pk], InvalidInput, f"Comment {plain.pk} suggests no change"),
        ([before.pk], InvalidInput, "suggests no change of the branch's code"),
        ([comment.pk, overlapping.pk], InvalidInput, "Two suggestions change line 2"),
    ):
        with pytest.raises(error, match=words):
            services.commit_suggestions(pull=pull, comments=numbers, by=ines)
    with pytest.raises(PermissionDenied):
        services.commit_suggestions(pull=pull, comments=[comment.pk], by=olek)
    with pytest.raises(Conflict, match="somebody pushed"):
        services.commit_suggestions(pull=pull, comments=[comment.pk], by=ines, expected_head=pull.base_sha)
    pull.refresh_from_db()
    assert pull.head_sha == head

    make.a_commit(pull.repository, {"notes.txt": NOTES.replace("TWO", "2")}, branch="feature", by=ines)
    with pytest.raises(Conflict, match="have changed since"):
        services.commit_suggestions(pull=pull, comments=[comment.pk], by=ines)
    assert "can be committed" not in read_page(a_client(ines), f"{PAGE}/code")


def test_a_closed_pull_request_takes_none(pull: PullRequest, olek: Principal, ines: Principal) -> None:
    comment = suggest(pull, olek, "two")
    services.close_pull(pull=pull, by=ines)
    with pytest.raises(Conflict, match="closed"):
        services.commit_suggestions(pull=pull, comments=[comment.pk], by=ines)
    assert "can be committed" not in read_page(a_client(ines), f"{PAGE}/code")


def test_a_comment_suggests_one_change(pull: PullRequest, olek: Principal) -> None:
    with pytest.raises(InvalidInput, match="one change"):
        suggest(pull, olek, "a", "```", "or", "```suggestion", "b")


@pytest.mark.parametrize(
    "place", [{"line": 2, "start_line": 3}, {"line": 2, "start_line": 0}, {"line": 200, "start_line": 1}]
)
def test_lines_run_forwards_and_are_not_too_many(pull: PullRequest, olek: Principal, place: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="anchor"):
        services.add_comment(pull=pull, body="Hm.", by=olek, anchor={"path": "notes.txt", **place})
