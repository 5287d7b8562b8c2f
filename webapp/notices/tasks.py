"""Doorbells of notifications: each hands an id to one service."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from webapp.notices import services


@shared_task(name="webapp.notices.tasks.send_mail", ignore_result=True)
def send_mail(*, id: int, **_: Any) -> None:
    """Try one mail."""
    services.send_mail(mail_id=id)


@shared_task(name="webapp.notices.tasks.look_at", ignore_result=True)
def look_at(*, id: int, **_: Any) -> None:
    """Look where one pull request stands."""
    services.look_at(pull_id=id)
