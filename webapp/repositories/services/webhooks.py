"""Webhooks: who wants to hear of a repository's events, and the deliveries.

A delivery is a row that is written with the event, so what happened is sent even if a process dies; a receiver may hear
of an event twice and knows it by its id.
"""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.conf import settings
from django.db import connection, transaction
from django.template.loader import render_to_string

from webapp.accounts import services as accounts
from webapp.core import clock, outgoing
from webapp.core.characters import spell_hidden
from webapp.core.errors import AppError, Conflict, InvalidInput, Unavailable
from webapp.core.sealed import seal, unseal
from webapp.dispatch.failures import named_failures
from webapp.dispatch.fair_threads import FairThreads
from webapp.dispatch.leases import ring_forgotten
from webapp.repositories import permissions
from webapp.repositories.models import Delivery, Webhook
from webapp.repositories.rules import webhooks as rules
from webapp.runtime import doorbell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

MOST_WEBHOOKS = 20
DELIVER_TASK = "webapp.repositories.tasks.deliver"
KEPT = timedelta(days=7)
MAX_REASON = 300
SEALED_FOR = "webhook's secret"
"""What error messages call what is sealed, too."""
logger = logging.getLogger(__name__)
_threads = FairThreads("delivery", threads=4, waiting=256, waiting_of_owner=16)
"""Receivers can be slow on purpose: deliveries share no thread with publications, merges and mails."""


def add_webhook(
    *,
    repository: Repository,
    url: str,
    events: Sequence[str] = rules.EVENTS,
    secret: str = "",
    shape: str = rules.TRIBUTARY,
    by: Principal,
) -> Webhook:
    """Tell an address of events from now on.

    Raises:
        InvalidInput: no address of the web, an unknown event or shape.
        Conflict: the repository has too many.

    """
    permissions.check_maintain(by, repository)
    outgoing.check_url(url)
    unknown = sorted(set(events) - set(rules.EVENTS))
    if unknown or not events:
        message = f"Choose events among {', '.join(rules.EVENTS)}" + (
            f", not {', '.join(unknown)}." if unknown else "."
        )
        raise InvalidInput(message, code="events", errors={"events": [message]})
    if shape not in dict(rules.SHAPE_CHOICES):
        message = f"shape is one of {', '.join(dict(rules.SHAPE_CHOICES))}, not {shape!r}."
        raise InvalidInput(message, errors={"shape": [message]})
    with transaction.atomic():
        if repository.webhooks.count() >= MOST_WEBHOOKS:
            raise Conflict(f"{repository.name} has {MOST_WEBHOOKS} webhooks: remove one first.", code="too_many")
        events = [event for event in rules.EVENTS if event in events]
        webhook = Webhook.objects.create(
            repository=repository,
            url=url,
            events=events,
            shape=shape,
            secret=seal(secret, purpose=SEALED_FOR),
            created_by_id=by.user_id,
        )
        accounts.record_audit(by=by, verb="add_webhook", object=repository.name, detail={"url": url, "events": events})
    return webhook


def remove_webhook(*, webhook: Webhook, by: Principal) -> None:
    """Tell an address nothing more; what was not delivered yet goes with it."""
    permissions.check_maintain(by, webhook.repository)
    with transaction.atomic():
        accounts.record_audit(by=by, verb="remove_webhook", object=webhook.repository.name, detail={"url": webhook.url})
        webhook.delete()


def announce_event(*, repository: Repository, event: str, payload: Mapping[str, Any]) -> None:
    """Write down what the repository's webhooks are to hear; call it in the atomic block that records the fact."""
    for webhook in Webhook.objects.filter(repository=repository):
        if event in webhook.events:
            body = json.dumps({"event": event, "repository": repository.name, **payload}, default=str)
            delivery = Delivery.objects.create(webhook=webhook, uid=str(uuid4()), event=event, body=body)
            transaction.on_commit(lambda pk=delivery.pk: _ring(pk))  # type: ignore[misc]


def follow_commit(
    *, repository: Repository, branch: str, before: str, after: str, by: Principal | None, **_: Any
) -> None:
    """Tell who wants to hear of pushes that a branch moved."""
    _announce_push(repository, branch, before=before or None, after=after, by=by)


def follow_deleted_branch(*, repository: Repository, branch: str, head: str, by: Principal | None, **_: Any) -> None:
    """Tell who wants to hear of pushes that a branch is gone."""
    _announce_push(repository, branch, before=head, after=None, by=by)


def _announce_push(
    repository: Repository, branch: str, *, before: str | None, after: str | None, by: Principal | None
) -> None:
    pushed = {"branch": branch, "before": before, "after": after, "by": by.username if by else None}
    announce_event(repository=repository, event=rules.PUSH, payload=pushed)


def start_delivery(*, delivery_id: int) -> None:
    """Try one delivery in a thread of deliveries; without a free place it stays due, and the sweep asks again."""
    owner = Delivery.objects.filter(pk=delivery_id).values_list("webhook__repository", flat=True).first()
    if owner is not None:
        _threads.submit(owner, lambda: _deliver_in_thread(delivery_id))


def _deliver_in_thread(delivery_id: int) -> None:
    try:
        deliver(delivery_id=delivery_id)
    except Unavailable as error:
        logger.info("a delivery stays due: %s", error)
    finally:
        connection.close()


def deliver(*, delivery_id: int) -> None:
    """Try one delivery, if it is due and nobody else is at it."""
    delivery = Delivery.objects.select_related("webhook").filter(pk=delivery_id).first()
    if delivery is None or not Delivery.objects.claim(delivery):
        return
    try:
        with named_failures("The event could not be sent"):
            settle_delivery(delivery, *_send(delivery))
    except Unavailable:
        raise  # it stays due
    except AppError as error:
        settle_delivery(delivery, 0, error.detail)


def settle_delivery(delivery: Delivery, status: int, reason: str) -> None:
    """Write down the answer, and when it is tried again, unless another worker tries it by now."""
    pause = None if rules.is_taken(status) else rules.pause_after(delivery.tries)
    Delivery.objects.held(delivery).update(
        status=status,
        reason=reason[:MAX_REASON],
        sent_at=clock.now(),
        due_at=None if pause is None else clock.shared_now() + pause,
    )


def sweep_deliveries() -> int:
    """Ring for deliveries that are due, and forget old ones."""
    count = ring_forgotten(Delivery.objects.order_by("due_at"), lambda delivery: _ring(delivery.pk), queue="quick")
    Delivery.objects.filter(due_at=None, created_at__lt=clock.cautious_now() - KEPT).delete()
    return count


def _ring(pk: int) -> None:
    doorbell.ring(DELIVER_TASK, queue="quick", id=pk)


def _shape(delivery: Delivery) -> bytes:
    """Return what is posted: the facts, or a message that says them to people."""
    shape = delivery.webhook.shape
    if shape == rules.TRIBUTARY:
        return delivery.body.encode()
    facts = json.loads(delivery.body)
    text = spell_hidden(" ".join(render_to_string("repositories/message.txt", facts).split()))
    path = render_to_string("repositories/message_url.txt", facts).strip()
    return rules.write_message(shape, text=text, url=settings.TRIBUTARY_URL + path)


def _send(delivery: Delivery) -> tuple[int, str]:
    """Return the status, 0 without an answer, and why there is none."""
    if delivery.tries > rules.MOST_TRIES:
        return 0, "The worker died while it sent the event."
    body = _shape(delivery)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Tributary",
        "X-Tributary-Event": delivery.event,
        "X-Tributary-Delivery": delivery.uid,
    }
    try:
        secret = unseal(delivery.webhook.secret, purpose=SEALED_FOR)
    except Conflict as error:
        return 0, error.detail
    if secret:
        headers["X-Tributary-Signature-256"] = rules.sign(secret, body)
    try:
        status = outgoing.post(
            delivery.webhook.url, body=body, headers=headers, trusted=settings.TRIBUTARY_WEBHOOK_HOSTS
        )
    except outgoing.Unreachable as error:
        return 0, str(error)
    return status, "" if rules.is_taken(status) else f"It answered {status}"
