"""Exported commits: folders that job processes read and share."""

from __future__ import annotations

import itertools
import os
from datetime import timedelta
from pathlib import Path

from webapp.builds.runner import paths
from webapp.core import clock
from webapp.repositories import queries as repositories
from webapp.repositories.models import Repository
from webapp.runtime.folders import remove_folder

KEEP = timedelta(days=2)
_numbers = itertools.count(1)


def next_number() -> int:
    """Return a number that this process has not used: folders of attempts that no row counts."""
    return os.getpid() * 100_000 + next(_numbers)


def export(*, repository: Repository, sha: str) -> Path:
    """Return a folder with the files of a commit, exported once; it appears whole or not at all."""
    folder = paths.tree_folder(repository.name, sha)
    if not folder.exists():
        partial = folder.with_name(f".{sha}.{next_number()}")
        partial.parent.mkdir(parents=True, exist_ok=True)
        repositories.export_tree(repository, sha, partial)
        try:
            partial.rename(folder)
        except OSError:
            # Somebody else was faster; theirs holds the same files.
            remove_folder(partial)
    os.utime(folder)
    return folder


def sweep_trees() -> int:
    """Remove exported commits that nobody has used for a while; return how many."""
    removed = 0
    limit = (clock.cautious_now() - KEEP).timestamp()
    for folder in paths.trees_folder().glob("*/*"):
        if folder.stat().st_mtime < limit:
            remove_folder(folder)
            removed += 1
    return removed
