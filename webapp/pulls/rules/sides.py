"""The two sides of a pull request, built from the same inputs, so that the difference is the code's alone.

The head side is the source branch. The base side is what the target's JobSpecs make of the head side's inputs; it is kept
on a branch that nobody reads or writes directly.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

HEAD, BASE = "head", "base"
SIDES = (HEAD, BASE)
_REVIEW = re.compile(r"_review/(?P<repository>[^/]+)/(?P<number>[1-9][0-9]*)/base")
REVIEW_PREFIX = "_review/"


def review_branch(repository: str, number: int) -> str:
    """Return the branch that keeps the base side of a pull request."""
    return f"{REVIEW_PREFIX}{repository}/{number}/base"


def read_review_branch(branch: str) -> tuple[str, int] | None:
    """Return repository and number of the pull request whose base side a branch keeps."""
    found = _REVIEW.fullmatch(branch)
    return None if found is None else (found["repository"], int(found["number"]))


def find_drift(before: Mapping[str, str], after: Mapping[str, str], *, ours: Collection[str]) -> list[str]:
    """Return the inputs of which the two sides have read different transactions.

    Args:
        before: input path → transaction, of the base side.
        after: the same of the head side.
        ours: datasets that the pull request changes, whose transactions differ by intention.

    """
    return sorted(path for path in before.keys() & after.keys() - set(ours) if before[path] != after[path])
