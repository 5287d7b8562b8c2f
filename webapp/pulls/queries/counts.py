"""Sums over the row diffs of a pull request, as every page shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.pulls.models import PullDataset
from webapp.pulls.rules import states

if TYPE_CHECKING:
    from webapp.pulls.models import Comparison


@dataclass(frozen=True)
class DiffSum:
    """The row diffs of a pull request, added up. What is not compared is never counted as unchanged."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    ready: int = 0
    running: int = 0
    failed: int = 0
    without: int = 0
    """Datasets that are not compared, each with its reason on the Data tab."""
    breaking: int = 0
    schemas: int = 0
    """Datasets whose schema changes."""

    @property
    def compared(self) -> int:
        """Datasets with a row diff in any state."""
        return self.ready + self.running + self.failed

    @property
    def total(self) -> int:
        """All datasets."""
        return self.compared + self.without

    @property
    def delta(self) -> tuple[int, int, int] | None:
        """Rows added, removed and changed; None before the first diff is ready."""
        return (self.added, self.removed, self.changed) if self.ready else None

    @property
    def schema_words(self) -> str:
        """The schema side in a few words."""
        if self.breaking:
            return f"{self.breaking} breaking"
        return f"{self.schemas} schema change{'s' if self.schemas != 1 else ''}" if self.schemas else "no schema change"


def sum_rows(rows: Iterable[PullDataset]) -> DiffSum:
    """Add up datasets whose comparisons are loaded."""
    found = dict.fromkeys(DiffSum.__dataclass_fields__, 0)
    for row in rows:
        _add(found, row, row.comparison)
    return DiffSum(**found)


def _add(found: dict[str, int], row: PullDataset, comparison: Comparison | None) -> None:
    found["schemas"] += row.schema_status in (states.CHANGED, states.BREAKING)
    found["breaking"] += row.schema_status == states.BREAKING
    if comparison is None:
        found["without"] += 1
    elif comparison.state == states.FAILED:
        found["failed"] += 1
    elif comparison.state != states.READY:
        found["running"] += 1
    else:
        found["ready"] += 1
        for name, stored in (("added", "inserted"), ("removed", "deleted"), ("changed", "updated")):
            found[name] += int(comparison.summary.get(stored) or 0)


def sum_by_pull(pull_ids: Iterable[int]) -> dict[int, DiffSum]:
    """Add up the datasets of many pull requests in one query."""
    grouped: dict[int, list[PullDataset]] = {}
    for row in PullDataset.objects.filter(pull__in=list(pull_ids)).select_related("comparison"):
        grouped.setdefault(row.pull_id, []).append(row)
    return {pull_id: sum_rows(rows) for pull_id, rows in grouped.items()}
