"""Ending the Spark session of a job that is gone, in a process of its own: this side never speaks Spark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing

from django.conf import settings

from jobs.protocol import InterruptRequest, write_message
from webapp.builds.models import Job
from webapp.builds.rules import profiles
from webapp.builds.runner import paths
from webapp.builds.services import trees
from webapp.core.errors import Unavailable
from webapp.dispatch.processes import Ending, ProcessEnd, Sandbox, launch, watch
from webapp.runtime.folders import make_open_folder, remove_folder
from webapp.runtime.health import takes_spark_connections
from webapp.runtime.hosts import find_hosts
from webapp.runtime.spark_folders import renew_spark

logger = logging.getLogger(__name__)


def interrupt_session(*, job: Job, beat: Callable[[], None]) -> bool:
    """Open the job's session under its own address, interrupt what runs in it and close it for good; see `end_session`."""
    return not job.spark_session or end_session(owner=job.pk, session_id=job.spark_session, beat=beat)


def interrupt_session_aside(*, job: Job) -> None:
    """Do so in a thread of its own, for a caller on whom others wait and who holds no lease."""
    if job.spark_session:
        threading.Thread(
            target=end_session,
            kwargs={"owner": job.pk, "session_id": job.spark_session, "beat": _keep_nothing},
            name=f"interrupt-{job.pk}",
            daemon=True,
        ).start()


def _keep_nothing() -> None:
    return


def end_session(*, owner: str, session_id: str, beat: Callable[[], None]) -> bool:
    """Interrupt what runs in a session whose process is gone, and close it for good.

    A session that does not end in time ends with its server, which starts anew. Return whether it ended by itself.

    Args:
        owner: whose session it is.
        session_id: its name.
        beat: renews the caller's lease; this takes longer than one lasts.

    """
    if not settings.SPARK_REMOTE:
        return True
    if not takes_spark_connections():
        logger.warning("No Spark server listens: the session of %s ended with it", owner)
        return True
    try:
        end = _interrupt(owner, session_id, beat)
    except Unavailable as error:
        trouble = error.detail
    else:
        if end.is_success:
            return True
        is_late = end.ending is Ending.OVER_TIME
        trouble = f"no end within {profiles.INTERRUPT.wall_s} s" if is_late else f"exit code {end.code}"
    logger.error("Spark session of %s did not end (%s): the server ends and starts anew", owner, trouble)
    try:
        renew_spark(why=f"the session of {owner} did not end ({trouble})")
    except Unavailable as error:
        logger.exception("The Spark server was not ended: %s", error.detail)
    return False


def _interrupt(owner: str, session_id: str, beat: Callable[[], None]) -> ProcessEnd:
    """Return how what closes a session ended.

    Raises:
        Unavailable: it did not start.

    """
    folder = paths.work_folder(f"interrupt-{owner}", trees.next_number())
    make_open_folder(folder)
    manifest = folder / "manifest.json"
    request = InterruptRequest(spark_remote=settings.SPARK_REMOTE, job_id=owner, spark_session_id=session_id)
    write_message(manifest, request)
    manifest.chmod(0o644)
    beat()
    try:
        started = launch(
            "interrupt",
            manifest,
            sandbox=Sandbox(writable=[str(folder)], hosts=find_hosts([settings.SPARK_REMOTE])),
            limits=profiles.INTERRUPT.as_limits(),
            log_path=folder / "log",
        )
        with closing(started) as handle:
            return watch(handle, seconds=profiles.INTERRUPT.wall_s, beat=beat)
    finally:
        remove_folder(folder)
