"""Hands mails to the mail server, by leased work: a server that is away or refuses costs no request anything."""

from __future__ import annotations

from email.utils import formatdate
from smtplib import SMTPException, SMTPRecipientsRefused, SMTPResponseException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse

from webapp.accounts.queries import principal_for_user
from webapp.core import clock
from webapp.core.characters import spell_hidden
from webapp.core.errors import AppError, NotFound, Unavailable
from webapp.dispatch.failures import named_failures
from webapp.dispatch.leases import ring_forgotten
from webapp.notices.models import Mail
from webapp.notices.queries.inbox import get_notification
from webapp.notices.queries.people import read_channels
from webapp.notices.queries.wishes import find_address
from webapp.notices.rules import facts
from webapp.notices.rules.facts import REASONS
from webapp.notices.rules.mails import MOST_TRIES, pause_after
from webapp.notices.rules.states import MailState
from webapp.notices.services.telling import ring_mail
from webapp.pulls.models import DatasetVerdict

if TYPE_CHECKING:
    from webapp.notices.models import Notification

MOST_REASON = 300
MOST_SUBJECT = 200
REFUSED_FOR_GOOD = range(500, 600)
"""Answers of a mail server that no second try changes: RFC 5321, 4.2.1."""


class _Refused(AppError):
    """The mail server will not take it, however often it is tried."""


def send_mail(*, mail_id: int) -> None:
    """Try one mail, if it is due and nobody else is at it."""
    mail = Mail.objects.select_related("notification__user").filter(pk=mail_id).first()
    if mail is None or not Mail.objects.claim(mail):
        return
    try:
        with named_failures("The mail could not be sent"):
            notification = _find_wanted(mail)
            if notification is None:
                end_mail(mail, MailState.WITHDRAWN)
                return
            _hand_over(_write(notification))
            end_mail(mail, MailState.SENT)
    except _Refused as error:
        end_mail(mail, MailState.GIVEN_UP, error.detail)
    except AppError as error:
        put_off_mail(mail, error.detail)


def _find_wanted(mail: Mail) -> Notification | None:
    """Return what is to be said; None where its reader may not see it any more, or wants no mail of it."""
    user = mail.notification.user
    if not user.is_active:
        return None
    try:
        notification = get_notification(principal_for_user(user), mail.notification_id)
    except NotFound:
        return None
    if notification.comment is not None and notification.comment.deleted_at is not None:
        return None
    is_wanted = read_channels({user.pk: REASONS[notification.reason]})[user.pk] == facts.MAIL
    return notification if is_wanted and find_address(user.pk) else None


def _write(notification: Notification) -> EmailMultiAlternatives:
    site = settings.TRIBUTARY_URL
    settings_url = site + reverse("notification-settings")
    context = {
        "item": notification,
        "url": site + notification.get_absolute_url(),
        "settings_url": settings_url,
        "reason": REASONS[notification.reason],
        "text": _find_text(notification),
    }
    message = EmailMultiAlternatives(
        subject=spell_hidden(render_to_string("notices/mail_subject.txt", context).strip())[:MOST_SUBJECT],
        body=spell_hidden(render_to_string("notices/mail.txt", context)),
        to=[find_address(notification.user_id)],
        headers=_write_headers(notification, settings_url),
    )
    message.attach_alternative(spell_hidden(render_to_string("notices/mail.html", context)), "text/html")
    return message


def _find_text(notification: Notification) -> str:
    """Return what somebody wrote; where in the rows it stands is not said, only on the page."""
    if notification.comment is not None:
        return notification.comment.body
    if notification.review is not None:
        comments = notification.review.comments.filter(deleted_at=None).values_list("body", flat=True)
        return "\n\n".join(filter(None, [notification.review.body, *comments]))
    if notification.fact == facts.REVIEW and notification.dataset is not None:
        verdicts = DatasetVerdict.objects.filter(pull=notification.pull, path=notification.dataset.path)
        return verdicts.filter(reviewer__username=notification.actor).values_list("reason", flat=True).first() or ""
    is_of_description = notification.fact in (facts.OPENED, facts.DESCRIBED)
    return notification.pull.body if notification.pull is not None and is_of_description else ""


def _write_headers(notification: Notification, settings_url: str) -> dict[str, str]:
    """Return headers by which mail programs put what is about one thing into one thread: RFC 5322, 3.6.4."""
    host = urlsplit(settings.TRIBUTARY_URL).hostname or "localhost"
    headers = {
        "Date": formatdate(notification.created_at.timestamp()),
        "Message-ID": f"<notification-{notification.pk}@{host}>",
        "List-Unsubscribe": f"<{settings_url}>",
        "Auto-Submitted": "auto-generated",
    }
    if notification.pull is not None:
        root = f"<pull-{notification.pull.pk}@{host}>"
        headers |= {"In-Reply-To": root, "References": root}
    return headers


def _hand_over(message: EmailMultiAlternatives) -> None:
    """Send a mail.

    Raises:
        _Refused: for good.
        Unavailable: not now.

    """
    try:
        message.send()
    except SMTPRecipientsRefused as error:
        code, answer = next(iter(error.recipients.values()))
        raise _explain(code, answer) from error
    except SMTPResponseException as error:
        raise _explain(error.smtp_code, error.smtp_error) from error
    except (SMTPException, OSError) as error:
        message_of = f"The mail server cannot be reached: {error}"
        raise Unavailable(message_of) from error


def _explain(code: int, answer: bytes | str) -> AppError:
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    said = f"The mail server answered {code} {text}"
    return _Refused(said) if code in REFUSED_FOR_GOOD else Unavailable(said)


def end_mail(mail: Mail, state: MailState, reason: str = "") -> None:
    """Write down how a mail ended, unless another worker has it by now."""
    held = Mail.objects.held(mail)
    held.move(to=state, was=MailState.SENDING, due_at=None, reason=reason[:MOST_REASON], finished_at=clock.now())


def put_off_mail(mail: Mail, reason: str) -> None:
    """Let a mail wait for its next try, or give it up."""
    pause = pause_after(mail.attempt)
    if pause is None:
        end_mail(mail, MailState.GIVEN_UP, reason)
        return
    due_at = clock.shared_now() + pause
    Mail.objects.held(mail).move(
        to=MailState.WAITING, was=MailState.SENDING, due_at=due_at, reason=reason[:MOST_REASON]
    )


def sweep_mails() -> int:
    """Ring for mails that are due, and take back those whose worker died; the last try of these ends them."""
    lost = Mail.objects.lost()
    reason = "The worker died while it sent the mail."
    dead = lost.filter(attempt__gte=MOST_TRIES)
    count = dead.move(to=MailState.GIVEN_UP, was=MailState.SENDING, due_at=None, reason=reason, finished_at=clock.now())
    count += Mail.objects.lost().move(to=MailState.WAITING, was=MailState.SENDING, due_at=None, reason=reason)
    return count + ring_forgotten(Mail.objects.order_by("rung_at"), lambda mail: ring_mail(mail.pk), queue="quick")
