"""Which transaction a dataset's head side is compared with, and what else than the code makes a difference."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from webapp.builds import queries as builds
from webapp.datasets import queries as datasets
from webapp.pulls.rules.sides import find_drift, review_branch

if TYPE_CHECKING:
    from webapp.datasets.models import Dataset, Transaction
    from webapp.pulls.models import PullDataset, PullRequest


@dataclass(frozen=True)
class Drift:
    """How the inputs of the two sides differ, and what newer data did to the target."""

    inputs: list[str]
    """Read in different versions by the two sides; none where they are equal."""
    is_review: bool
    """Whether the base side was built for this pull request."""
    compare_url: str
    """What newer data alone changed on the target; empty where nothing did."""


def find_before(
    *, pull: PullRequest, dataset: Dataset | None, after: Transaction | None, ours: Collection[str]
) -> Transaction | None:
    """Return the target's transaction, or where its inputs are others than the head side's, the base side built on those."""
    target = datasets.latest_committed(dataset, pull.target) if dataset else None
    if dataset is None or target is None or after is None:
        return target
    review = datasets.latest_committed(dataset, review_branch(pull.repository.name, pull.number))
    if review is None or review.pk == target.pk:
        return target
    made = builds.describe_transactions([target.pk, after.pk, review.pk])
    is_of_this_code = made[review.pk].digest == made[target.pk].digest
    has_drifted = bool(find_drift(made[target.pk].inputs, made[after.pk].inputs, ours=ours))
    is_equal = not find_drift(made[review.pk].inputs, made[after.pk].inputs, ours=ours)
    return review if has_drifted and is_of_this_code and is_equal else target


def describe_drift(row: PullDataset, *, ours: Collection[str]) -> Drift | None:
    """Return how the two compared transactions differ in their inputs; None where one of them is missing."""
    if row.before is None or row.after is None or row.dataset is None:
        return None
    made = builds.describe_transactions([row.before.pk, row.after.pk])
    is_review = row.before.branch_name == review_branch(row.pull.repository.name, row.pull.number)
    target = datasets.latest_committed(row.dataset, row.pull.target) if is_review else None
    ends = {"tab": "compare", "from": row.before.pk, "to": target.pk} if target is not None else {}
    return Drift(
        inputs=find_drift(made[row.before.pk].inputs, made[row.after.pk].inputs, ours=ours),
        is_review=is_review,
        compare_url=f"/d{row.path}?{urlencode(ends)}" if ends else "",
    )
