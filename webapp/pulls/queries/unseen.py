"""What somebody knows of the datasets of a pull request that they may not see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from webapp.comparisons.rules.states import ROW_CHANGES, ComparisonState
from webapp.pulls.models import PullDataset, PullRequest
from webapp.pulls.queries.pulls import list_all_datasets


@dataclass(frozen=True)
class UnseenData:
    """Datasets whose rows somebody may not see: counts alone."""

    datasets: int
    compared: int
    """Of how many of these the rows below are."""
    inserted: int
    deleted: int
    updated: int


def count_unseen(pull: PullRequest, *, seen: Iterable[PullDataset]) -> UnseenData:
    """Add up the datasets of a pull request beside those that somebody may see."""
    unseen = {row.pk for row in list_all_datasets(pull)} - {row.pk for row in seen}
    rows = pull.datasets.filter(pk__in=unseen).select_related("comparison") if unseen else ()
    comparisons = [row.comparison for row in rows]
    ready = [entry for entry in comparisons if entry is not None and entry.state == ComparisonState.READY]
    changes = (sum(int(entry.summary.get(name) or 0) for entry in ready) for name in ROW_CHANGES)
    return UnseenData(len(comparisons), len(ready), *changes)
