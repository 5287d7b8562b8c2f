"""What the history of a file or a folder says; kept, since a commit never changes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pygit2
from pygit2.enums import SortMode

from webapp.git.objects import Objects, describe_commit, name_of
from webapp.git.paths import find_entry

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.git.values import CommitInfo

# A page shows the last commit of each entry of a folder; beyond this many commits it shows none.
LAST_COMMIT_DEPTH = 3000


def changes_path(commit: pygit2.Commit, path: str) -> bool:
    """Say whether a commit has changed what is at a path: against all of its parents, for merges."""
    own = _id_at(commit, path)
    if not commit.parents:
        return own is not None
    return all(_id_at(parent, path) != own for parent in commit.parents)


@lru_cache(maxsize=512)
def count_commits(repository: Path, sha: str, limit: int) -> int:
    """Count commits; kept for the threads of pages, which share it: a commit never changes."""
    git = Objects(repository).store
    walker = git.walk(pygit2.Oid(hex=sha), SortMode.NONE)
    return sum(1 for _, _ in zip(range(limit), walker, strict=False))


@lru_cache(maxsize=512)
def find_last_commits(repository: Path, sha: str, path: str) -> dict[str, CommitInfo]:
    """Find last commits; kept for the threads of pages, which share it: a commit never changes."""
    git = Objects(repository).store
    ids = _ids_in_folder(git[sha], path)
    open_names = set(ids)
    commits: dict[str, CommitInfo] = {}
    walker = git.walk(git[sha].id, SortMode.TOPOLOGICAL | SortMode.TIME)
    for _, commit in zip(range(LAST_COMMIT_DEPTH), walker, strict=False):
        if not open_names:
            break
        own = _ids_in_folder(commit, path)
        parents = [_ids_in_folder(parent, path) for parent in commit.parents]
        for name in list(open_names):
            if own.get(name) != ids[name] or any(parent.get(name) == own.get(name) for parent in parents):
                continue
            commits[name] = describe_commit(commit)
            open_names.discard(name)
    return commits


def _id_at(commit: pygit2.Commit, path: str) -> pygit2.Oid | None:
    try:
        return find_entry(commit.tree, path).id
    except KeyError:
        return None


def _ids_in_folder(commit: pygit2.Commit, path: str) -> dict[str, str]:
    try:
        tree = find_entry(commit.tree, path) if path else commit.tree
    except KeyError:
        return {}
    return {name_of(item): str(item.id) for item in tree} if isinstance(tree, pygit2.Tree) else {}
