"""Everything that changes comparisons; keyword-only, `by` is the actor.

Modules:
    comparisons: asked for once, run by a worker, kept or pruned.
    history: what readers of a dataset ask for, within bounds.
    answers: what a process left, or what its end means.
    requests: what each kind of comparison asks of its job process.
    spark: a session of Spark for one comparison.
    checking: what `manage.py fsck` asks of stored answers.
"""

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
