"""Whether an output is fresh, and why."""

from __future__ import annotations

from typing import NamedTuple


class FreshnessVerdict(NamedTuple):
    """Whether an output is fresh (fresh, stale or unknown) and why; what no transform makes is a source."""

    state: str
    why: str
    missing: frozenset[str] = frozenset()
    """Inputs that have no data on the chain: nothing is built before something made them."""


SOURCE = FreshnessVerdict("source", "No transform makes it: it is uploaded or written by a client")


def judge_without_input(path: str, *, missing: frozenset[str]) -> FreshnessVerdict:
    """Return the verdict on an output that cannot be made yet: the first input without data, and all of them."""
    return FreshnessVerdict("stale", f"Input {path} has no data yet", missing)
