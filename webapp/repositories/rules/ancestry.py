"""Which branch a branch came from, and where its data falls back to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A branch that a pushed branch may have been made from."""

    name: str
    ahead: int
    """Commits that the pushed branch has on top of this one."""
    behind: int
    """Commits of this one that the pushed branch lacks."""


def choose_parent(candidates: Iterable[Candidate], *, default: str) -> str:
    """Return the branch that explains a pushed branch with the fewest commits, the default one where two do."""
    best = min(candidates, key=lambda item: (item.ahead, item.behind, item.name != default, item.name), default=None)
    return best.name if best is not None else default


def fallback_chain(branch: str, parents: Mapping[str, str], *, default: str) -> tuple[str, ...]:
    """Return a branch, its parents, and the default branch as the last."""
    chain = [branch]
    while chain[-1] != default:
        parent = parents.get(chain[-1]) or default
        if parent in chain:
            # Somebody deleted and remade branches into a ring; the default branch ends it.
            parent = default
        chain.append(parent)
    return tuple(chain)
