"""Writes of comparisons: `comparisons` (asked for, run, cancelled, pruned), `history` (what readers of a dataset ask for), `requests` (what a worker is given), `spark`, `checking`, `receivers`."""

from webapp.comparisons.services.comparisons import (
    cancel_comparison,
    request_comparison,
    rerun_comparison,
    run_comparison,
    sweep_comparisons,
)
from webapp.comparisons.services.history import compare_ends, request_blame, request_changelog

__all__ = [
    "cancel_comparison",
    "compare_ends",
    "request_blame",
    "request_changelog",
    "request_comparison",
    "rerun_comparison",
    "run_comparison",
    "sweep_comparisons",
]
