"""Webhooks of a repository and their deliveries. Only maintainers see them: an address may hold a secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.core.errors import NotFound
from webapp.repositories import permissions
from webapp.repositories.models import Delivery, Webhook

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository


@dataclass(frozen=True)
class WebhookRow:
    """A webhook and its newest delivery."""

    webhook: Webhook
    last: Delivery | None


def list_webhooks(principal: Principal, repository: Repository) -> QuerySet[Webhook]:
    """Return the webhooks of a repository, oldest first."""
    permissions.check_maintain(principal, repository)
    return Webhook.objects.filter(repository=repository).select_related("repository")


def get_webhook(principal: Principal, repository: Repository, number: int) -> Webhook:
    """Return one webhook.

    Raises:
        NotFound: the repository has no such webhook.

    """
    webhook = list_webhooks(principal, repository).filter(pk=number).first()
    if webhook is None:
        message = f"{repository.name} has no webhook {number}."
        raise NotFound(message, code="unknown_webhook")
    return webhook


def list_rows(principal: Principal, repository: Repository) -> list[WebhookRow]:
    """Return the webhooks with what became of the last delivery of each."""
    return [WebhookRow(webhook, webhook.deliveries.first()) for webhook in list_webhooks(principal, repository)]
