"""The fallback chain: its order, which of its branches a dataset has, and whether it fits the dataset's ancestry."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from urllib.parse import quote

from webapp.core.errors import InvalidInput
from webapp.core.names import MASTER

CHAIN_INCOMPATIBLE = "chain_incompatible"

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
    """Refuse a chain in which an existing branch is no ancestor of the existing one before it.

    The refusal names the branch whose parent can be set, or that can be deleted, so that the chain fits.
    """
    existing = [branch for branch in chain if branch in parents]
    for younger, elder in pairwise(existing):
        ancestors = tuple(iterate_ancestors(younger, parents))
        if elder in ancestors:
            continue
        parent = elder if younger != MASTER and younger not in iterate_ancestors(elder, parents) else None
        message = (
            f"Branch {younger} of {path} does not come from {elder}, which the build reads next "
            f"(its ancestry is {' → '.join((younger, *ancestors))}). {_explain_ways_out(younger, parent)}"
        )
        raise InvalidInput(message, code=CHAIN_INCOMPATIBLE, path=path, branches=[younger, elder], parent=parent)


def _explain_ways_out(branch: str, parent: str | None) -> str:
    if branch == MASTER:
        return "Build it without these fallback branches."
    deletion = f"{branch} there: its transactions stay, and the next build makes the branch again."
    if parent is None:
        return f"Delete {deletion}"
    return f"Set the parent of {branch} there to {parent}, which moves no data, or delete {deletion}"


def list_ways_out(
    *, dataset: int, path: str, branches: Sequence[str], parent: str | None
) -> Iterator[Mapping[str, object]]:
    """Yield the requests that make a dataset's branch fit the chain, each with its effect."""
    branch = branches[0]
    if branch == MASTER:
        return
    address = f"/api/v1/datasets/{dataset}/branches/{quote(branch, safe='')}"
    if parent is not None:
        effect = f"Branch {branch} of {path} comes from {parent}; no data moves."
        yield {"method": "PATCH", "path": address, "body": {"parent": parent}, "effect": effect}
    effect = f"Branch {branch} of {path} is deleted; its transactions stay, and the next build makes it again."
    yield {"method": "DELETE", "path": address, "body": None, "effect": effect}
