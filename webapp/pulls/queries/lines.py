"""Lines of code that comments are about: as they were shown, and where they are at the newest commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.core.errors import AppError
from webapp.git.texts import decode
from webapp.pulls.queries import pulls as queries
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from webapp.pulls.models import Comment, PendingComment, PullRequest

HEAD, BASE = "head", "base"
MAX_QUOTED = 2_000
"""Characters of a line that are kept."""
MAX_LINES = 100
"""Maximum lines of one comment."""


@dataclass(frozen=True, slots=True)
class ShownLines:
    """Lines that a comment is about, as its author saw them."""

    commit: str
    path: str
    """Of the file in that commit: a comment on a line before the change can have another one in the diff."""
    text: str


@dataclass(frozen=True, slots=True)
class LinesNow:
    """Where the lines of a comment are now."""

    path: str
    """Of the file in the diff of the pull request."""
    side: str
    first: int
    last: int
    is_outdated: bool
    """Whether the lines were edited or removed; then the numbers are those of the commit that showed them."""

    @property
    def words(self) -> str:
        """Name the lines."""
        lines = f"line {self.last}" if self.first == self.last else f"lines {self.first} to {self.last}"
        return lines + (" before" if self.side == BASE else "")

    def as_json(self) -> dict[str, Any] | None:
        """Return the anchor of the lines; None if they are outdated."""
        if self.is_outdated:
            return None
        anchor = {"path": self.path, "line": self.last, "side": self.side}
        return anchor if self.first == self.last else {**anchor, "start_line": self.first}


def read_lines(pull: PullRequest, anchor: Mapping[str, Any], *, head: str = "") -> ShownLines | None:
    """Return the lines that an anchor names at a head of the pull request; None if the file does not have them."""
    head, path = head or pull.head_sha, str(anchor["path"])
    try:
        commit, path = _find_at_base(pull, head, path) if anchor["side"] == BASE else (head, path)
        text = decode(repositories.read_file(pull.repository, commit, path))
    except AppError:
        return None  # the file is not there, or too big to be read
    lines = text.removesuffix("\n").split("\n") if text else []
    first, last = _range_of(anchor)
    if not 0 < first <= last <= len(lines):
        return None
    return ShownLines(commit, path, quote_lines(line.rstrip("\r") for line in lines[first - 1 : last]))


def quote_lines(lines: Iterable[str]) -> str:
    """Return what is kept of lines of code."""
    return "\n".join(line[:MAX_QUOTED] for line in lines)


def follow_lines(pull: PullRequest, comment: Comment | PendingComment) -> LinesNow:
    """Return where the lines of a comment are now, by Git's diff between the commit that showed them and the newest."""
    anchor = comment.anchor or {}
    path, side, (first, last) = str(anchor["path"]), str(anchor["side"]), _range_of(anchor)
    if comment.seen is None:  # of an earlier release: the lines at the same place, if they are still the same
        shown = read_lines(pull, anchor)
        is_whole = all(len(line) < MAX_QUOTED for line in comment.quoted.split("\n"))
        is_same = shown is not None and is_whole and shown.text == comment.quoted
        return LinesNow(path, side, first, last, is_outdated=not is_same)
    try:
        newest = _find_base_commit(pull, pull.head_sha) if side == BASE else pull.head_sha
        followed = repositories.follow_file(pull.repository, comment.seen["commit"], newest, comment.seen["path"])
        if followed is not None:
            path = _find_new_path(pull, followed.path) if side == BASE else followed.path
    except AppError:
        followed = None  # Git has lost the commit, or compares too much
    lines = followed.follow(first, last) if followed else None
    return LinesNow(path, side, *(lines or (first, last)), is_outdated=lines is None)


def _range_of(anchor: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first and the last line that an anchor names."""
    return anchor.get("start_line", anchor["line"]), anchor["line"]


def _find_base_commit(pull: PullRequest, head: str) -> str:
    """Return the commit with which a head is compared."""
    base = queries.find_base(pull)
    return repositories.find_merge_base(pull.repository, base, head) or base


def _find_at_base(pull: PullRequest, head: str, path: str) -> tuple[str, str]:
    """Return the commit with which a head is compared, and the path of a changed file there."""
    commit = _find_base_commit(pull, head)
    files = repositories.list_changes_between(pull.repository, commit, head).files
    return commit, next((file.old_path for file in files if file.path == path), path)


def _find_new_path(pull: PullRequest, old_path: str) -> str:
    """Return the path that a file of the base has in the diff."""
    return next((file.path for file in queries.list_changes(pull).files if file.old_path == old_path), old_path)
