"""Doorbells of repositories: each hands an id to one service."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from webapp.repositories import services


@shared_task(name="webapp.repositories.tasks.deliver", ignore_result=True)
def deliver(*, id: int, **_: Any) -> None:
    """Try one delivery to a webhook, in a thread that no other task needs."""
    services.start_delivery(delivery_id=id)
