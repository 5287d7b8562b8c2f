"""Writes notifications, in the transaction of the fact: a few statements, however many people are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import transaction

from webapp.core import clock
from webapp.dispatch.leases import RING_AGAIN
from webapp.notices.models import Mail, Notification
from webapp.notices.queries.people import list_addressees, read_channels
from webapp.notices.rules import facts
from webapp.notices.rules.facts import Reason
from webapp.notices.rules.states import NotificationState
from webapp.runtime import doorbell

MAIL_TASK = "webapp.notices.tasks.send_mail"
AT_ONCE = 500
"""So many people are looked up and told by one statement."""
RUNG_AT_ONCE = 10
"""So many mails are rung for at once; the sweep rings for the others of a crowd as far as there is room."""

People = Mapping[Reason, Iterable[int]]


def tell(*, fact: str, to: People, actor_id: int | None = None, **about: Any) -> None:
    """Tell people a fact, once each, for the first of their reasons in the order of `Reason`.

    Args:
        fact: of `FACT_CHOICES`.
        to: reason → ids of people; who did it is left out, and who may not see it or does not want to be told.
        actor_id: who did it.
        about: further columns of the notification.

    """
    reasons = {user: reason for reason in reversed(Reason) for user in to.get(reason, ())}
    reasons.pop(actor_id, None)  # type: ignore[arg-type]  # nobody has the id None
    for some in _cut(reasons):
        _tell_some(some, {"fact": fact, **about})


def _cut(reasons: Mapping[int, Reason]) -> Iterator[dict[int, Reason]]:
    items = iter(reasons.items())
    while some := dict(islice(items, AT_ONCE)):
        yield some


def _tell_some(reasons: Mapping[int, Reason], about: Mapping[str, Any]) -> None:
    addressees = list_addressees(reasons, repository=about.get("repository"), dataset=about.get("dataset"))
    informed = _list_knowing([person.user_id for person in addressees], about)
    channels = read_channels({person.user_id: reasons[person.user_id] for person in addressees})
    rows = Notification.objects.bulk_create(
        Notification(user_id=person.user_id, reason=reasons[person.user_id], **about)
        for person in addressees
        if channels[person.user_id] != facts.NONE and person.user_id not in informed
    )
    mailed = {person.user_id for person in addressees if person.has_address and channels[person.user_id] == facts.MAIL}
    if settings.EMAIL_HOST:
        _ask_for_mails([row for row in rows if row.user_id in mailed])


def _list_knowing(users: Iterable[int], about: Mapping[str, Any]) -> set[int]:
    """Return who has not read yet that it is so."""
    if about["fact"] not in facts.LASTING:
        return set()
    thing = {name: about.get(name) for name in ("pull", "dataset")}
    unread = Notification.objects.filter(user__in=users, state=NotificationState.UNREAD, fact=about["fact"], **thing)
    return set(unread.values_list("user", flat=True))


def _ask_for_mails(rows: list[Notification]) -> None:
    now = clock.now()
    first = Mail.objects.bulk_create(Mail(notification=row, rung_at=now) for row in rows[:RUNG_AT_ONCE])
    Mail.objects.bulk_create(Mail(notification=row, rung_at=now - RING_AGAIN) for row in rows[RUNG_AT_ONCE:])
    for mail in first:
        transaction.on_commit(lambda pk=mail.pk: ring_mail(pk))  # type: ignore[misc]


def ring_mail(pk: int) -> None:
    """Ask a worker to send a mail."""
    doorbell.ring(MAIL_TASK, queue="quick", id=pk)
