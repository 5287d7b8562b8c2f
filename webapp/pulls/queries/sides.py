"""What a dataset's head side is compared with, and what else than the code makes a difference."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.builds import queries as builds
from webapp.datasets import queries as datasets
from webapp.pulls.queries.reverts import find_before_reverted
from webapp.pulls.queries.specs import has_taken
from webapp.pulls.queries.starts import find_start
from webapp.pulls.rules import states
from webapp.pulls.rules.sides import InputDifference, find_difference, review_branch

if TYPE_CHECKING:
    from webapp.datasets.models import Dataset, Transaction
    from webapp.pulls.models import PullRequest


@dataclass(frozen=True)
class Course:
    """The branches that a pull request leads along."""

    own: tuple[str, ...]
    """The source, and those below it that the target does not read."""
    target: tuple[str, ...]
    """The target, and those that its readers fall back to."""


@dataclass(frozen=True)
class Ends:
    """What the head side of a dataset is compared with."""

    after: Transaction | None
    start: Transaction | None
    """What the branch stands on: what its first transaction started from, or the target's that it has taken since.

    None where it began with nothing.
    """
    code: Transaction | None
    """What the base's code makes of the head side's inputs; None where nothing has built it."""
    target: Transaction | None
    """The target's newest."""
    is_of_other_code: bool = False
    """Whether what the branch stands on was made by other code of the target than the branch contains."""
    before_reverted: Transaction | None = None
    """What was there before the pull request that this one reverts; None where it reverts none, or nothing was."""

    @property
    def compared(self) -> str:
        """The name of the comparison to show first: the effect of the code where that is another than the branch's."""
        return states.CODE_EFFECT if self.code is not None and self.code != self.start else states.THIS_BRANCH

    @property
    def before(self) -> Transaction | None:
        """What that one begins with."""
        return self.code if self.compared == states.CODE_EFFECT else self.start

    @property
    def has_moved(self) -> bool:
        """Whether the target has data that the branch did not start from."""
        return self.target is not None and self.target != self.start

    @property
    def pairs(self) -> dict[str, tuple[Transaction | None, Transaction | None]]:
        """Each comparison's two ends, by its name."""
        pairs = {states.THIS_BRANCH: (self.start, self.after), states.TARGET_NOW: (self.target, self.after)}
        if self.code is not None:
            pairs[states.CODE_EFFECT] = (self.code, self.after)
        if self.has_moved:
            pairs[states.TARGET_SINCE] = (self.start, self.target)
        if self.before_reverted is not None:
            pairs[states.BEFORE_REVERTED] = (self.before_reverted, self.after)
        return pairs


def find_ends(
    *,
    pull: PullRequest,
    dataset: Dataset | None,
    after: Transaction | None,
    course: Course,
    base_code: Mapping[str, str],
    ours: Collection[str],
) -> Ends:
    """Return what a dataset's head side is compared with.

    Args:
        pull: the pull request.
        dataset: None until something makes it.
        after: the head side; None until something builds it.
        course: the branches of both sides.
        base_code: output path → token of its code where the branch left the target.
        ours: datasets that the pull request's code makes.

    """
    read = datasets.resolve_input(path=dataset.path, chain=course.target) if dataset else None
    target = read[1] if read else None
    if dataset is None or after is None:
        return Ends(after, target, None, target)
    start = find_start(pull=pull, after=after, target=target, own=course.own, theirs=course.target, ours=ours)
    review = datasets.latest_committed(dataset, review_branch(pull.repository.name, pull.number))
    bases = [base for base in (review, start, target) if base is not None]
    code = next((base for base in bases if _is_code_alone(base, after, dataset.path, base_code, ours)), None)
    # Until the branch is built with what it has taken, both its rows and those that they stand on are of the code before.
    is_of_other_code = (
        start is not None
        and _is_of_other_code(start, after, dataset.path, base_code, ours)
        and not has_taken(pull, dataset.path, after, base_code)
    )
    before_reverted = find_before_reverted(pull, dataset, chain=course.target)
    return Ends(after, start, code, target, is_of_other_code, before_reverted)


def _is_code_alone(
    before: Transaction, after: Transaction, path: str, base_code: Mapping[str, str], ours: Collection[str]
) -> bool:
    """Return whether the base's code made a transaction of what the head side was made of, through the whole graph."""
    if before == after:
        return False
    difference = find_difference(before.pk, after.pk, inputs_of=builds.list_read, ours=ours)
    return not difference.drift and all(
        digest and digest == base_code.get(output) for output, digest in _list_code(before, path, difference)
    )


def _is_of_other_code(
    start: Transaction, after: Transaction, path: str, base_code: Mapping[str, str], ours: Collection[str]
) -> bool:
    """Return whether other code than the base's made a transaction, or one of `ours` above it; loaded data has none."""
    difference = find_difference(start.pk, after.pk, inputs_of=builds.list_read, ours=ours)
    return any(
        digest and output in base_code and digest != base_code[output]
        for output, digest in _list_code(start, path, difference)
    )


def _list_code(before: Transaction, path: str, difference: InputDifference) -> list[tuple[str, str]]:
    """Return by which code the base side was made: outputs with digests, through the whole graph."""
    transactions_of = {**difference.base, path: {*difference.base.get(path, ()), before.pk}}
    described = builds.describe_transactions({pk for transactions in transactions_of.values() for pk in transactions})
    return [(output, described[pk].token) for output, transactions in transactions_of.items() for pk in transactions]


def list_drift(before: Transaction, after: Transaction, *, ours: Collection[str]) -> list[str]:
    """Return the inputs that two transactions have read in different versions, through the whole graph."""
    return find_difference(before.pk, after.pk, inputs_of=builds.list_read, ours=ours).drift
