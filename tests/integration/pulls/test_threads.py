"""Threads of comments: replies, what a comment said before, what is deleted, and threads that stand against the merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from tests.integration.pulls.test_news import find_news_url
from webapp.accounts.models import AuditEntry
from webapp.core.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from webapp.pulls import services
from webapp.pulls.models import CommentVersion
from webapp.pulls.queries import pulls as queries
from webapp.repositories.services import set_protection

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import Comment, PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"
LINE = {"path": "notes.txt", "line": 2, "side": "head"}


@pytest.fixture
def pull(ines: Principal, silent_bell: None) -> PullRequest:
    """A pull request that changes line 2 of a file."""
    repository = make.a_repository("shop", by=ines)
    make.a_commit(repository, {"notes.txt": "one\ntwo\n"}, by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "one\nTWO\n"}, branch="feature", by=ines)
    return services.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


@pytest.fixture
def olek(pull: PullRequest) -> Principal:
    """A reader."""
    return make.a_member(pull.repository, "reader", "olek")


@pytest.fixture
def thread(pull: PullRequest, olek: Principal) -> Comment:
    """A thread of a reader's on the changed line."""
    return services.add_comment(pull=pull, body="Why upper case?", by=olek, anchor=LINE)


def list_codes(pull: PullRequest) -> set[str]:
    return {blocker.code for blocker in queries.list_blockers(pull)}


@pytest.mark.parametrize("tab", ["", "/code"])
def test_replies_stand_in_their_thread(pull: PullRequest, thread: Comment, ines: Principal, tab: str) -> None:
    reply = services.add_comment(pull=pull, body="So that it is seen.", by=ines, reply_to=thread.pk)
    services.add_comment(pull=pull, body="I see.", by=ines, reply_to=reply.pk)  # it is in the same thread

    page = read_page(a_client(ines), f"{PAGE}{tab}")
    start, end = page.index(f'id="replies-{thread.pk}"'), page.index(f'id="reply-{thread.pk}"')
    assert page.index("Why upper case?") < start
    assert start < page.index("So that it is seen.") < page.index("I see.") < end


def test_a_reply_has_no_place_of_its_own_and_a_thread(pull: PullRequest, thread: Comment, ines: Principal) -> None:
    with pytest.raises(InvalidInput, match="where its thread is"):
        services.add_comment(pull=pull, body="There.", by=ines, reply_to=thread.pk, anchor=LINE)
    with pytest.raises(NotFound, match="no comment 999"):
        services.add_comment(pull=pull, body="There.", by=ines, reply_to=999)
    reply = services.add_comment(pull=pull, body="There.", by=ines, reply_to=thread.pk)
    with pytest.raises(InvalidInput, match=f"comment {thread.pk} begins"):
        services.resolve_comment(comment=reply, by=ines)


def test_a_comment_keeps_what_it_said(pull: PullRequest, thread: Comment, olek: Principal, ines: Principal) -> None:
    for body in ("Why so loud?", "Why so loud?", "Why?"):
        services.edit_comment(comment=thread, body=body, by=olek)
    assert list(CommentVersion.objects.values_list("body", flat=True)) == ["Why upper case?", "Why so loud?"]

    assert "edited" in read_page(a_client(ines), PAGE)
    page = read_page(a_client(ines), f"{PAGE}/comments/{thread.pk}/versions")
    assert page.index("Why upper case?") < page.index("Why so loud?")
    stranger = a_client(make.a_person("nobody"))
    assert stranger.get(f"{PAGE}/comments/{thread.pk}/versions").status_code == 404


def test_nobody_changes_what_somebody_else_said(
    pull: PullRequest, thread: Comment, ines: Principal, olek: Principal
) -> None:
    with pytest.raises(PermissionDenied, match="Only who wrote"):
        services.edit_comment(comment=thread, body="I was wrong.", by=ines)
    theirs = services.add_comment(pull=pull, body="Look.", by=ines)
    with pytest.raises(PermissionDenied, match="and maintainers"):
        services.delete_comment(comment=theirs, by=olek)
    page = read_page(a_client(olek), PAGE)
    assert f"{PAGE}/comments/{thread.pk}/change" in page
    assert f"{PAGE}/comments/{theirs.pk}/change" not in page
    assert "Only who wrote it" in read_page(a_client(olek), f"{PAGE}/comments/{theirs.pk}/change")


def test_the_form_that_changes_a_comment_has_what_its_reader_may_do(
    pull: PullRequest, thread: Comment, olek: Principal, ines: Principal
) -> None:
    change = f"{PAGE}/comments/{thread.pk}/change?page=beside"
    own, maintained = (read_page(a_client(who), change) for who in (olek, ines))
    assert "Why upper case?</textarea>" in own
    assert 'name="page" value="beside"' in own
    assert "<textarea" not in maintained
    assert f"{PAGE}/comments/{thread.pk}/delete" in own
    assert f"{PAGE}/comments/{thread.pk}/delete" in maintained
    stranger = a_client(make.a_person("nobody"))
    assert stranger.get(change).status_code == 404

    services.delete_comment(comment=thread, by=ines)
    gone = read_page(a_client(olek), change)
    assert "It was deleted" in gone
    assert "upper case" not in gone


@pytest.mark.parametrize("tab", ["", "/code"])
def test_a_deleted_comment_is_gone_with_what_it_said_before(
    pull: PullRequest, thread: Comment, olek: Principal, ines: Principal, tab: str
) -> None:
    services.edit_comment(comment=thread, body="The password is 12345.", by=olek)
    services.add_comment(pull=pull, body="Take that away.", by=ines, reply_to=thread.pk)
    services.delete_comment(comment=thread, by=ines)

    page = read_page(a_client(olek), f"{PAGE}{tab}")
    assert "12345" not in page
    assert "upper case" not in page
    assert "ines deleted this comment." in page
    assert "Take that away." in page
    assert not CommentVersion.objects.exists()
    for act in (lambda: services.delete_comment(comment=thread, by=ines),
                lambda: services.edit_comment(comment=thread, body="Again.", by=olek)):  # fmt: skip
        with pytest.raises(Conflict, match="was deleted"):
            act()
    entries = AuditEntry.objects.filter(verb__in=("edit_comment", "delete_comment"))
    assert sorted(entries.values_list("actor", "verb")) == [("ines", "delete_comment"), ("olek", "edit_comment")]


def test_a_deleted_thread_without_replies_leaves_a_line(pull: PullRequest, thread: Comment, ines: Principal) -> None:
    services.delete_comment(comment=thread, by=ines)
    assert "deleted a comment of olek" in read_page(a_client(ines), PAGE)
    assert 'class="talk"' not in read_page(a_client(ines), f"{PAGE}/code")


def test_a_reply_comes_to_an_open_page_in_its_thread(
    pull: PullRequest, thread: Comment, ines: Principal, olek: Principal
) -> None:
    client = a_client(olek)
    url = find_news_url(client.get(PAGE).content.decode())
    services.add_comment(pull=pull, body="So that it is seen.", by=ines, reply_to=thread.pk)

    news = client.get(url).content.decode()
    assert f'hx-swap-oob="beforeend:#replies-{thread.pk}"' in news
    assert news.count("So that it is seen.") == 1
    assert "Why upper case?" not in news
    assert client.get(find_news_url(news)).status_code == 204


def test_threads_that_nobody_resolved_stand_against_the_merge(
    pull: PullRequest, thread: Comment, ines: Principal, olek: Principal
) -> None:
    services.add_comment(pull=pull, body="Good in all.", by=olek)  # on no place: nothing to be done about
    assert "threads_unresolved" not in list_codes(pull)
    set_protection(repository=pull.repository, branch="master", approvals=0, resolved_threads=True, by=ines)
    assert "threads_unresolved" in list_codes(pull)
    page = read_page(a_client(ines), PAGE)
    assert "1 thread on code or data is not resolved" in page
    assert f'/code?path=notes.txt#comment-{thread.pk}"' in page

    services.resolve_comment(comment=thread, by=olek)
    assert "threads_unresolved" not in list_codes(pull)
    services.resolve_comment(comment=thread, by=olek, resolved=False)
    services.delete_comment(comment=thread, by=olek)
    assert "threads_unresolved" not in list_codes(pull)


@pytest.mark.parametrize("page", ["beside", ""])
def test_forms_return_to_the_thread_on_their_page(thread: Comment, olek: Principal, page: str) -> None:
    client, at = a_client(olek), f"{PAGE}/comments/{thread.pk}"
    place = f"{PAGE}/code?path=notes.txt" if page else PAGE
    acts: dict[str, dict[str, Any]] = {
        "reply": {"body": "Hm."}, "edit": {"body": "Why?"}, "resolve": {"resolved": "1"}, "delete": {},
    }  # fmt: skip
    for act, fields in acts.items():
        answer = client.post(f"{at}/{act}", {**fields, "page": page})
        assert answer["Location"] == f"{place}#comment-{thread.pk}"
    thread.refresh_from_db()
    assert (thread.body, thread.resolved_at is not None, thread.replies.count()) == ("", True, 1)
