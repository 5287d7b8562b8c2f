"""Exported commits: folders that job processes read and share.

Some bytes of a push may be a large export, so those of one repository take a bounded part of the disk together.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from operator import itemgetter
from pathlib import Path

from webapp.builds.models import Job
from webapp.builds.rules.states import JobState
from webapp.builds.runner import paths
from webapp.core import clock
from webapp.repositories import queries as repositories
from webapp.repositories.models import Repository
from webapp.runtime.folders import remove_folder
from webapp.runtime.room import measure_folder

KEEP = timedelta(days=2)
KEEP_PARTIAL = timedelta(hours=1)
"""Longer than any export takes: whoever made it is dead."""
JUST_USED = timedelta(minutes=2)
"""Longer than modules are imported, of which no row may say that it is under way."""
MOST_BYTES = 2 * 1024**3
"""Of one repository's exports, but for those that jobs run on."""
_numbers = itertools.count(1)


def next_number() -> int:
    """Return a number that this process has not used: folders of attempts that no row counts."""
    return os.getpid() * 100_000 + next(_numbers)


def export(*, repository: Repository, sha: str) -> Path:
    """Return a folder with the files of a commit, exported once; it appears whole or not at all."""
    folder = paths.tree_folder(repository.name, sha)
    if not folder.exists():
        _make_room(repository)
        partial = folder.with_name(f".{sha}.{next_number()}")
        partial.parent.mkdir(parents=True, exist_ok=True)
        try:
            repositories.export_tree(repository, sha, partial)
            partial.rename(folder)
        except BaseException as error:
            remove_folder(partial)
            # Somebody else may have been faster; theirs holds the same files.
            if not (isinstance(error, OSError) and folder.exists()):
                raise
    os.utime(folder)
    return folder


def _make_room(repository: Repository) -> None:
    """Remove exports of a repository that nobody uses, those that were used longest ago first, until few enough are left."""
    folders = _list_by_use(paths.tree_folder(repository.name, "").glob("*"))
    sizes = {folder: measure_folder(folder) for folder, _ in folders}
    at_work = (JobState.RUNNING, JobState.ABORT_PENDING)
    running = set(Job.objects.filter(repository=repository.name, state__in=at_work).values_list("sha", flat=True))
    before = (clock.cautious_now() - JUST_USED).timestamp()
    total = sum(sizes.values())
    for folder, used_at in folders:
        if total <= MOST_BYTES or used_at > before:
            return
        if folder.name not in running:
            remove_folder(folder)
            total -= sizes[folder]


def _list_by_use(folders: Iterable[Path]) -> list[tuple[Path, float]]:
    """List some folders with when they were last used, the longest ago first; those that go meanwhile are left out."""
    uses = []
    for folder in folders:
        with suppress(FileNotFoundError):
            uses.append((folder, folder.stat().st_mtime))
    return sorted(uses, key=itemgetter(1))


def sweep_trees() -> int:
    """Remove exported commits that nobody has used for a while, and what dead processes left of them; return how many."""
    removed = 0
    now = clock.cautious_now()
    for folder, used_at in _list_by_use(paths.trees_folder().glob("*/*")):
        keep = KEEP_PARTIAL if folder.name.startswith(".") else KEEP
        if used_at < (now - keep).timestamp():
            remove_folder(folder)
            removed += 1
    return removed
