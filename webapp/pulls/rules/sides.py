"""The two sides of a pull request, built from the same inputs, so that the difference is the code's alone.

The head side is the source branch. The base side is what the target's JobSpecs make of the head side's inputs; it is kept
on a branch that nobody reads or writes directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

HEAD, BASE = "head", "base"
SIDES = (HEAD, BASE)
_REVIEW = re.compile(r"_review/(?P<repository>[^/]+)/(?P<number>[1-9][0-9]*)/base")
REVIEW_PREFIX = "_review/"


def review_branch(repository: str, number: int) -> str:
    """Return the branch that keeps the base side of a pull request."""
    return f"{REVIEW_PREFIX}{repository}/{number}/base"


def read_review_branch(branch: str) -> tuple[str, int] | None:
    """Return repository and number of the pull request whose base side a branch keeps."""
    match = _REVIEW.fullmatch(branch)
    return None if match is None else (match["repository"], int(match["number"]))


InputsOf = Callable[[Collection[str]], Mapping[str, Mapping[str, str]]]
"""Transactions → for each the transactions that it was made of, by the path of the input."""


@dataclass(frozen=True)
class InputDifference:
    """In which versions of their inputs two transactions of a dataset differ, through the whole graph."""

    drift: list[str]
    """Inputs that the pull request's code does not make."""
    base: dict[str, set[str]]
    """Datasets that it makes → the transactions of them that the base side was made of."""


def find_difference(before: str, after: str, *, inputs_of: InputsOf, ours: Collection[str]) -> InputDifference:
    """Return the inputs that two transactions have read in different versions, directly or through datasets of `ours`.

    Args:
        before: a transaction of the base side.
        after: the same dataset's of the head side.
        inputs_of: looks up what transactions were made of.
        ours: datasets that the pull request's code makes, whose transactions differ by intention; what these were made
            of counts instead.

    """
    drift: set[str] = set()
    base: dict[str, set[str]] = {}
    for path, read, _after in _walk(before, after, inputs_of, ours):
        if path in ours:
            base.setdefault(path, set()).add(read)
        else:
            drift.add(path)
    return InputDifference(sorted(drift), base)


def is_underneath(
    before: str, after: str, *, inputs_of: InputsOf, ours: Collection[str], leads_to: Callable[[str, str], bool]
) -> bool:
    """Return whether a transaction was made of what leads to what another one was made of, through datasets of `ours`.

    Then the rows of the other one lack nothing that those of this one have for the sake of newer data.
    """
    walked = _walk(before, after, inputs_of, ours)
    return all(leads_to(older, newer) for path, older, newer in walked if path not in ours)


def _walk(before: str, after: str, inputs_of: InputsOf, ours: Collection[str]) -> set[tuple[str, str, str]]:
    """Return every input with the two transactions that were read of it, where these differ; level by level upwards."""
    reached: set[tuple[str, str, str]] = set()
    frontier = {(before, after)}
    while frontier:
        inputs = inputs_of({pk for pair in frontier for pk in pair})
        moved = {
            (path, inputs[old][path], inputs[new][path])
            for old, new in frontier
            for path in inputs[old].keys() & inputs[new].keys()
            if inputs[old][path] != inputs[new][path]
        } - reached
        reached |= moved
        frontier = {(old, new) for path, old, new in moved if path in ours}
    return reached
