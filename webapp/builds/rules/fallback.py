"""The fallback chain: its order, which of its branches a dataset has, and whether it fits the dataset's ancestry."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise

from webapp.core.errors import InvalidInput

Parents = Mapping[str, str | None]
"""Branch of one dataset → its parent branch; None marks a root."""


def make_chain(branch: str, fallback: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the build branch, then the fallbacks, repeats dropped, order kept."""
    return tuple(dict.fromkeys((branch, *fallback)))


def first_existing(chain: Iterable[str], existing: Collection[str]) -> str | None:
    """Return the first branch of the chain that exists."""
    return next((branch for branch in chain if branch in existing), None)


def iterate_ancestors(branch: str, parents: Parents) -> Iterator[str]:
    """Yield the parent, its parent and so on; a loop in damaged records ends the walk instead of hanging it."""
    seen = {branch}
    parent = parents.get(branch)
    while parent is not None and parent not in seen:
        yield parent
        seen.add(parent)
        parent = parents.get(parent)


def check_chain(*, path: str, chain: Iterable[str], parents: Parents) -> None:
    """Refuse a chain in which an existing branch is no ancestor of the existing one before it."""
    existing = [branch for branch in chain if branch in parents]
    for younger, elder in pairwise(existing):
        if elder not in iterate_ancestors(younger, parents):
            ancestry = " → ".join((younger, *iterate_ancestors(younger, parents)))
            message = (
                f"The chain reads {path} from {younger} and then from {elder}, "
                f"but on {path} {elder} is no ancestor of {younger} (its ancestry is {ancestry})."
            )
            raise InvalidInput(message, code="chain_incompatible", path=path, branches=[younger, elder])
