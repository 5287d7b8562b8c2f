"""Where the stored artifacts of comparisons lie."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from webapp.comparisons.rules.states import ComparisonState

if TYPE_CHECKING:
    from webapp.comparisons.models import Comparison


def artifact_folder(comparison: Comparison) -> Path:
    """Return the folder of a comparison's artifact."""
    return Path(settings.TRIBUTARY_HOME) / "diffs" / comparison.identity[:2] / comparison.identity


def first_rows_folder(comparison: Comparison | None) -> Path | None:
    """Return the folder of the first rows by key of a comparison that still runs, as soon as they are stored."""
    if comparison is None or comparison.state != ComparisonState.RUNNING:
        return None
    folder = artifact_folder(comparison) / "first"
    return folder if (folder / "summary.json").exists() else None
