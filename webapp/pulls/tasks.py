"""Doorbells of pull requests: each hands an id to one service."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from webapp.pulls import services


@shared_task(name="webapp.pulls.tasks.refresh", ignore_result=True)
def refresh(*, id: int, **_: Any) -> None:
    """Bring one pull request up to date."""
    services.refresh_by_id(pull_id=id)


@shared_task(name="webapp.pulls.tasks.advance_queue", ignore_result=True)
def advance_queue(*, repository: int, target: str, **_: Any) -> None:
    """Carry on the merge queue of a branch."""
    services.advance_by_id(repository_id=repository, target=target)


@shared_task(name="webapp.pulls.tasks.run_checks", ignore_result=True)
def run_checks(*, id: int, **_: Any) -> None:
    """Start the checks of one pull request that are to be run."""
    services.run_checks(pull_id=id)
