"""A review that is collected first: its comments are its author's alone until it is submitted, all with one verdict."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.db.models import Model

from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from tests.integration.pulls.test_news import find_news_url
from webapp.core.errors import Conflict, InvalidInput, NotFound
from webapp.notices.models import Notification
from webapp.pulls import services
from webapp.pulls.models import Comment, PendingComment, Review
from webapp.repositories.models import Delivery
from webapp.repositories.services import add_webhook

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"
REST = "/api/v1/repositories/shop/pulls/1"
LINE = {"path": "notes.txt", "line": 2, "side": "head"}
SECRET = "zanzibar"
"""What nobody but its author may meet anywhere."""


@pytest.fixture
def pull(ines: Principal, silent_bell: None) -> PullRequest:
    """A pull request that changes line 2 of a file."""
    repository = make.a_repository("shop", by=ines)
    make.a_commit(repository, {"notes.txt": "one\ntwo\n"}, by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "one\nTWO\n"}, branch="feature", by=ines)
    return services.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


@pytest.fixture
def mira(pull: PullRequest) -> Principal:
    """A writer, who reviews."""
    return make.a_member(pull.repository, "writer", "mira")


@pytest.fixture
def olek(pull: PullRequest, mira: Principal) -> Principal:
    """A reader, whose comment mira answers."""
    return make.a_member(pull.repository, "reader", "olek")


@pytest.fixture
def thread(pull: PullRequest, olek: Principal) -> Comment:
    """What olek said of the line."""
    return services.add_comment(pull=pull, body="Why?", by=olek, anchor=LINE)


def begin_review(pull: PullRequest, thread: Comment, by: Principal) -> None:
    services.add_pending(pull=pull, body=f"{SECRET} @admin", by=by, anchor=LINE)
    services.add_pending(pull=pull, body=f"{SECRET} again", by=by, reply_to=thread.pk)
    services.add_pending(pull=pull, body=f"{SECRET} in all", by=by)


def test_nobody_else_sees_or_is_told_of_what_is_pending(
    pull: PullRequest, thread: Comment, ines: Principal, mira: Principal
) -> None:
    add_webhook(repository=pull.repository, url="https://example.org/h", events=["comment"], secret="", by=ines)
    client = a_client(ines)
    news_url = find_news_url(read_page(client, PAGE))
    notifications, updated = Notification.objects.count(), type(pull).objects.get().updated_at
    begin_review(pull, thread, mira)

    assert client.get(news_url).status_code == 204
    for path in (PAGE, f"{PAGE}/code", f"{PAGE}/code?view=split", f"/search?q={SECRET[1:-1]}", "/", "/inbox", f"{REST}",
                 f"{REST}/comments", f"{REST}/timeline", f"{REST}/reviews", f"{REST}/pending-comments"):  # fmt: skip
        body = client.get(path).content.decode()
        assert SECRET not in body, path
        assert "Pending" not in body, path
    assert (Notification.objects.count(), type(pull).objects.get().updated_at) == (notifications, updated)
    assert not Delivery.objects.exists()
    mine = PendingComment.objects.order_by("pk")[0].pk
    for address in (f"{PAGE}/pending/{mine}/edit", f"{PAGE}/pending/{mine}/delete"):
        assert client.post(address, {"body": "x"}).status_code == 404
    change = f"{PAGE}/pending/{mine}/change"
    assert client.get(change).status_code == 404
    assert f"{SECRET} @admin</textarea>" in read_page(a_client(mira), change)
    client.post(f"{PAGE}/pending/discard")
    assert PendingComment.objects.count() == 3


def test_its_author_sees_it_at_its_places_and_as_a_whole(pull: PullRequest, thread: Comment, mira: Principal) -> None:
    begin_review(pull, thread, mira)
    client = a_client(mira)

    code = read_page(client, f"{PAGE}/code")
    assert code.index("Why?") < code.index(f"{SECRET} again")
    assert code.count("Pending</span>") == 2
    assert "Finish review" in code
    assert "3 pending comments go with it." in code
    talk = read_page(client, PAGE)
    assert talk.index("Your pending review") < talk.index("notes.txt:2", talk.index("Your pending review"))
    assert talk.count(SECRET) == 3


def test_a_verdict_submits_all_of_it_and_tells_each_once(
    pull: PullRequest, thread: Comment, ines: Principal, mira: Principal, olek: Principal
) -> None:
    add_webhook(repository=pull.repository, url="https://example.org/h", events=["comment"], secret="", by=ines)
    begin_review(pull, thread, mira)
    Notification.objects.all().delete()
    answer = a_client(mira).post(f"{PAGE}/review", {"verdict": "approve", "expected_head": pull.head_sha})
    assert answer.status_code == 302

    review = Review.objects.get()
    comments = list(review.comments.order_by("pk"))
    assert [(comment.anchor, comment.quoted, comment.thread) for comment in comments] == [
        (LINE, "TWO", None), (None, "", thread), (None, "", None),
    ]  # fmt: skip
    assert not PendingComment.objects.exists()
    notifications = Notification.objects.values_list("user__username", "fact", "reason")
    assert sorted(notifications) == [
        ("admin", "review", "mentioned"), ("ines", "review", "reviewed"), ("olek", "review", "replied"),
    ]  # fmt: skip
    assert Delivery.objects.count() == 3
    page = read_page(a_client(ines), PAGE)
    assert page.count(SECRET) == 3
    assert "3 comments" in page
    listed = json.loads(a_client(ines).get(f"{REST}/comments").content)["results"]
    assert [comment["review"] for comment in listed] == [None, *[review.pk] * 3]


def test_what_waits_is_text_enough_for_a_review_that_only_comments(pull: PullRequest, mira: Principal) -> None:
    with pytest.raises(InvalidInput, match="needs text"):
        services.add_review(pull=pull, verdict="comment", by=mira)
    services.add_pending(pull=pull, body="Hm.", by=mira)
    services.add_review(pull=pull, verdict="comment", by=mira)
    assert Comment.objects.get().review == Review.objects.get()


def test_a_refused_verdict_keeps_what_waits(pull: PullRequest, mira: Principal, ines: Principal) -> None:
    services.add_pending(pull=pull, body="Hm.", by=mira)
    with pytest.raises(Conflict, match="somebody pushed"):
        services.add_review(pull=pull, verdict="approve", by=mira, expected_head="0" * 40)
    services.close_pull(pull=pull, by=ines)
    with pytest.raises(Conflict, match="no more reviews"):
        services.add_review(pull=pull, verdict="comment", by=mira)
    with pytest.raises(Conflict, match="no more reviews"):
        services.add_pending(pull=pull, body="Hm.", by=mira)
    assert (PendingComment.objects.count(), count(Comment), count(Review)) == (1, 0, 0)
    assert "Your pending review" in read_page(a_client(mira), PAGE)


def count(model: type[Model]) -> int:
    return model._default_manager.count()


def test_what_is_pending_is_changed_taken_out_and_discarded(pull: PullRequest, mira: Principal) -> None:
    client = a_client(mira)
    for text in ("One", "Two", "Three"):
        client.post(f"{PAGE}/remark", {"body": text, "path": "notes.txt", "line": "2", "side": "head", "pending": "1"})
    first, second, _ = PendingComment.objects.order_by("pk")
    answer = client.post(f"{PAGE}/pending/{first.pk}/edit", {"body": "Won", "page": "beside"})
    assert answer["Location"] == f"{PAGE}/code?path=notes.txt#file-notes.txt"
    assert client.post(f"{PAGE}/pending/{second.pk}/delete")["Location"] == PAGE
    assert list(PendingComment.objects.values_list("body", flat=True)) == ["Won", "Three"]
    client.post(f"{PAGE}/pending/discard")
    assert count(PendingComment) == 0
    with pytest.raises(Conflict, match="submitted or discarded"):
        services.edit_pending(comment=first, body="Again", by=mira)


def test_a_page_shows_the_newest_of_a_long_review_and_the_way_to_all(
    pull: PullRequest, mira: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.pulls.pages.conversation.PENDING", 2)
    client = a_client(mira)
    for body in ("First said", "Second said", "Third said"):
        services.add_pending(pull=pull, body=body, by=mira)
    newest = client.get(PAGE).text
    assert [text in newest for text in ("First said", "Second said", "Third said", "1 earlier")] == [False, *[True] * 3]
    every = client.get(f"{PAGE}?pending=all").text
    assert [text in every for text in ("First said", "Second said", "Third said", "1 earlier")] == [*[True] * 3, False]


def test_a_review_has_an_end(pull: PullRequest, mira: Principal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.pulls.services.pending.MOST_PENDING", 1)
    services.add_pending(pull=pull, body="One", by=mira)
    with pytest.raises(Conflict, match="at most 1 comments"):
        services.add_pending(pull=pull, body="Two", by=mira)
    with pytest.raises(NotFound):
        services.add_pending(pull=pull, body="Two", by=mira, reply_to=999)
