"""One comparison of rows: its plan, where its rows are compared, and who hears how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.engine.compare.file_rows import FileRows

if TYPE_CHECKING:
    import duckdb

    from jobs.engine.plan.diff_rules import DiffRules
    from jobs.engine.plan.planner import DiffPlan
    from jobs.engine.write.artifact import ProgressReporter
    from jobs.protocol import DiffRequest


@dataclass(frozen=True)
class RowComparison:
    """What every step of a comparison works with, known once the diff is planned."""

    request: DiffRequest
    files: FileRows
    progress: ProgressReporter

    @property
    def plan(self) -> DiffPlan:
        return self.files.plan

    @property
    def rules(self) -> DiffRules:
        return self.files.plan.rules

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        return self.files.connection
