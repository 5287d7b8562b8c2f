"""The files that a merge changes on its target, and which of these changes a review has shown."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from webapp.git import merges
from webapp.git.compare import list_differing_names
from webapp.git.paths import decode_path
from webapp.git.program import run_git
from webapp.git.repository import GitRepository
from webapp.git.values import Landing

if TYPE_CHECKING:
    from pathlib import Path


def find_landing(git: GitRepository, *, source: str, target: str, shown_from: str | None = None) -> Landing:
    """Compare the tree that a merge would land with its target, and with what a review showed.

    A review shows the changes of the source since one commit. Git merges over all merge bases, so the tree can hold
    changes that no such comparison shows. They are found by merging again as if that commit were the only merge base.

    Args:
        git: the repository.
        source: the commit to merge.
        target: the commit that it is merged into.
        shown_from: the commit that the review compared the source with; by default the merge base that pages use.

    """
    base = shown_from or git.merge_base(target, source)
    # Commits never change, and the answer names no object that could get lost.
    return _find_landing(git.path, source, target, base)


@lru_cache(maxsize=512)
def _find_landing(repository: Path, source: str, target: str, base: str | None) -> Landing:
    git = GitRepository(repository)
    merged = merges.preview_merge(git, source=source, target=target)
    if not merged.clean or base is None:
        return Landing(conflicts=merged.conflicts)
    changed = list_differing_names(git.objects, target, merged.tree)
    unshown = _decode(changed - list_differing_names(git.objects, base, source))
    if not _is_only_base(git, base, source=source, target=target):
        shown = merges.preview_merge_on(git, base=base, source=source, target=target)
        differing = list_differing_names(git.objects, merged.tree, shown.tree) if shown.tree else changed
        unshown |= _decode(differing) | (frozenset(shown.conflicts) if shown.tree else frozenset())
    return Landing(changed=_decode(changed), unshown=unshown)


def _is_only_base(git: GitRepository, base: str, *, source: str, target: str) -> bool:
    if base in (source, target):
        return git.merge_base(target, source) == base
    bases = run_git(git.path, "merge-base", "--all", "--end-of-options", target, source, accept=(0, 1))
    return bases.stdout.decode().split() == [base]


def _decode(names: frozenset[bytes]) -> frozenset[str]:
    return frozenset(decode_path(name) for name in names)
