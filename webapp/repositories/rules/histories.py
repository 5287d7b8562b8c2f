"""What a history is made of, from commits that come children first: which heads reach a commit, and in which order to list."""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime


class UnknownHistory(Exception):
    """Steps of a history are missing: nothing can be said of it."""


class Ancestor(NamedTuple):
    """A commit in a history."""

    sha: str
    parents: Sequence[str]
    time: datetime


def count_apart(steps: Iterable[Ancestor], heads: Iterable[str], base: str) -> dict[str, tuple[int, int]]:
    """Count by head the commits that only it has, and those that only the base has.

    Args:
        steps: every commit that some of them reach, children first; others do no harm.
        heads: what to compare.
        base: what all of them are compared with.

    Raises:
        UnknownHistory: a commit is not among the steps, or comes before one of its children.

    """
    colours = {head: 2 << place for place, head in enumerate(dict.fromkeys(heads))}
    everyone = 1 | sum(colours.values())
    tips = {**colours, base: colours.get(base, 0) | 1}
    counts = Counter(colour for _, colour in _paint(steps, tips, is_settled=lambda colour: colour == everyone))
    return {
        head: (
            sum(number for seen, number in counts.items() if seen & colour and not seen & 1),
            sum(number for seen, number in counts.items() if seen & 1 and not seen & colour),
        )
        for head, colour in colours.items()
    }


def list_by_time(steps: Iterable[Ancestor], head: str, *, exclude: str | None = None) -> Iterator[str]:
    """Walk from a head back in time, children before their parents and else the newest first, as `git log --date-order`.

    Args:
        steps: every commit that the head reaches, children first; no more are read than the walk needs.
        head: where it begins.
        exclude: what this one reaches is left out.

    Raises:
        UnknownHistory: a commit is not among the steps, or comes before one of its children.

    """
    tips = {head: 1}
    if exclude is not None:
        tips[exclude] = tips.get(exclude, 0) | 2
    walk = _Walk(step for step, colour in _paint(steps, tips, is_settled=lambda colour: colour > 1) if colour == 1)
    return walk.go(head)


class _Walk:
    """The commits that are read, and those of them whose children are all listed."""

    def __init__(self, steps: Iterator[Ancestor]) -> None:
        self._steps = steps
        self._read: dict[str, Ancestor] = {}
        self._children: Counter[str] = Counter()
        """How many children of a commit are read and not listed."""
        self._ready: list[tuple[float, int, Ancestor]] = []
        self._numbers = count()

    def go(self, head: str) -> Iterator[str]:
        self._offer(head)
        while self._ready:
            step = heappop(self._ready)[2]
            yield step.sha
            for parent in step.parents:
                self._children[parent] -= 1
                self._offer(parent)

    def _offer(self, sha: str) -> None:
        """List a commit next where none of its children is left; whoever has not been read may be one of them."""
        if not self._children[sha] and self._find(sha) and not self._children[sha]:
            step = self._read.pop(sha)
            heappush(self._ready, (-step.time.timestamp(), next(self._numbers), step))

    def _find(self, sha: str) -> bool:
        while sha not in self._read:
            step = next(self._steps, None)
            if step is None:
                return False
            self._read[step.sha] = step
            self._children.update(step.parents)
        return True


def _paint(
    steps: Iterable[Ancestor], tips: Mapping[str, int], *, is_settled: Callable[[int], bool]
) -> Iterator[tuple[Ancestor, int]]:
    """Say of each commit which tips reach it, as bits; end when all that is left is settled."""
    colours = dict(tips)
    done: set[str] = set()
    unsettled = sum(not is_settled(colour) for colour in colours.values())
    for step in steps:
        if not unsettled:
            return
        colour = colours.pop(step.sha, 0)
        if not colour:
            continue
        if not done.isdisjoint(step.parents):
            raise UnknownHistory
        unsettled -= not is_settled(colour)
        done.add(step.sha)
        yield step, colour
        for parent in step.parents:
            before = colours.get(parent, 0)
            after = colours[parent] = before | colour
            unsettled += (not is_settled(after)) - (before > 0 and not is_settled(before))
    if unsettled:
        raise UnknownHistory
