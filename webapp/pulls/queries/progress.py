"""How far a comparison is, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.pulls.rules import states

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webapp.pulls.models import Comparison


@dataclass(frozen=True)
class Progress:
    """How far a comparison is; the counts are known before the first row is."""

    text: str = ""
    percent: int | None = None
    counts: tuple[int, int, int] | None = None
    """Rows added, removed and changed, as soon as they are known."""
    estimate: tuple[int, int, int] | None = None
    """The same by row ids, before values are compared: rows written again with equal values are among the changed."""


NOTHING = Progress()


def describe_reached(comparison: Comparison | None) -> Progress:
    """Return what a comparison that failed had reached: counts are exact once they are known, rows may be missing."""
    if comparison is None or comparison.state != states.FAILED or not comparison.progress:
        return NOTHING
    return _describe(comparison.progress)


def describe_progress(comparison: Comparison | None) -> Progress:
    """Return how far a comparison is; nothing where it does not move."""
    if comparison is None or comparison.state not in (states.QUEUED, states.RUNNING):
        return NOTHING
    if comparison.state == states.QUEUED:
        return Progress("Waits for a worker.")
    return _describe(comparison.progress or {})


def _describe(known: Mapping[str, Any]) -> Progress:
    counts, estimate = _read_counts(known.get("summary")), _read_counts(known.get("by_row_ids"))
    phase = str(known.get("phase", "starting")).replace("_", " ").capitalize()
    done, total = known.get("files_done"), known.get("files_total")
    if isinstance(done, int) and isinstance(total, int) and total:
        return Progress(f"{phase}: {done} of {total} files.", round(100 * done / total), counts, estimate)
    files, seconds = known.get("files"), known.get("elapsed_s")
    more = f" {files:,} files that differ" if isinstance(files, int) else ""
    more += f", {seconds:.0f} s so far" if isinstance(seconds, int | float) else ""
    return Progress(f"{phase}{more}.", None, counts, estimate)


def _read_counts(found: Mapping[str, Any] | None) -> tuple[int, int, int] | None:
    if not found or "inserted" not in found:
        return None
    return int(found["inserted"]), int(found["deleted"]), int(found.get("updated") or 0)
