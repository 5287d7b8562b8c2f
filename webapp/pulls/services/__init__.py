"""Writes of pull requests: `pulls` (their life and reviews), `remarks` (comments, what was viewed), `sides` (their builds), `comparisons` (stored row diffs), `history`
(what readers of a dataset ask for), `merging`, `receivers`.
"""

from webapp.pulls.services.comparisons import (
    cancel_comparison,
    cancel_pull_comparison,
    request_comparison,
    rerun_comparison,
    run_comparison,
    sweep_comparisons,
)
from webapp.pulls.services.history import compare_ends, request_blame, request_changelog
from webapp.pulls.services.merging import merge_pull, resume_merge, sweep_merges
from webapp.pulls.services.pulls import (
    add_review,
    close_pull,
    open_pull,
    refresh_by_id,
    refresh_pull,
    reopen_pull,
    update_pull,
)
from webapp.pulls.services.remarks import add_comment, mark_viewed, resolve_comment
from webapp.pulls.services.sides import build_pull

__all__ = [
    "add_comment",
    "add_review",
    "build_pull",
    "cancel_comparison",
    "cancel_pull_comparison",
    "close_pull",
    "compare_ends",
    "mark_viewed",
    "merge_pull",
    "open_pull",
    "refresh_by_id",
    "refresh_pull",
    "reopen_pull",
    "request_blame",
    "request_changelog",
    "request_comparison",
    "rerun_comparison",
    "resolve_comment",
    "resume_merge",
    "run_comparison",
    "sweep_comparisons",
    "sweep_merges",
    "update_pull",
]
