"""Whether an output is fresh, and why."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

MOST_NAMED = 3
"""Files that a reason names."""
_WORDS = {"list": "names in {}", "data": "names in {}", "tree": "all files", "paths": "names of all files"}


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


def make_token(digest: str, files: Mapping[str, str]) -> str:
    """Return a digest with what its jobs' files were: equal tokens mean equal code.

    Args:
        digest: of the transform.
        files: key → value at a commit, of the files that its jobs used while they ran.

    """
    if not files:
        return digest
    return f"{digest}~{hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:32]}"


def read_digest(token: str) -> str:
    """Return the digest of the transform that a token is about."""
    return token.partition("~")[0]


def find_changed_files(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return what is different now, in words, of all that jobs used."""
    keys = sorted(key for key in before if before[key] != after.get(key))
    return list(dict.fromkeys(describe_key(key) for key in keys))


def describe_key(key: str) -> str:
    """Return what a key stands for: a path, or which files."""
    kind, _, path = key.partition(":")
    return _WORDS.get(kind, "{}").format(path)


def name_files(files: Collection[str]) -> str:
    """Return the first of some files, and how many more there are."""
    named = ", ".join(list(files)[:MOST_NAMED])
    more = len(files) - MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named
