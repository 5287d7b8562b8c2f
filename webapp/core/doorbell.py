"""Rings a worker. The message only carries an id: the row is the truth, and a lost ring is repeated by the sweeper."""

from __future__ import annotations

from typing import Any

from celery import current_app


def ring(task_name: str, *, queue: str, **kwargs: Any) -> None:
    """Ask a worker to look at a row. Call it inside `transaction.on_commit`."""
    current_app.send_task(task_name, kwargs=kwargs, queue=queue)
