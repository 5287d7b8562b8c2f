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
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction

MOST_OWN = 20
"""Unfinished comparisons of a user, beyond which they cannot start another one by opening a page."""

VERSION = 1
"""Of what changelogs and blames hold: a newer one is computed anew."""


def compare_ends(
    *,
    dataset: Dataset,
    before: ComparedEnd,
    after: ComparedEnd,
    rules: ComparisonRules,
    sight: RowSight,
    by: Principal,
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
        _check_room(by)
        comparison = request_comparison(dataset=dataset, before=start, after=end, rules=rules, by=by.user_id)
    return ComparedEnds(dataset, before, after, rules, comparison, sight)


def request_changelog(*, dataset: Dataset, span: SnapshotRange, by: Principal) -> Comparison:
    """Find the changelog of a range; the first to ask starts it.

    Raises:
        TooManyRequests: too many wait already.

    """
    question = {**span.as_json(), "version": VERSION}
    return _find_or_start(dataset=dataset, kind=states.CHANGELOG, after=span.end, question=question, by=by)


def request_blame(*, walk: Walk, by: Principal) -> Comparison:
    """Find who changed a row; the first to ask starts the walk.

    Raises:
        Conflict: nothing is committed on the branch.
        TooManyRequests: too many wait already.

    """
    if walk.start is None:
        message = f"Nothing is committed on {walk.branch} of {walk.dataset.path}, so it has no row."
        raise Conflict(message, code="nothing_committed")
    question = {"key": walk.key, "ignore": list(walk.ignore), "version": VERSION}
    return _find_or_start(dataset=walk.dataset, kind=states.BLAME, after=walk.start, question=question, by=by)


def _find_or_start(
    *, dataset: Dataset, kind: str, after: Transaction | None, question: dict[str, Any], by: Principal
) -> Comparison:
    identity = hash_identity([kind, dataset.pk, after.pk if after else None, question])
    comparison = Comparison.objects.filter(identity=identity).first()
    if comparison is not None:
        return comparison
    _check_room(by)
    with transaction.atomic():
        fields = {"dataset": dataset, "kind": kind, "after": after, "rules": question, "by_id": by.user_id}
        comparison, created = Comparison.objects.get_or_create(identity=identity, defaults=fields)
        if created:
            ring_comparison(comparison)
    return comparison


def _check_room(by: Principal) -> None:
    Comparison.objects.all().check_own_room(by.user_id, most=MOST_OWN, noun="comparisons")
