"""Names of repositories and branches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webapp.core.errors import InvalidInput
from webapp.core.names import MASTER, check_branch_name, find_ref_problem

if TYPE_CHECKING:
    from collections.abc import Iterable

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
_COMMIT_LIKE = re.compile(r"[0-9a-f]{7,64}\Z")
# Legal, and read by Git or its clients as something else than a branch of that name.
_SPECIAL = {"head", "fetch_head", "orig_head", "merge_head", "cherry_pick_head", "auto_merge", "stash"}
_RESERVED_REPOSITORIES = {"new"}


def check_repository_name(name: str) -> str:
    """Return a name that a repository may have."""
    if not _REPOSITORY.match(name) or name.lower() in _RESERVED_REPOSITORIES:
        message = (
            "A repository's name has letters, digits, '-' and '_' only, starts with a letter or digit "
            "and has at most 100 characters."
        )
        raise InvalidInput(message, code="illegal_name", errors={"name": [message]})
    return name


def check_new_branch_name(name: str) -> str:
    """Return a name that a new branch may have: the grammar of all branches, and nothing that Git reads otherwise."""
    check_branch_name(name)
    problem = _problem(name)
    if problem:
        raise InvalidInput(problem, code="illegal_branch_name", errors={"name": [problem]})
    return name


def explain_clash(name: str, *, branches: Iterable[str], tags: Iterable[str]) -> str:
    """Return why a new branch cannot stand beside the branches and tags that there are; empty if it can.

    Branches are files of clones, also on file systems without case: neither may a branch be a folder of another one,
    nor may one folder have two spellings. `git checkout v1` takes the tag of that name, not the branch.
    """
    for other in branches:
        if other == name:
            return f"Branch '{name}' exists already."
        if other.lower() == name.lower():
            return f"Branch '{name}' exists already: names are unique without case, and there is '{other}'."
        pairs = list(zip(name.split("/"), other.split("/"), strict=False))
        shared = next((place for place, (own, taken) in enumerate(pairs) if own.lower() != taken.lower()), len(pairs))
        begins = [("/".join(parts.split("/")[:shared])) for parts in (name, other)]
        is_inside = shared == len(pairs) and name.count("/") != other.count("/")
        if is_inside and begins[0] == begins[1]:
            return f"Branch '{name}' cannot be made beside '{other}': one would be a folder of the other."
        if begins[0] != begins[1]:
            return f"Branch '{name}' cannot be made: names are unique without case, and there is '{other}'."
    tag = next((tag for tag in tags if tag.lower() == name.lower()), None)
    return f"Branch '{name}' cannot be made: there is a tag '{tag}', which Git would take for it." if tag else ""


def _problem(name: str) -> str:
    if _COMMIT_LIKE.match(name):
        return f"'{name}' looks like a commit; choose another name for a branch."
    if name.lower() in _SPECIAL:
        return f"'{name}' means something else to Git; choose another name for a branch."
    return find_ref_problem(name) or ""


__all__ = ["MASTER", "check_new_branch_name", "check_repository_name", "explain_clash"]
