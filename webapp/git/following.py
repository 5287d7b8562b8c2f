"""Follows lines of a file from one commit to another, through renames and edits of other lines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import pygit2

from webapp.git import compare
from webapp.git.errors import UnknownPath
from webapp.git.objects import Objects

if TYPE_CHECKING:
    from pathlib import Path


class LineEdit(NamedTuple):
    """Lines that were replaced: `removed` of them from line `start`, or none after line `start`."""

    start: int
    removed: int
    added: int


@dataclass(frozen=True, slots=True)
class FollowedFile:
    """A file of an older commit at a newer one."""

    path: str
    edits: tuple[LineEdit, ...] | None
    """In the order of the lines. None if the file is too long to be compared."""

    def follow(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the numbers that a range of lines has now; None if any of the lines was edited, or split from the next."""
        if self.edits is None:
            return None
        moved = 0
        for edit in self.edits:
            end = edit.start + edit.removed - 1 if edit.removed else edit.start
            if end < first:
                moved += edit.added - edit.removed
            elif edit.start <= last if edit.removed else edit.start < last:
                return None
        return first + moved, last + moved


@lru_cache(maxsize=512)
def follow_file(repository: Path, older: str, newer: str, path: str) -> FollowedFile | None:
    """Return what became of a file; None if the newer commit does not have it. Kept, since commits never change.

    Raises:
        TooBig: the file is gone, and the commits differ in too much to find where it moved.

    """
    objects = Objects(repository)
    before, after = _find_blob(objects, older, path), _find_blob(objects, newer, path)
    if before is None:
        return None
    now = path
    if after is None:
        changes = compare.list_changes(repository, older, newer, ignore_whitespace=False, paths=frozenset({path}))
        now = next((file.path for file in changes.files if file.old_path == path != file.path), "")
        after = _find_blob(objects, newer, now) if now else None
        if after is None:
            return None
    if before.id == after.id:
        return FollowedFile(now, ())
    if any(compare.has_much(objects, blob.id) for blob in (before, after)):
        return FollowedFile(now, None)
    patch = pygit2.Patch.create_from(_read_lines(before), _read_lines(after), context_lines=0)
    return FollowedFile(now, tuple(LineEdit(hunk.old_start, hunk.old_lines, hunk.new_lines) for hunk in patch.hunks))


def _find_blob(objects: Objects, sha: str, path: str) -> pygit2.Blob | None:
    try:
        item = objects.find_object(sha, path)
    except UnknownPath:
        return None
    return item if isinstance(item, pygit2.Blob) else None


def _read_lines(blob: pygit2.Blob) -> bytes:
    """Return the content with line ends that are all alike: a line that only ends in another way says the same."""
    content: bytes = blob.data.replace(b"\r\n", b"\n")
    return content if not content or content.endswith(b"\n") else content + b"\n"
