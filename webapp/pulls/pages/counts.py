"""Sums over the row diffs of a pull request, as every page shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.comparisons.rules.states import BREAKING, CHANGED, ComparisonState
from webapp.core.words import counted
from webapp.pulls.models import PullDataset
from webapp.pulls.rules import states
from webapp.pulls.rules.comparisons import name_comparison

if TYPE_CHECKING:
    from webapp.comparisons.models import Comparison


@dataclass(frozen=True)
class DiffSum:
    """The row diffs of a pull request, added up. What is not compared is never counted as unchanged.

    Rows and schemas are those that merging brings to the target: data loaded on the branch is compared, and in no sum.
    Datasets that the branch has only rebuilt are left out.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    ready: int = 0
    running: int = 0
    failed: int = 0
    without: int = 0
    """Datasets that are not compared, each with its reason on the Data tab."""
    landing: int = 0
    """Datasets that land, compared or not."""
    unlanded: int = 0
    """Datasets that are compared and do not land: among the ready ones, in no sum."""
    breaking: int = 0
    schemas: int = 0
    """Datasets whose schema changes."""
    names: frozenset[str] = frozenset()
    """Of the comparisons that are added up."""

    @property
    def compared_words(self) -> str:
        """What the sums are of."""
        names = [name for name in states.COMPARED_NAMES if name in self.names]
        return ", ".join(name_comparison(name, target="the target") for name in names)

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
        """Rows added, removed and changed; None before the first diff of what lands is ready."""
        return (self.added, self.removed, self.changed) if self.ready > self.unlanded else None

    @property
    def is_unlanded(self) -> bool:
        """Whether nothing of it lands."""
        return bool(self.unlanded) and not self.landing

    @property
    def unlanded_words(self) -> str:
        """How many datasets do not land; empty where all do."""
        verb = "does" if self.unlanded == 1 else "do"
        return f"{counted(self.unlanded, 'dataset')} {verb} not land" if self.unlanded else ""

    @property
    def schema_words(self) -> str:
        """The schema side in a few words."""
        if self.breaking:
            return f"{self.breaking} breaking"
        return f"{self.schemas} schema change{'s' if self.schemas != 1 else ''}" if self.schemas else "no schema change"


def sum_rows(rows: Iterable[PullDataset]) -> DiffSum:
    """Add up datasets whose comparisons are loaded."""
    sums = dict.fromkeys(DiffSum.__dataclass_fields__.keys() - {"names"}, 0)
    names = set()
    for row in rows:
        if row.change == states.REFRESHED:
            continue
        _add(sums, row, row.comparison)
        if row.comparison is not None:
            names.add(row.compared)
    return DiffSum(**sums, names=frozenset(names))


def _add(sums: dict[str, int], row: PullDataset, comparison: Comparison | None) -> None:
    sums["landing"] += row.lands
    sums["schemas"] += row.lands and row.schema_status in (CHANGED, BREAKING)
    sums["breaking"] += row.lands and row.schema_status == BREAKING
    if comparison is None:
        sums["without"] += 1
    elif comparison.state == ComparisonState.FAILED:
        sums["failed"] += 1
    elif comparison.state != ComparisonState.READY:
        sums["running"] += 1
    else:
        sums["ready"] += 1
        sums["unlanded"] += not row.lands
        for name, stored in (("added", "inserted"), ("removed", "deleted"), ("changed", "updated")):
            sums[name] += row.lands * int(comparison.summary.get(stored) or 0)


def sum_by_pull(pull_ids: Iterable[int]) -> dict[int, DiffSum]:
    """Add up the datasets of many pull requests in one query."""
    grouped: dict[int, list[PullDataset]] = {}
    for row in PullDataset.objects.filter(pull__in=list(pull_ids)).select_related("comparison"):
        grouped.setdefault(row.pull_id, []).append(row)
    return {pull_id: sum_rows(rows) for pull_id, rows in grouped.items()}
