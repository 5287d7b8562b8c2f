"""Where the stored artifacts of comparisons lie."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from webapp.pulls.models import Comparison


def artifact_folder(comparison: Comparison) -> Path:
    """Return the folder of a comparison's artifact."""
    return Path(settings.TRIBUTARY_HOME) / "diffs" / comparison.identity[:2] / comparison.identity
