"""Spark for one comparison: a session of its own, and a folder in the table's where both see what it shall read."""

from __future__ import annotations

import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from jobs.protocol import SparkAccess
from jobs.whole_files import write_whole
from webapp.accounts.permissions import find_folder_owner
from webapp.builds.services.interrupts import end_session
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.core.errors import Unavailable
from webapp.runtime.health import check_spark, look_at_spark
from webapp.runtime.spark_folders import Loan, find_spark_folder, lent_spark, may_use_spark, remove_spark_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from webapp.comparisons.models import Comparison

ANSWER = "spark"
"""The file of an artifact that tells its process whether Spark is free."""
GROUP = "comparisons"
"""They run nobody's code, and are kept apart from those who do: what they say of rows is what is reviewed."""
PATIENCE_S = 120.0
"""So long a comparison waits for Spark to be free; then its process compares all rows itself."""
KEPT_OFF = "TRIBUTARY_SPARK_REPOSITORIES keeps the repository's data off the Spark cluster"
ELSEWHERE = "the files are in an object store, and the Spark server is not the installation's own"


def offer_spark(*, comparison: Comparison, table_folder: str) -> tuple[SparkAccess | None, str]:
    """Return what a comparison needs to use Spark, or why it gets none: it never waits for a server."""
    if settings.TRIBUTARY_EXECUTOR == "embedded":
        return None, "this installation compares all rows in the job's process"
    if not may_use_spark(find_folder_owner(comparison.dataset.path)):
        return None, KEPT_OFF
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
        answer=str(artifact_folder(comparison) / ANSWER) if settings.TRIBUTARY_SPARK_OPENER else "",
    )
    return access, ""


@dataclass
class Lending:
    """Lends Spark to a comparison whose process has found that it needs it."""

    access: SparkAccess | None
    table_folder: str
    """The folder of the table's files; empty if they are in an object store."""
    lent: ExitStack
    """Gives it back."""
    asked_at: float | None = None
    loan: Loan = field(default_factory=Loan)
    is_lent: bool = False
    is_answered: bool = False

    def look(self, progress: Mapping[str, Any]) -> None:
        """Answer the process if it asks, once Spark is free and works or that takes too long."""
        access = self.access
        if access is None or self.is_answered or not progress.get("wants_spark"):
            return
        self.asked_at = self.asked_at or time.monotonic()
        refusal = self._try_to_lend(access)
        if refusal and time.monotonic() - self.asked_at < PATIENCE_S:
            return
        self.is_answered = True
        write_whole(access.answer, refusal, mode=0o644)

    def _try_to_lend(self, access: SparkAccess) -> str:
        """Return why Spark cannot be used now."""
        if not self.is_lent:
            folder = Path(self.table_folder or access.folder)
            try:
                self.loan = self.lent.enter_context(lent_spark(group=GROUP, read=[folder]))
            except Unavailable as error:
                return error.detail
            self.is_lent = True
        health = look_at_spark()
        return "" if health.works else health.detail


def withdraw_spark(access: SparkAccess, *, is_killed: bool, beat: Callable[[], None]) -> None:
    """Remove the folder; of a process that could not say goodbye, end the session with what runs in it."""
    remove_spark_folder(Path(access.folder))
    if is_killed:
        end_session(owner=access.owner, session_id=access.session_id, beat=beat)
