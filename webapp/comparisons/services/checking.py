"""Whether stored answers are still there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from webapp.comparisons.models import Comparison
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.services.answers import read_json
from webapp.comparisons.services.comparisons import rerun_comparison
from webapp.core.fsck import Finding, Note

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_comparisons() -> Iterator[Finding | Note]:
    """Find stored diffs whose files are gone, or whose counts cannot be read."""
    ready = Comparison.objects.filter(state=ComparisonState.READY).select_related("dataset").order_by("pk")
    for comparison in ready.iterator():
        summary = artifact_folder(comparison) / "summary.json"
        if read_json(summary):
            continue
        is_there = summary.is_file()
        yield Finding(
            code="diff_damaged" if is_there else "diff_missing",
            object=f"{comparison.dataset.path} comparison {comparison.pk}",
            problem=f"{summary} cannot be read." if is_there else f"It counts as stored, and {summary} is not there.",
            way_out="Compare again.",
            repair=partial(rerun_comparison, comparison=comparison, by=None, of=ComparisonState.READY),
        )
    yield Note(what="stored diffs", count=ready.count())
