"""Transactions that open pull requests show or were reviewed with."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from webapp.accounts.permissions import can_repository
from webapp.datasets.services.removals import Need
from webapp.pulls.models import DatasetVerdict, NamedComparison, PullDataset, PullRequest
from webapp.pulls.queries.looked import list_seen
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset

WAY_OUT = "Merge or close it, or keep the snapshot"


def list_needs(dataset: Dataset, by: Principal | None) -> Iterator[Need]:
    """Yield the transactions of a dataset that open pull requests compare, and those that their reviewers saw."""
    pulls = PullRequest.objects.filter(state=PullState.OPEN, datasets__dataset=dataset).select_related("repository")
    for pull in pulls.prefetch_related("reviews"):
        is_visible = by is None or can_repository(by, pull.repository.name, "read")
        name = f"pull request {pull.repository.name}#{pull.number}" if is_visible else "an open pull request"
        needed = dataset.transactions.in_bulk(_list_compared(pull, dataset))
        for row in needed.values():
            yield Need(row, f"{name} shows it", WAY_OUT)
        for seen in list_seen(pull):
            if seen.rows.dataset_id == dataset.pk:
                yield Need(seen.rows, f"a review of {name} is about it", WAY_OUT)


def _list_compared(pull: PullRequest, dataset: Dataset) -> set[str]:
    rows = PullDataset.objects.filter(pull=pull, dataset=dataset)
    named = NamedComparison.objects.filter(row__in=rows)
    verdicts = DatasetVerdict.objects.filter(pull=pull, path=dataset.path).values_list("transaction", flat=True)
    ends = chain.from_iterable([*rows.values_list("before", "after"), *named.values_list("before", "after")])
    return {end for end in chain(ends, verdicts) if end}
