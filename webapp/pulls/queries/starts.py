"""What the head side of a dataset stands on: what the branch began with, or what it has taken from the target since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.builds import queries as builds
from webapp.core.errors import NotFound
from webapp.datasets import queries as datasets
from webapp.datasets.rules.transactions import SNAPSHOT
from webapp.pulls.rules.sides import is_underneath
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from webapp.datasets.models import Transaction
    from webapp.datasets.queries import LineStep
    from webapp.pulls.models import PullRequest


def find_start(
    *,
    pull: PullRequest,
    after: Transaction,
    target: Transaction | None,
    own: Collection[str],
    theirs: Collection[str],
    ours: Collection[str],
) -> Transaction | None:
    """Return what the head side stands on; None where the branch began with nothing.

    That is what its first transaction on the dataset started from; or, once the branch has taken commits of the target
    and written all rows anew with them, the target's newest transaction of these commits that it can be built upon.

    Args:
        pull: the pull request.
        after: the head side.
        target: the target's newest transaction.
        own: the source, and those below it that the target does not read.
        theirs: the target, and those that its readers fall back to.
        ours: datasets that the pull request's code makes.

    """
    line = datasets.list_line(after, branches=own)
    began = line[-1].parent if line else after.pk
    if target is None or (span := _find_span(pull, line)) is None:
        return datasets.find_transaction(began)
    steps = [step.pk for step in datasets.list_line(target, branches=theirs)]
    newer = steps[: steps.index(began)] if began in steps else steps
    return datasets.find_transaction(_find_taken(pull, span, newer, ours) or began)


@dataclass(frozen=True)
class _Span:
    """The target's commits that a branch has taken between its first rows and its newest ones."""

    first: str | None
    """The target's newest commit that the first rows were made with; None where nobody knows."""
    newest: str
    rows: str
    """The transaction that wrote all the newest rows."""


def _find_span(pull: PullRequest, line: Sequence[LineStep]) -> _Span | None:
    """Return the commits that were taken; None where none were, or where rows of before them are still there."""
    whole = next((step.pk for step in line if step.type == SNAPSHOT), None)
    if whole is None or whole == line[-1].pk:
        return None
    origins = builds.describe_transactions([step.pk for step in line])
    built = [origins[step.pk].sha for step in line if origins[step.pk].sha]
    newest = _find_shared(pull, pull.base_sha, origins[whole].sha)
    first = _find_shared(pull, pull.base_sha, built[-1]) if built else None
    return None if newest is None or newest == first else _Span(first, newest, whole)


def _find_taken(pull: PullRequest, span: _Span, newer: Sequence[str], ours: Collection[str]) -> str | None:
    """Return the newest of the target's transactions that was made with taken commits, of nothing newer than the rows."""
    origins = builds.describe_transactions(newer)
    for pk in newer:
        if _is_taken(pull, span, origins[pk].sha) and is_underneath(
            pk, span.rows, inputs_of=builds.list_read, ours=ours, leads_to=datasets.leads_to
        ):
            return pk
    return None


def _is_taken(pull: PullRequest, span: _Span, sha: str) -> bool:
    if not sha or _find_shared(pull, span.newest, sha) != sha:
        return False
    return span.first is None or _find_shared(pull, span.first, sha) != sha


def _find_shared(pull: PullRequest, sha: str, other: str) -> str | None:
    """Return the newest commit that leads to both; None where one is gone, as after a forced push, or is of no commit."""
    try:
        return repositories.find_merge_base(pull.repository, sha, other) if other else None
    except NotFound:
        return None
