"""Comparisons as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webapp.comparisons.queries.ends import list_changes
from webapp.comparisons.rules import states
from webapp.comparisons.rules.states import ComparisonState
from webapp.datasets.serializers import shape_transaction

if TYPE_CHECKING:
    from webapp.comparisons.models import Comparison
    from webapp.comparisons.queries.ends import Between
    from webapp.datasets.models import Transaction

MOST_BETWEEN = 100
"""Transactions between two ends that an answer lists; beyond it there is only their count."""


def shape_comparison(comparison: Comparison | None, *, reason: str = "") -> dict[str, Any]:
    """Return the state and the counts of a row diff. Not compared is never shown as no change: counts are null then."""
    counts: dict[str, Any] = dict.fromkeys(("inserted", "deleted", "updated", "unchanged"))
    if comparison is None:
        return {"state": states.NOT_COMPARED, **counts, "reason": reason}
    if comparison.state == ComparisonState.FAILED:
        return {"state": ComparisonState.FAILED, **counts, "reason": comparison.error}
    known = comparison.summary if comparison.state == ComparisonState.READY else comparison.progress
    known = {**known, **known.get("summary", {})}
    counts = {name: known.get(name) for name in counts}
    state = ComparisonState.READY if comparison.state == ComparisonState.READY else ComparisonState.RUNNING
    more = {name: known[name] for name in ("reason", "executor", "executor_reason", "by_row_ids") if known.get(name)}
    return {"state": state, **counts, **more}


def shape_between(between: Between) -> dict[str, Any]:
    """Return the transactions between two ends, each with what it changed."""
    changes = list_changes([*between.came, *between.left])

    def shape(one: Transaction) -> dict[str, Any]:
        changed = changes.get(one.pk)
        return {**shape_transaction(one), "changed": None if changed is None else vars(changed)}

    return {
        "base": None if between.base is None else between.base.pk,
        "came": [shape(one) for one in between.came[:MOST_BETWEEN]],
        "left": [shape(one) for one in between.left[:MOST_BETWEEN]],
        "came_count": len(between.came),
        "left_count": len(between.left),
    }
