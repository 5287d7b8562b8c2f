"""Doorbells of queries: each hands an id to one service."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from webapp.sql import services


@shared_task(ignore_result=True)
def run_query(*, id: int, **_: Any) -> None:
    """Run one queued query."""
    services.run_query(query_id=id)
