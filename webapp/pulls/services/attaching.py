"""The comparisons that datasets of pull requests show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from webapp.accounts.permissions import check_repository
from webapp.comparisons.rules.dataset_rules import ComparisonRules
from webapp.comparisons.rules.states import NOT_COMPARED
from webapp.comparisons.services import cancel_comparison, request_comparison
from webapp.pulls.models import NamedComparison, PullDataset
from webapp.pulls.queries.pulls import find_pull_comparison
from webapp.pulls.rules import states

if TYPE_CHECKING:
    from typing import Any

    from webapp.core.principals import Principal
    from webapp.datasets.models import Transaction
    from webapp.pulls.models import PullRequest


def attach_comparisons(
    *,
    row: PullDataset,
    pairs: Mapping[str, tuple[Transaction | None, Transaction | None]],
    seen: Mapping[int, Transaction],
    rules: ComparisonRules,
    by: int | None,
) -> None:
    """Give a dataset of a pull request its comparisons, or the reason why there are none.

    Args:
        row: the dataset.
        pairs: name → both ends of the comparisons that say the same to everybody.
        seen: id of a reviewer → the rows of their last review, where the head has others now.
        rules: how rows are compared.
        by: the user whose share of the slots the comparisons take.

    """
    reason = _explain_absence(row)
    if reason or row.dataset is None:
        row.comparisons.all().delete()
        row.comparison, row.reason, row.schema_status = None, reason, NOT_COMPARED
    else:
        since_reviews = {(states.SINCE_REVIEW, pk): (before, row.after) for pk, before in seen.items()}
        named_pks = []
        for (name, reviewer), (before, after) in (
            {(name, None): ends for name, ends in pairs.items()} | since_reviews
        ).items():
            # Equal to what was before is said of all rows.
            held = replace(rules, row_filter="") if name == states.BEFORE_REVERTED else rules
            comparison = request_comparison(dataset=row.dataset, before=before, after=after, rules=held, by=by)
            ends = {"before": before, "after": after, "comparison": comparison}
            named, _ = NamedComparison.objects.update_or_create(row=row, name=name, reviewer_id=reviewer, defaults=ends)
            named_pks.append(named.pk)
            if name == row.compared:
                row.comparison, row.reason = comparison, ""
                row.schema_status = comparison.schema.get("status", NOT_COMPARED)
        row.comparisons.exclude(pk__in=named_pks).delete()
    row.save(update_fields=["comparison", "reason", "schema_status"])


def _explain_absence(row: PullDataset) -> str:
    if row.dataset is None:
        return "Nothing has built this dataset yet."
    if row.change == states.REMOVED:
        return "Its JobSpec is removed; the dataset and its history stay on the target branch."
    if row.after is None:
        return "The branch has not built it: readers on the branch fall back to the target."
    return ""


def cancel_pull_comparison(*, pull: PullRequest, path: str, name: str, by: Principal) -> None:
    """Stop the comparison of this name of a pull request's dataset.

    Raises:
        PermissionDenied: they may not write the repository.

    """
    check_repository(by, pull.repository.name, "write")
    comparison = find_pull_comparison(by, pull, path=path, name=name)
    if comparison is not None:
        cancel_comparison(comparison=comparison, by=by)


def list_shown() -> QuerySet[Any, Any]:
    """Return the ids of the comparisons that some pull request shows by default."""
    return PullDataset.objects.exclude(comparison=None).values("comparison")


def list_named() -> QuerySet[Any, Any]:
    """Return the ids of the comparisons that some pull request has under a name."""
    return NamedComparison.objects.exclude(comparison=None).values("comparison")
