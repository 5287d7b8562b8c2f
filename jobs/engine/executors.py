"""Who compares the rows of one diff: this process, or Spark where there is one and the rows are many."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from pyiceberg.table import StaticTable

from jobs.engine.compare.reduced import Reduction, drop_tables
from jobs.engine.failures import describe
from jobs.engine.plan.components import FileGroup
from jobs.engine.plan.router import Decision, choose_executor
from jobs.engine.spark.session import SparkUnavailable, close_session, configure, connect, interrupt_session

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql.connect.session import SparkSession

    from jobs.engine.compare.comparison import RowComparison
    from jobs.engine.compare.reduced import Reduced
    from jobs.engine.plan.planner import DiffPlan
    from jobs.engine.spark.diff import Fetch, SparkDiff
    from jobs.engine.spark.statistics import SparkMeasured
    from jobs.protocol import DiffRequest, SparkAccess

_LONGEST = 200
_LOOK_SECONDS = 0.2


@dataclass
class Executors:
    """The choice of one diff; called by the engine once it has planned."""

    request: DiffRequest
    _session: SparkSession | None = None
    _compared: DiffBySpark | None = None
    _ending: Thread | None = None
    _stopped: Event = field(default_factory=Event)

    def __call__(self, comparison: RowComparison) -> Reduction:
        """Choose; have Spark reduce the rows if it is chosen, and do without it if it fails."""
        reduction = Reduction(self._choose(comparison.plan))
        if reduction.decision.executor == "spark" and self.request.spark is not None:
            reduction = self._try_spark(comparison, self.request.spark, reduction.decision)
        sys.stdout.write(f"{reduction.decision}\n")
        sys.stdout.flush()
        return reduction

    def stop(self) -> None:
        """End what Spark computes now; again for what it computes next, as with queries of this process.

        In a thread of its own, for the server may not answer.
        """
        self._stopped.set()
        session = self._session
        if session is not None and (self._ending is None or not self._ending.is_alive()):
            self._ending = Thread(target=interrupt_session, args=[session], daemon=True)
            self._ending.start()

    def close(self) -> None:
        """Release what the comparison used, once it has ended."""
        compared, self._compared = self._compared, None
        if compared is not None:
            compared.close()
        session, self._session = self._session, None
        if session is not None:
            close_session(session)

    def _choose(self, plan: DiffPlan) -> Decision:
        request = self.request
        size = plan.decoded_bytes(FileGroup(plan.before_files, plan.after_files))
        if request.executor == "auto" and not (plan.shifted or (plan.left and plan.came)):
            return Decision("embedded", "only one side has rows of its own, and all of them differ")
        return choose_executor(
            size, limit=request.embedded_bytes, executor=request.executor, obstacle=self._find_obstacle(plan)
        )

    def _find_obstacle(self, plan: DiffPlan) -> str:
        if self.request.spark is None:
            return self.request.spark_obstacle or "there is no Spark server here"
        from jobs.engine.spark.diff import find_obstacle

        return find_obstacle(plan)

    def _try_spark(self, comparison: RowComparison, access: SparkAccess, decision: Decision) -> Reduction:
        import grpc
        from pyspark.errors import PySparkException

        comparison.progress.enter("comparing", executor="spark", wants_spark=bool(access.answer))
        if refusal := self._wait_for_turn(access.answer):
            return Reduction(Decision("embedded", f"Spark is not free ({refusal}), although {decision.reason}"))
        try:
            self._session = connect(access.remote, job_id=access.owner, session_id=access.session_id)
            configure(self._session, {"spark.sql.session.timeZone": "UTC"})
            self._compared = compare_by(self._session, comparison, folder=access.folder)
        except (PySparkException, grpc.RpcError, SparkUnavailable) as error:
            self.close()
            drop_tables(comparison.connection)
            words = " ".join(describe(error).split())[:_LONGEST]
            return Reduction(Decision("embedded", f"Spark failed ({words}), although {decision.reason}"))
        return self._compared.reduction(decision)

    def _wait_for_turn(self, answer: str) -> str:
        """Wait until the caller says that Spark is free; return why it is not."""
        while answer and not Path(answer).exists():
            if self._stopped.wait(_LOOK_SECONDS):
                return "the comparison is stopped"
        return Path(answer).read_text(encoding="utf-8") if answer else ""


def compare_by(
    session: SparkSession, comparison: RowComparison, *, folder: str, fetch: Fetch | None = None
) -> DiffBySpark:
    """Have a session of Spark reduce the rows of a diff, and measure all of them when it is asked.

    `folder` is one that Spark reads, `fetch` brings its answers. What is returned is to be closed after the diff.
    """
    from jobs.engine.spark.diff import SparkDiff
    from jobs.engine.spark.statistics import SparkMeasured

    plan, connection = comparison.plan, comparison.connection
    diff = SparkDiff(plan, session, _open_tables(comparison.request), folder, fetch)
    try:
        reduced = diff.reduce(connection)
    except BaseException:
        diff.close()
        raise
    measured = SparkMeasured(connection, plan.pairs, reduced.counted.whole, diff.all_rows, diff.fetch)
    return DiffBySpark(diff, reduced, measured)


@dataclass(frozen=True)
class DiffBySpark:
    """A diff in Spark's hands."""

    diff: SparkDiff
    reduced: Reduced
    measured: SparkMeasured

    def reduction(self, decision: Decision) -> Reduction:
        """Return what Spark has done of the diff, and what it can do."""
        can_measure = not self.diff.find_obstacle_to_shared()
        return Reduction(decision, self.reduced, self.measured if can_measure else None)

    def close(self) -> None:
        """Let go of what Spark keeps and was given to read."""
        self.measured.close()
        self.diff.close()


def _open_tables(request: DiffRequest) -> dict[str, Table]:
    """Return the metadata of both ends, which are tables of their own where they are two."""
    ends = {"b": request.before, "a": request.after}
    return {
        side: StaticTable.from_metadata(end.metadata_location, dict(request.io))
        for side, end in ends.items()
        if end is not None
    }
