"""Whether stored answers are still there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from webapp.comparisons.models import Comparison
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.services.comparisons import rerun_comparison
from webapp.core.fsck import Finding, Note

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_comparisons() -> Iterator[Finding | Note]:
    """Find stored diffs whose files are gone."""
    ready = Comparison.objects.filter(state=ComparisonState.READY).select_related("dataset").order_by("pk")
    for comparison in ready.iterator():
        folder = artifact_folder(comparison)
        if not (folder / "summary.json").is_file():
            yield Finding(
                code="diff_missing",
                object=f"{comparison.dataset.path} comparison {comparison.pk}",
                problem=f"It counts as stored, and {folder} does not have it.",
                way_out="Compare again.",
                repair=partial(rerun_comparison, comparison=comparison, by=None, of=ComparisonState.READY),
            )
    yield Note(what="stored diffs", count=ready.count())
