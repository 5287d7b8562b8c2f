"""Parents of dataset branches: ancestors, how they are drawn, and whether a fallback chain fits them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from webapp.core.errors import Conflict

Parents = Mapping[str, str | None]
"""Branch → its one parent, None for a root."""


def list_ancestors(parents: Parents, branch: str) -> tuple[str, ...]:
    """Return parent, grandparent and so on up to the root."""
    ancestors: list[str] = []
    parent = parents.get(branch)
    while parent is not None and parent not in ancestors:
        ancestors.append(parent)
        parent = parents.get(parent)
    return tuple(ancestors)


def first_existing(chain: Iterable[str], existing: Iterable[str]) -> str | None:
    """Return the first branch of the chain that exists on the dataset."""
    names = set(existing)
    return next((branch for branch in chain if branch in names), None)


def check_chain(*, dataset: str, chain: Sequence[str], parents: Parents) -> None:
    """Refuse a fallback chain that contradicts the dataset's own ancestry.

    Each branch of the chain that exists on the dataset must be an ancestor of the existing one before it; otherwise a
    build would read, as "older data of the same line", data that the branch never came from.
    """
    existing = [branch for branch in dict.fromkeys(chain) if branch in parents]
    for branch, fallback in pairwise(existing):
        ancestors = list_ancestors(parents, branch)
        if fallback not in ancestors:
            line = " → ".join((branch, *ancestors))
            message = (
                f"The fallback chain {' → '.join(chain)} does not fit {dataset}: "
                f"there, {fallback} is not an ancestor of {branch} ({line})."
            )
            raise Conflict(message, code="incompatible_ancestry", dataset=dataset, branch=branch, fallback=fallback)


def arrange_tree(parents: Parents, *, first: str) -> list[tuple[str, int]]:
    """Return the branches in the order a tree is drawn, with their depth: `first` before the other roots."""
    children: dict[str | None, list[str]] = defaultdict(list)
    for name in sorted(parents, key=lambda name: (name != first, name), reverse=True):
        children[parents[name]].append(name)
    rows: list[tuple[str, int]] = []
    left = [(root, 0) for root in children[None]]
    while left:
        branch, depth = left.pop()
        rows.append((branch, depth))
        left += [(child, depth + 1) for child in children[branch]]
    return rows


def draw_rails(tree: Sequence[tuple[str, int]]) -> list[tuple[str, ...]]:
    """Return, for each row of a tree, what stands before its name on each level.

    `pass` goes on to a later sibling of an ancestor, `mid` branches off and goes on, `end` branches off for the last
    time, the empty text is nothing.
    """
    rails: list[tuple[str, ...]] = []
    goes_on: set[int] = set()
    for _, depth in reversed(tree):
        goes_on = {level for level in goes_on if level <= depth}
        before = tuple("pass" if level in goes_on else "" for level in range(1, depth))
        own = ("mid" if depth in goes_on else "end",) if depth else ()
        rails.append(before + own)
        goes_on.add(depth)
    return rails[::-1]
