"""What reviewers say of single datasets of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.core.prepared import Prepared
from webapp.pulls.models import DatasetVerdict
from webapp.pulls.rules.approvals import DatasetVerdictFact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webapp.pulls.models import PullDataset, PullRequest

_VERDICTS = Prepared(lambda pull: DatasetVerdict.objects.filter(pull_id=pull).select_related("reviewer"), int)


def list_verdicts(pull: PullRequest, rows: Iterable[PullDataset]) -> list[DatasetVerdictFact]:
    """List the verdicts on these datasets of a pull request, the oldest first."""
    transactions = {row.path: row.after_id or "" for row in rows}
    return [
        DatasetVerdictFact(
            path=verdict.path,
            reviewer=verdict.reviewer.username,
            verdict=verdict.verdict,
            reason=verdict.reason,
            void=verdict.transaction != transactions[verdict.path],
            given_at=verdict.given_at,
        )
        for verdict in _VERDICTS.all(pull.pk)
        if verdict.path in transactions
    ]
