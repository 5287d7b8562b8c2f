"""Spark for one comparison: a session of its own, and a folder in the table's where both see what it shall read."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from jobs.protocol import SparkAccess
from webapp.builds.services.interrupts import end_session
from webapp.core.queries import check_spark

if TYPE_CHECKING:
    from webapp.pulls.models import Comparison


def offer_spark(*, comparison: Comparison, table_folder: str) -> tuple[SparkAccess | None, str]:
    """Return what a comparison needs to use Spark, or why it gets none: it never waits for a server."""
    if not table_folder:
        return None, "the files are in an object store"
    if settings.TRIBUTARY_EXECUTOR == "embedded":
        return None, "this installation compares all rows in the job's process"
    health = check_spark()
    if not health.works:
        return (
            None,
            "there is no Spark server here" if health.state == "off" else f"its server is away ({health.detail})",
        )
    folder = Path(table_folder) / "metadata" / f"comparison-{comparison.pk}-{comparison.attempt}"
    access = SparkAccess(
        remote=settings.SPARK_REMOTE,
        owner=f"comparison-{comparison.pk}",
        session_id=str(uuid.uuid4()),
        folder=str(folder),
    )
    return access, ""


def open_folder(access: SparkAccess) -> None:
    """Make the folder, which the sandboxed process writes under a user of its own."""
    folder = Path(access.folder)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)


def withdraw_spark(access: SparkAccess, *, is_killed: bool) -> None:
    """Remove the folder; of a process that could not say goodbye, end the session with what runs in it."""
    shutil.rmtree(access.folder, ignore_errors=True)
    if is_killed:
        end_session(owner=access.owner, session_id=access.session_id)
