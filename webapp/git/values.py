"""Plain values that the repository hands out; none of them holds on to Git."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from webapp.git.texts import decode, is_binary, read_form

if TYPE_CHECKING:
    from datetime import datetime

    from webapp.git.texts import TextForm

EntryKind = Literal["file", "folder", "symlink", "submodule"]
MergeMethod = Literal["merge", "squash"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who wrote a commit."""

    name: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a file: new content, a deletion, or a move (with or without new content)."""

    path: str
    content: bytes | None = None
    delete: bool = False
    move_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """A commit as pages and the API show it."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    message: str
    author: Person
    authored_at: datetime
    committer: Person
    committed_at: datetime

    @property
    def short(self) -> str:
        """Return the first seven digits."""
        return self.sha[:7]

    @property
    def subject(self) -> str:
        """Return the first line of the message."""
        return self.message.strip().partition("\n")[0]

    @property
    def body(self) -> str:
        """Return the message without its first line."""
        return self.message.strip().partition("\n")[2].strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """One line of a folder."""

    name: str
    path: str
    kind: EntryKind
    sha: str
    size: int | None


@dataclass(frozen=True, slots=True)
class PathEntry:
    """A file or folder of one commit, by Git's name of its content."""

    id: str
    is_folder: bool
    is_program: bool = False
    """Whether it is a file that may be executed."""
    names: tuple[str, ...] = ()
    """Of what is in a folder; those of folders end with a slash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One file at one commit."""

    path: str
    kind: EntryKind
    sha: str
    size: int
    content: bytes

    @property
    def is_binary(self) -> bool:
        """Say whether the content is no text, by Git's own rule of thumb."""
        return is_binary(self.content)

    @property
    def is_utf8(self) -> bool:
        """Return whether the content is UTF-8."""
        try:
            self.content.decode()
        except UnicodeDecodeError:
            return False
        return True

    @property
    def text(self) -> str:
        """Return the content as text, in its own encoding as far as that can be told."""
        return decode(self.content)

    @property
    def form(self) -> TextForm | None:
        """Return how its text is stored; None of a file that is no text."""
        return None if self.is_binary else read_form(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePreview:
    """What a merge of two commits would give."""

    clean: bool
    conflicts: tuple[str, ...] = ()
    tree: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """What a merge of two commits would change on its target, compared with what a review of the source showed."""

    conflicts: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()
    """Paths at which the target and the merged tree differ: both paths of a moved file. Empty if files conflict."""
    unshown: frozenset[str] = frozenset()
    """Paths that land in another way than the review showed, or that it did not show at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefUpdate:
    """One line that a push asks for: a full ref with its old and new commit ("" where there is none)."""

    ref: str
    before: str
    after: str
    fast_forward: bool = False
