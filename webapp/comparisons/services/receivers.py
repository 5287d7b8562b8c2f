"""What comparisons tell the pages of datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webapp.comparisons.queries.blames import blame_url
from webapp.comparisons.queries.ends import Changed, list_changes
from webapp.comparisons.queries.ends import read_rules as read_dataset_rules
from webapp.datasets.models import Dataset, Transaction


def answer_changes(*, transactions: Sequence[Transaction], **_: Any) -> dict[str, Changed]:
    """Tell what transactions changed, exactly where a row diff is stored."""
    return list_changes(transactions)


def answer_row_urls(*, dataset: Dataset, branch: str, rows: Sequence[Mapping[str, Any]], **_: Any) -> list[str]:
    """Tell where the history of each row is, for datasets with a key whose columns are shown."""
    rules = read_dataset_rules(dataset, branch=branch)
    keys = [rules.key_of(row) for row in rows]
    if not all(keys):
        return []
    return [blame_url(dataset.pk, branch=branch, key=key) for key in keys if key is not None]
