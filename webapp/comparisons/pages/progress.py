"""How far a comparison is, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.comparisons.rules.states import ComparisonState
from webapp.core import clock
from webapp.core.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webapp.comparisons.models import Comparison


@dataclass(frozen=True)
class ComparisonProgress:
    """How far a comparison is; the counts are known before the first row is."""

    text: str = ""
    percent: int | None = None
    counts: tuple[int, int, int] | None = None
    """Rows added, removed and changed, as soon as they are known."""
    estimate: tuple[int, int, int] | None = None
    """The same by row ids, before values are compared: rows written again with equal values are among the changed."""


NOTHING = ComparisonProgress()
_DOING = {
    "planning": "Finding the files that differ",
    "comparing": "Comparing",
    "writing": "Writing the rows that changed",
    "statistics": "Measuring the columns",
}


def describe_reached(comparison: Comparison | None) -> ComparisonProgress:
    """Return what a comparison that failed had reached: counts are exact once they are known, rows may be missing."""
    if comparison is None or comparison.state != ComparisonState.FAILED or not comparison.progress:
        return NOTHING
    return _describe(comparison)


def describe_progress(comparison: Comparison | None) -> ComparisonProgress:
    """Return how far a comparison is; nothing where it does not move."""
    if comparison is None or comparison.state not in (ComparisonState.QUEUED, ComparisonState.RUNNING):
        return NOTHING
    if comparison.state == ComparisonState.QUEUED:
        return ComparisonProgress("Waits for a worker.")
    return _describe(comparison)


def count_differing(files: int) -> str:
    """Return "1 file that differs", "2 files that differ"."""
    return f"{counted(files, 'file')} that {'differs' if files == 1 else 'differ'}"


def _describe(comparison: Comparison) -> ComparisonProgress:
    progress = comparison.progress or {}
    counts, estimate = _read_counts(progress.get("summary")), _read_counts(progress.get("by_row_ids"))
    phase, files, done = progress.get("phase"), progress.get("files") or 0, progress.get("files_done")
    percent = round(100 * done / files) if phase == "comparing" and files and done else None
    text = _DOING.get(str(phase), "Starting")
    if percent is not None:
        text = f"Compared {done:,} of {count_differing(files)}"
    elif phase == "comparing" and files:
        text += f" {count_differing(files)}"
    if comparison.started_at is not None:
        until = comparison.finished_at if comparison.state == ComparisonState.FAILED else clock.now()
        seconds = ((until or clock.now()) - comparison.started_at).total_seconds()
        text += f", {seconds:,.0f} s so far"
    return ComparisonProgress(f"{text}.", percent, counts, estimate)


def _read_counts(counts: Mapping[str, Any] | None) -> tuple[int, int, int] | None:
    if not counts or "inserted" not in counts:
        return None
    return int(counts["inserted"]), int(counts["deleted"]), int(counts.get("updated") or 0)
