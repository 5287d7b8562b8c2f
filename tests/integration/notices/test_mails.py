"""Mails against a real SMTP server: what they say, who gets none, and what becomes of those that are not taken."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.controller import Controller

from tests.factories.clients import a_client, read_page
from webapp.accounts.models import RepositoryRole, User
from webapp.core import clock
from webapp.notices import services
from webapp.notices.models import Mail, MailAddress, Notification
from webapp.notices.rules.mails import MOST_TRIES
from webapp.notices.rules.states import MailState
from webapp.pulls import services as pulls

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import Comment, PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


class Postbox:
    """Takes mails, or answers as a test wants."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.answer = "250 Taken"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.answer.startswith("250"):
            mail = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            self.mails.append(mail)
        return self.answer


class Loopback(Controller):
    """A server on a port that is free."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@pytest.fixture
def postbox(settings: Any) -> Iterator[Postbox]:
    """A mail server on loopback, which the installation names."""
    box = Postbox()
    controller = Loopback(box, hostname="127.0.0.1", port=0)
    controller.start()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    settings.EMAIL_PORT = controller.port
    settings.TRIBUTARY_URL = "https://tributary.example.org"
    yield box
    controller.stop()


def send_all() -> list[str]:
    """Try every mail once; return the states in which they are then."""
    for pk in Mail.objects.order_by("pk").values_list("pk", flat=True):
        services.send_mail(mail_id=pk)
    return [str(mail.state) for mail in Mail.objects.order_by("pk")]


@pytest.fixture
def mention(pull: PullRequest, ines: Principal, olek: Principal, postbox: Postbox) -> Comment:
    """A comment that names somebody who wants to be told by mail."""
    anchor = {"path": "notes.txt", "line": 1, "side": "head"}
    return pulls.add_comment(pull=pull, body="Look, @olek: **late** <b>", by=ines, anchor=anchor)


def test_a_mail_has_both_forms_threads_and_a_way_to_end_it(
    pull: PullRequest, mention: Comment, ines: Principal, olek: Principal, postbox: Postbox
) -> None:
    pulls.add_review(pull=pull, verdict="comment", body="So so, @olek", by=ines)
    assert send_all() == ["sent", "sent"]
    assert send_all() == ["sent", "sent"]
    first, second = postbox.mails
    assert (first["To"], first["Subject"]) == ("olek@example.org", "[shop] Count <late> (#1)")
    assert first["From"] == "tributary@127.0.0.1"
    root = f"<pull-{pull.pk}@tributary.example.org>"
    assert (first["In-Reply-To"], second["In-Reply-To"], first["References"]) == (root, root, root)
    assert first["Message-ID"] != second["Message-ID"]
    assert first["List-Unsubscribe"] == "<https://tributary.example.org/settings/notifications>"
    plain, html = first.get_body(("plain",)), first.get_body(("html",))
    assert plain is not None
    assert html is not None
    url = f"https://tributary.example.org/r/shop/pulls/1#comment-{mention.pk}"
    assert plain.get_content().splitlines()[:5] == [
        "ines mentioned you in a comment.", "", "Look, @olek: **late** <b>", "", url,
    ]  # fmt: skip
    assert "<strong>late</strong> &lt;b&gt;" in html.get_content()
    assert f'<a href="{url}">' in html.get_content()


def test_nobody_gets_a_mail_of_what_they_may_not_see_or_want(
    pull: PullRequest, mention: Comment, ines: Principal, olek: Principal, postbox: Postbox
) -> None:
    pulls.add_comment(pull=pull, body="@olek, too", by=ines)
    gone = pulls.add_comment(pull=pull, body="@olek, a secret", by=ines)
    pulls.delete_comment(comment=gone, by=ines)
    services.set_wishes(by=olek, channels={"mentioned": "inbox"})
    services.send_mail(mail_id=Mail.objects.order_by("pk")[0].pk)
    services.set_wishes(by=olek, channels={"mentioned": "mail"})
    services.send_mail(mail_id=Mail.objects.order_by("pk")[2].pk)
    RepositoryRole.objects.filter(user=olek.user_id).delete()
    assert send_all() == ["withdrawn"] * 3
    assert postbox.mails == []


def test_mails_go_to_the_address_that_was_given_and_only_if_there_is_one(
    pull: PullRequest, mention: Comment, ines: Principal, olek: Principal, postbox: Postbox, settings: Any
) -> None:
    services.set_wishes(by=olek, channels={}, address="olek@home.example.org")
    assert send_all() == ["sent"]
    assert postbox.mails[0]["To"] == "olek@home.example.org"
    MailAddress.objects.all().delete()
    User.objects.filter(pk=olek.user_id).update(email="")
    pulls.add_comment(pull=pull, body="@olek", by=ines)
    assert Mail.objects.count() == 1, "where nobody would get it there is none"
    settings.EMAIL_HOST = ""
    User.objects.filter(pk=olek.user_id).update(email="olek@example.org")
    pulls.add_comment(pull=pull, body="@olek", by=ines)
    assert (Mail.objects.count(), Notification.objects.filter(user=olek.user_id).count()) == (1, 3)


def test_what_is_not_taken_now_is_tried_again_and_given_up_by_name(
    mention: Comment, olek: Principal, postbox: Postbox, settings: Any
) -> None:
    postbox.answer = "451 Try later"
    assert send_all() == ["waiting"]
    assert send_all() == ["waiting"], "not before its time"
    mail = Mail.objects.get()
    assert (mail.attempt, mail.reason) == (1, "The mail server answered 451 Try later")
    assert mail.due_at is not None
    assert mail.due_at > clock.now()
    settings.EMAIL_PORT = 1
    for _ in range(MOST_TRIES - 1):
        Mail.objects.update(due_at=clock.now())
        send_all()
    mail.refresh_from_db()
    assert (mail.state, mail.attempt) == (MailState.GIVEN_UP, MOST_TRIES)
    assert mail.reason.startswith("The mail server cannot be reached: ")
    assert "The last mail to you was given up" in read_page(a_client(olek), "/settings/notifications")


def test_what_is_refused_for_good_is_not_tried_again(mention: Comment, postbox: Postbox) -> None:
    postbox.answer = "550 No such mailbox"
    assert send_all() == ["given_up"]
    assert Mail.objects.get().reason == "The mail server answered 550 No such mailbox"


def test_the_sweep_takes_back_what_a_dead_worker_held(mention: Comment, postbox: Postbox) -> None:
    assert Mail.objects.claim(Mail.objects.get())
    assert send_all() == ["sending"]
    Mail.objects.update(due_at=clock.now() - timedelta(seconds=1))
    services.sweep_mails()
    assert send_all() == ["sent"]
    assert len(postbox.mails) == 1
