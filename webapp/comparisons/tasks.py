"""Doorbells of comparisons: each hands an id to one service."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from webapp.comparisons import services


@shared_task(name="webapp.pulls.tasks.compare", ignore_result=True)
def compare(*, id: int, **_: Any) -> None:
    """Run one queued comparison."""
    services.run_comparison(comparison_id=id)
