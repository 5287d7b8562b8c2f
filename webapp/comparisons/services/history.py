"""Work that readers of a dataset's history ask for, bounded so that nobody keeps the workers busy with it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from webapp.comparisons.models import Comparison
from webapp.comparisons.queries.ends import ComparedEnds
from webapp.comparisons.rules import states
from webapp.comparisons.services.comparisons import (
    find_comparison,
    hash_identity,
    request_comparison,
    ring_comparison,
)
from webapp.core.errors import Conflict

if TYPE_CHECKING:
    from webapp.accounts.rules.sight import RowSight
    from webapp.comparisons.queries.blames import Walk
    from webapp.comparisons.queries.changelogs import SnapshotRange
    from webapp.comparisons.queries.ends import ComparedEnd
    from webapp.comparisons.rules.dataset_rules import ComparisonRules
    from webapp.datasets.models import Dataset, Transaction

MOST_WAITING = 40
"""Unfinished comparisons of the whole installation beyond which nobody may ask for another by looking."""

VERSION = 1
"""Of what changelogs and blames hold: a newer one is computed anew."""


def compare_ends(
    *, dataset: Dataset, before: ComparedEnd, after: ComparedEnd, rules: ComparisonRules, sight: RowSight
) -> ComparedEnds:
    """Find the row diff of two ends; the first to ask starts it.

    Raises:
        TooManyRequests: too many wait already.

    """
    if before.transaction is None and after.transaction is None:
        reason = f"Nothing is committed on {before.name}, nor on {after.name}: there are no rows to compare."
        return ComparedEnds(dataset, before, after, rules, None, sight, reason)
    start, end = before.transaction, after.transaction
    comparison = find_comparison(dataset=dataset, before=start, after=end, rules=rules)
    if comparison is None:
        check_queue()
        comparison = request_comparison(dataset=dataset, before=start, after=end, rules=rules)
    return ComparedEnds(dataset, before, after, rules, comparison, sight)


def request_changelog(*, dataset: Dataset, span: SnapshotRange) -> Comparison:
    """Find the changelog of a range; the first to ask starts it.

    Raises:
        TooManyRequests: too many wait already.

    """
    return _find_or_start(
        dataset=dataset, kind=states.CHANGELOG, after=span.end, question={**span.as_json(), "version": VERSION}
    )


def request_blame(*, walk: Walk) -> Comparison:
    """Find who changed a row; the first to ask starts the walk.

    Raises:
        Conflict: nothing is committed on the branch.
        TooManyRequests: too many wait already.

    """
    if walk.start is None:
        message = f"Nothing is committed on {walk.branch} of {walk.dataset.path}, so it has no row."
        raise Conflict(message, code="nothing_committed")
    question = {"key": walk.key, "ignore": list(walk.ignore), "version": VERSION}
    return _find_or_start(dataset=walk.dataset, kind=states.BLAME, after=walk.start, question=question)


def _find_or_start(*, dataset: Dataset, kind: str, after: Transaction | None, question: dict[str, Any]) -> Comparison:
    identity = hash_identity([kind, dataset.pk, after.pk if after else None, question])
    comparison = Comparison.objects.filter(identity=identity).first()
    if comparison is not None:
        return comparison
    check_queue()
    with transaction.atomic():
        comparison, created = Comparison.objects.get_or_create(
            identity=identity, defaults={"dataset": dataset, "kind": kind, "after": after, "rules": question}
        )
        if created:
            ring_comparison(comparison)
    return comparison


def check_queue() -> None:
    """Refuse to start more while too much waits already.

    Raises:
        TooManyRequests: too many wait.

    """
    Comparison.objects.all().check_room(most=MOST_WAITING, noun="comparisons")
