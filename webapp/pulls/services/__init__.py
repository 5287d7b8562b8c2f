"""Everything that changes pull requests; keyword-only, `by` is the actor.

Modules:
    pulls: their life: open, edit, close, review, follow what moves.
    checks: queries of the head, run on both branches.
    attaching: the comparisons that their datasets show.
    sides: builds of both sides.
    remarks: threads of comments, and marks of what was viewed.
    verdicts: what reviewers say of single datasets.
    labels: labels of repositories and pull requests, and who sees to one.
    reviewers: people and groups whose review is asked for.
    pending: comments that wait for the verdict of their author's review.
    suggestions: changes of lines that comments suggest, as commits.
    updating: a source branch brought up to date.
    loads: files of the source that merging loads on the target.
    needs: transactions that open pull requests show.
    merging: a Git merge and a build, as one operation.
    queueing: merges that are asked for when they are ready, tested before they land.
    reverting: a pull request that takes another one back.
    sources: source branches deleted and restored.
    receivers: what follows when something below changes.
    checking: what `manage.py fsck` asks of merges.
"""

from webapp.pulls.services.attaching import cancel_pull_comparison
from webapp.pulls.services.checks import rerun_check, run_checks
from webapp.pulls.services.labels import assign_pull, label_pull, remove_label, set_label
from webapp.pulls.services.loads import choose_load
from webapp.pulls.services.merging import merge_pull, resume_merge, retry_rebuild, sweep_merges
from webapp.pulls.services.pending import add_pending, delete_pending, discard_review, edit_pending
from webapp.pulls.services.pulls import (
    add_review,
    close_pull,
    open_pull,
    refresh_by_id,
    refresh_pull,
    reopen_pull,
    update_pull,
)
from webapp.pulls.services.queueing import advance_by_id, enqueue_pull, leave_queue
from webapp.pulls.services.remarks import add_comment, delete_comment, edit_comment, mark_viewed, resolve_comment
from webapp.pulls.services.reverting import revert_pull
from webapp.pulls.services.reviewers import ask_reviewers, unask_reviewers
from webapp.pulls.services.sides import build_pull
from webapp.pulls.services.sources import delete_source, restore_source
from webapp.pulls.services.suggestions import commit_suggestions
from webapp.pulls.services.updating import update_branch
from webapp.pulls.services.verdicts import judge_dataset

__all__ = [
    "add_comment",
    "add_pending",
    "add_review",
    "advance_by_id",
    "ask_reviewers",
    "assign_pull",
    "build_pull",
    "cancel_pull_comparison",
    "choose_load",
    "close_pull",
    "commit_suggestions",
    "delete_comment",
    "delete_pending",
    "delete_source",
    "discard_review",
    "edit_comment",
    "edit_pending",
    "enqueue_pull",
    "judge_dataset",
    "label_pull",
    "leave_queue",
    "mark_viewed",
    "merge_pull",
    "open_pull",
    "refresh_by_id",
    "refresh_pull",
    "remove_label",
    "reopen_pull",
    "rerun_check",
    "resolve_comment",
    "restore_source",
    "resume_merge",
    "retry_rebuild",
    "revert_pull",
    "run_checks",
    "set_label",
    "sweep_merges",
    "unask_reviewers",
    "update_branch",
    "update_pull",
]
