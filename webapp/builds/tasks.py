"""Doorbells: each hands an id to one service. The row decides, so a doubled or late ring does nothing."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

from celery import shared_task

from webapp.builds import queries, services
from webapp.core.errors import Unavailable


@shared_task(name="webapp.builds.tasks.publish", ignore_result=True)
def publish(*, repository: str, branch: str, sha: str, **_: Any) -> None:
    """Publish the JobSpecs of one commit on one branch."""
    row = queries.find_repository_by_name(repository)
    if row is None:
        return
    with suppress(Unavailable):  # the copy is damaged: readiness says so, and the sweep rings again
        services.publish(repository=row, branch=branch, sha=sha)


@shared_task(name="webapp.builds.tasks.resolve_build", ignore_result=True)
def resolve_build(*, id: int, **_: Any) -> None:
    """Plan a build and open its transactions."""
    build = queries.find_build(id)
    if build is not None:
        services.resolve_build(build=build)


@shared_task(name="webapp.builds.tasks.run_job", ignore_result=True)
def run_job(**_: Any) -> None:
    """Run the job whose turn it is: the message's own, or one that comes before it and has a message, too."""
    services.run_job(worker=f"{socket.gethostname()}-{os.getpid()}")
