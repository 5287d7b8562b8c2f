"""Ending the Spark session of a job that is gone, in a process of its own: this side never speaks Spark."""

from __future__ import annotations

import logging

from django.conf import settings

from jobs.protocol import InterruptRequest, write_message
from webapp.builds.models import Job
from webapp.builds.rules import profiles
from webapp.builds.runner import paths
from webapp.builds.runner.launcher import Sandbox, launch
from webapp.builds.services import trees
from webapp.core.errors import Unavailable
from webapp.core.folders import remove_folder
from webapp.core.hosts import find_hosts

logger = logging.getLogger(__name__)


def interrupt_session(*, job: Job) -> None:
    """Open the job's session under its own address, interrupt what runs in it and close it for good."""
    if job.spark_session:
        end_session(owner=job.pk, session_id=job.spark_session)


def end_session(*, owner: str, session_id: str) -> None:
    """Interrupt what runs in a session whose process is gone, and close it for good."""
    if not settings.SPARK_REMOTE:
        return
    folder = paths.work_folder(f"interrupt-{owner}", trees.next_number())
    trees.make_open_folder(folder)
    manifest = folder / "manifest.json"
    request = InterruptRequest(spark_remote=settings.SPARK_REMOTE, job_id=owner, spark_session_id=session_id)
    write_message(manifest, request)
    manifest.chmod(0o644)
    try:
        handle = launch(
            "interrupt",
            manifest,
            sandbox=Sandbox(writable=[str(folder)], hosts=find_hosts([settings.SPARK_REMOTE])),
            limits=profiles.INTERRUPT.as_limits(),
            log_path=folder / "log",
        )
        try:
            if handle.wait(profiles.INTERRUPT.wall_s) is None:
                handle.stop()
        finally:
            handle.close()
    except Unavailable as error:
        # The server drops a session that nobody uses by itself, later.
        logger.warning("Spark session of %s not interrupted: %s", owner, error.detail)
    finally:
        remove_folder(folder)
