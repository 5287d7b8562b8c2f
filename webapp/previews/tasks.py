"""Doorbells of previews: each hands an id to one service."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from webapp.previews import services


@shared_task(ignore_result=True)
def run_preview(*, id: int, **_: Any) -> None:
    """Run one queued preview."""
    services.run_preview(preview_id=id)
