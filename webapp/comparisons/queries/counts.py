"""How far a row diff is, and what it has counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.comparisons.rules import states
from webapp.comparisons.rules.states import ROW_CHANGES, UNCHANGED, ComparisonState, show_state

if TYPE_CHECKING:
    from webapp.comparisons.models import Comparison


@dataclass(frozen=True)
class RowCounts:
    """Counts are None where nothing is known: not compared is never shown as no change."""

    state: str
    inserted: int | None = None
    deleted: int | None = None
    updated: int | None = None
    unchanged: int | None = None
    reason: str | None = None
    """Why it is not compared, or failed."""
    executor: str | None = None
    executor_reason: str | None = None
    by_row_ids: dict[str, int] | None = None
    """Counts by row ids alone, before values are compared."""


def count_rows(comparison: Comparison | None, *, reason: str = "") -> RowCounts:
    """Return the counts of a row diff; without one `reason` says why there is none."""
    if comparison is None:
        return RowCounts(states.NOT_COMPARED, reason=reason)
    if comparison.state == ComparisonState.FAILED:
        return RowCounts(ComparisonState.FAILED, reason=comparison.error)
    is_ready = comparison.state == ComparisonState.READY
    progress: dict[str, Any] = comparison.summary if is_ready else comparison.progress
    progress = {**progress, **progress.get("summary", {})}
    return RowCounts(
        show_state(comparison.state),
        *(progress.get(name) for name in (*ROW_CHANGES, "unchanged")),
        *(progress.get(name) or None for name in ("reason", "executor", "executor_reason", "by_row_ids")),
    )


def judge_comparison(comparison: Comparison | None) -> dict[str, Any]:
    """Say whether two results of a dataset are equal: equal, different, comparing or not_compared."""
    if comparison is None:
        return {"state": "not_compared"}
    if comparison.state == ComparisonState.FAILED:
        return {"state": "not_compared", "reason": comparison.error}
    if comparison.state != ComparisonState.READY:
        return {"state": "comparing"}
    counts = {name: comparison.summary.get(name, 0) for name in ROW_CHANGES}
    same_schema = comparison.schema.get("status") == UNCHANGED
    return {"state": "equal" if not any(counts.values()) and same_schema else "different", **counts}
