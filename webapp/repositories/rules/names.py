"""Names of repositories and branches."""

from __future__ import annotations

import re

from webapp.core.errors import InvalidInput
from webapp.core.names import MASTER, check_branch_name, find_ref_problem

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


def _problem(name: str) -> str:
    if _COMMIT_LIKE.match(name):
        return f"'{name}' looks like a commit; choose another name for a branch."
    if name.lower() in _SPECIAL:
        return f"'{name}' means something else to Git; choose another name for a branch."
    return find_ref_problem(name) or ""


__all__ = ["MASTER", "check_new_branch_name", "check_repository_name"]
