"""Spark for one comparison: a session of its own, and a folder in the table's where both see what it shall read."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from jobs.protocol import SparkAccess
from webapp.builds.services.interrupts import end_session
from webapp.core.queries import check_spark
from webapp.core.spark_folders import find_spark_folder, remove_spark_folder

if TYPE_CHECKING:
    from webapp.pulls.models import Comparison

ELSEWHERE = "the files are in an object store, and the Spark server is not the installation's own"


def offer_spark(*, comparison: Comparison, table_folder: str) -> tuple[SparkAccess | None, str]:
    """Return what a comparison needs to use Spark, or why it gets none: it never waits for a server."""
    if settings.TRIBUTARY_EXECUTOR == "embedded":
        return None, "this installation compares all rows in the job's process"
    health = check_spark()
    if not health.works:
        return (
            None,
            "there is no Spark server here" if health.state == "off" else f"its server is away ({health.detail})",
        )
    name = f"comparison-{comparison.pk}-{comparison.attempt}"
    # beside the table's files, or where they are in an object store in a folder of the server's
    folder = Path(table_folder) / "metadata" / name if table_folder else find_spark_folder(name)
    if folder is None:
        return None, ELSEWHERE
    access = SparkAccess(
        remote=settings.SPARK_REMOTE,
        owner=f"comparison-{comparison.pk}",
        session_id=str(uuid.uuid4()),
        folder=str(folder),
    )
    return access, ""


def withdraw_spark(access: SparkAccess, *, is_killed: bool) -> None:
    """Remove the folder; of a process that could not say goodbye, end the session with what runs in it."""
    remove_spark_folder(Path(access.folder))
    if is_killed:
        end_session(owner=access.owner, session_id=access.session_id)
