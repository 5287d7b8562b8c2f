"""What takes a merged pull request back, and whether the data is again what it was before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webapp.comparisons.queries.counts import judge_comparison
from webapp.datasets import queries as datasets
from webapp.pulls.queries.named import find_shown
from webapp.pulls.rules import states
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webapp.datasets.models import Dataset, Transaction
    from webapp.pulls.models import PullDataset, PullRequest


def find_revert(pull: PullRequest) -> PullRequest | None:
    """Return the pull request that reverts it: an open one, or one that is merged and was not itself reverted since."""
    reverts = pull.reverted_by.exclude(state=PullState.CLOSED).order_by("-number")
    return next((revert for revert in reverts if revert.state == PullState.OPEN or not is_reverted(revert)), None)


def is_reverted(pull: PullRequest) -> bool:
    """Return whether the target no longer has what it brought, because a pull request took it back."""
    return any(not is_reverted(revert) for revert in pull.reverted_by.filter(state=PullState.MERGED))


def find_before_reverted(pull: PullRequest, dataset: Dataset, *, chain: Sequence[str]) -> Transaction | None:
    """Return what the target's readers had of a dataset just before the pull request that is reverted was merged.

    Args:
        pull: the pull request that reverts.
        dataset: of both.
        chain: the target, and the branches that its readers fall back to.

    """
    merge = getattr(pull.reverts, "merge", None)
    if merge is None or merge.landed_at is None:
        return None
    return datasets.find_committed_at(path=dataset.path, chain=chain, at=merge.landed_at)


def describe_restored(rows: Iterable[PullDataset]) -> dict[str, dict[str, Any]]:
    """Say of each dataset whether the revert's build equals what was there: equal, different, comparing, not_compared.

    Or not_built, new of what was not there, and removed of what nothing makes any more. Not of what is only downstream
    and was not built.
    """
    return {row.path: _judge(row) for row in rows if row.after_id or row.change in states.CHANGED}


def _judge(row: PullDataset) -> dict[str, Any]:
    if row.change == states.REMOVED:
        return {"state": "removed"}
    if row.after_id is None or (row.is_rebuilt and not row.current):
        return {"state": "not_built"}
    shown = find_shown(row, states.BEFORE_REVERTED)
    return {"state": "new"} if shown.before is None else judge_comparison(shown.comparison)
