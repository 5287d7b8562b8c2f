"""Compares the files of two commits: which have changed, and line by line."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pygit2
from pygit2.enums import DeltaStatus, DiffFind, DiffOption, FileMode

from webapp.core.characters import HIDDEN
from webapp.git.diff import (
    ChangedFile,
    CodeDiff,
    FileDiff,
    adds_hidden,
    changed_file_of_delta,
    file_diff_of_patch,
    long_file_diff,
    paths_of_delta,
)
from webapp.git.errors import TooBig
from webapp.git.objects import FILE_MODES, MAX_FILE_BYTES, Objects

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

MAX_DIFF_FILES = 3000
MAX_DIFF_BYTES = 500 * 1024 * 1024
# Git compares by line, and takes a hundred bytes of memory for each, however short they are.
MAX_DIFFED_LINES = 1_000_000


def list_diffs(
    objects: Objects,
    base: str | None,
    head: str,
    *,
    context: int = 3,
    ignore_whitespace: bool = False,
    paths: Collection[str] | None = None,
) -> list[FileDiff]:
    """Compare two commits file by file, following renames; no base means an empty tree.

    With paths, only these files, by their new or old names, are read.
    """
    diff = _diff(objects, base, head, context=context, ignore_whitespace=ignore_whitespace)
    files = []
    for place, delta, _file in _find_changes(diff, paths):
        if _is_long(objects, delta):
            files.append(long_file_diff(delta))
        elif (patch := diff[place]) is not None:
            old, new = (_read_side(objects, side) for side in (delta.old_file, delta.new_file))
            files.append(file_diff_of_patch(patch, old=old, new=new))
    return files


def _read_side(objects: Objects, side: pygit2.DiffFile) -> bytes | None:
    """Return what a file holds on one side; None where it is none."""
    blob = objects.store.get(side.id) if side.mode in FILE_MODES else None
    return bytes(blob.data) if isinstance(blob, pygit2.Blob) else None


@lru_cache(maxsize=64)
def list_changes(
    repository: Path, base: str | None, head: str, *, ignore_whitespace: bool, paths: frozenset[str] | None
) -> CodeDiff:
    """List changes; kept for the threads of pages, which share it: each tab of a pull request counts its files."""
    objects = Objects(repository)
    diff = _diff(objects, base, head, context=0, ignore_whitespace=ignore_whitespace)
    changes = list(_find_changes(diff, paths))
    files = []
    additions = deletions = 0
    for place, delta, file in changes:
        patch = None if _is_long(objects, delta) else diff[place]
        is_hiding = HIDDEN.search(file.path) is not None
        if patch is not None:
            _, added, deleted = patch.line_stats
            additions, deletions = additions + added, deletions + deleted
            is_hiding = is_hiding or adds_hidden(patch, _read_side(objects, delta.new_file))
        files.append(replace(file, has_hidden=is_hiding))
    return CodeDiff(files=tuple(files), additions=additions, deletions=deletions)


@lru_cache(maxsize=64)
def list_changed_paths(repository: Path, base: str | None, head: str) -> frozenset[str]:
    """List the paths at which two commits differ, however many: of a file that moved both. No file is read."""
    diff = _diff_trees(Objects(repository), base, head, context=0)
    return frozenset().union(*(paths_of_delta(delta) for delta in diff.deltas))


def list_differing_names(objects: Objects, old: str, new: str) -> frozenset[bytes]:
    """List the paths at which two commits or trees differ, as Git stores them: their texts may be equal."""
    diff = objects.find_tree(old).diff_to_tree(objects.find_tree(new), context_lines=0)
    return frozenset(side.raw_path for delta in diff.deltas for side in (delta.old_file, delta.new_file))


def _diff(objects: Objects, base: str | None, head: str, *, context: int, ignore_whitespace: bool) -> pygit2.Diff:
    options = DiffOption.IGNORE_WHITESPACE if ignore_whitespace else DiffOption.NORMAL
    diff = _diff_trees(objects, base, head, context=context, options=options)
    # A file that was renamed is two until the files are read.
    _check_count(diff, most=2 * MAX_DIFF_FILES)
    if (size := _add_up_bytes(objects.path, base, head)) > MAX_DIFF_BYTES:
        msg = f"The files of the comparison have {size} bytes, more than {MAX_DIFF_BYTES}."
        raise TooBig(msg)
    diff.find_similar(flags=DiffFind.FIND_RENAMES)
    _check_count(diff, most=MAX_DIFF_FILES)
    return diff


def _diff_trees(
    objects: Objects, base: str | None, head: str, *, context: int, options: DiffOption = DiffOption.NORMAL
) -> pygit2.Diff:
    tree = objects.find_commit(head).tree
    if base is None:
        return tree.diff_to_tree(swap=True, flags=options, context_lines=context)
    return objects.find_commit(base).tree.diff_to_tree(tree, flags=options, context_lines=context)


def _check_count(diff: pygit2.Diff, *, most: int) -> None:
    if len(diff) > most:
        msg = f"The comparison touches {len(diff)} files, more than {MAX_DIFF_FILES}."
        raise TooBig(msg)


@lru_cache(maxsize=64)
def _add_up_bytes(repository: Path, base: str | None, head: str) -> int:
    """Measure all versions of the files that differ; kept, since a page that shows a few of them asks, too."""
    objects = Objects(repository)
    diff = _diff_trees(objects, base, head, context=0)
    return sum(objects.measure(blob) for delta in diff.deltas for blob in _blobs_of(delta))


def _is_long(objects: Objects, delta: pygit2.DiffDelta) -> bool:
    """Say whether a file has more bytes or lines than are compared."""
    return any(has_much(objects, blob) for blob in _blobs_of(delta))


def has_much(objects: Objects, blob: pygit2.Oid) -> bool:
    """Return whether a version of a file has more bytes or lines than are compared."""
    size = objects.measure(blob)
    return size > MAX_FILE_BYTES or (
        size > MAX_DIFFED_LINES and objects.store[blob].data.count(b"\n") > MAX_DIFFED_LINES
    )


def _find_changes(
    diff: pygit2.Diff, paths: Collection[str] | None
) -> Iterator[tuple[int, pygit2.DiffDelta, ChangedFile]]:
    """Find what a comparison changes, or what of some files by their new or old names, each with its place in it."""
    for place, delta in enumerate(diff.deltas):
        is_wanted = paths is None or not paths_of_delta(delta).isdisjoint(paths)
        if is_wanted and delta.status != DeltaStatus.UNMODIFIED:
            yield place, delta, changed_file_of_delta(delta)


def _blobs_of(delta: pygit2.DiffDelta) -> Iterator[pygit2.Oid]:
    """Yield both versions of a file, where they are blobs."""
    for side in (delta.old_file, delta.new_file):
        if side.mode not in (FileMode.UNREADABLE, FileMode.COMMIT):
            yield side.id
