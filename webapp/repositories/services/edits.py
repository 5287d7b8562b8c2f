"""Saving files from the editor: one commit on the branch or on a new one, or what stood in its way."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from webapp.core.errors import AppError, InvalidInput
from webapp.git.paths import check_path
from webapp.git.values import Change
from webapp.repositories import queries
from webapp.repositories.errors import git_refusals
from webapp.repositories.services.commits import commit_files, commit_to_new_branch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from webapp.core.principals import Principal
    from webapp.git.diff import FileDiff
    from webapp.git.values import CommitInfo
    from webapp.repositories.models import Repository

Mode = Literal["edit", "new", "delete"]


@dataclass(frozen=True, slots=True)
class FileDraft:
    """A file as somebody left it in the editor to go on with another one; the form carries it until the commit."""

    path: str
    """Where it lies in the commit that was looked at; empty where it is new."""
    target: str
    """Where it is to lie."""
    text: str

    @property
    def key(self) -> str:
        """By which the editor finds it again."""
        return self.path or self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What somebody did to files while looking at a commit of their branch."""

    mode: Mode
    path: str
    """Where the file lies in that commit, or the folder of a new one."""
    target: str
    """Where it is to lie; empty where it stays."""
    text: str
    message: str
    head: str
    """SHA of the commit that was looked at."""
    new_branch: str = ""
    """Makes this branch for the commit instead of moving the one that was looked at."""
    others: tuple[FileDraft, ...] = ()
    """Go into the same commit."""

    @property
    def paths(self) -> set[str]:
        """The files as the commit that was looked at has them."""
        return {self.path, *(draft.path for draft in self.others if draft.path)}

    @property
    def saved_path(self) -> str:
        """Where the file lies afterwards."""
        return self.target.strip("/") or self.path


@dataclass(frozen=True, slots=True)
class Saved:
    """The commit that the edit has become."""

    commit: CommitInfo
    branch: str


@dataclass(frozen=True, slots=True)
class Moved:
    """Others changed this file on the branch meanwhile; nothing is committed."""

    head: str
    files: tuple[FileDiff, ...]
    """What they changed about it, between the commit that was looked at and this head."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing is committed, and nothing will be as it stands."""

    error: AppError


def save_file(*, repository: Repository, branch: str, edit: Edit, by: Principal) -> Saved | Moved | Refused:
    """Commit an edit. Where others changed only other files meanwhile, it is committed on top of theirs."""
    try:
        if edit.new_branch:
            return Saved(_commit_to_new_branch(repository, branch, edit, by=by), edit.new_branch)
        return Saved(_commit(repository, branch, edit, by=by), branch)
    except AppError as error:
        if error.code == "head_moved":
            newest = str(error.extra["head"])
            return Moved(newest, tuple(_list_others(repository, edit, newest)))
        return Refused(error)


def _commit_to_new_branch(repository: Repository, parent: str, edit: Edit, *, by: Principal) -> CommitInfo:
    return commit_to_new_branch(
        repository=repository,
        parent=parent,
        branch=edit.new_branch,
        message=edit.message,
        changes=_list_changes(repository, edit),
        expected_head=edit.head,
        by=by,
    )


def _commit(repository: Repository, branch: str, edit: Edit, *, by: Principal) -> CommitInfo:
    newest = queries.get_head(repository, branch)
    is_untouched = edit.head == newest or not _list_others(repository, edit, newest)
    return commit_files(
        repository=repository,
        branch=branch,
        message=edit.message,
        changes=_list_changes(repository, edit),
        expected_head=newest if is_untouched else edit.head,
        by=by,
    )


def _list_others(repository: Repository, edit: Edit, newest: str) -> list[FileDiff]:
    files = queries.compare(repository, edit.head, newest)
    return [file for file in files if edit.paths & {file.path, file.old_path}]


def _list_changes(repository: Repository, edit: Edit) -> list[Change]:
    return [_change(repository, edit), *(_write(repository, edit.head, draft) for draft in edit.others)]


def _change(repository: Repository, edit: Edit) -> Change:
    if edit.mode == "delete":
        return Change(path=edit.path, delete=True)
    draft = FileDraft("" if edit.mode == "new" else edit.path, edit.saved_path, edit.text)
    return _write(repository, edit.head, draft)


def _write(repository: Repository, head: str, draft: FileDraft) -> Change:
    content = encode_draft(draft, old=find_old(draft, repository=repository, head=head))
    if not draft.path:
        return Change(path=draft.target, content=content)
    return Change(path=draft.path, content=content, move_to=draft.target if draft.target != draft.path else None)


def find_old(draft: FileDraft, *, repository: Repository, head: str) -> bytes | None:
    """Return what a commit has of a draft's file; None where it has none."""
    try:
        return queries.read_file(repository, head, draft.path) if draft.path else None
    except AppError:
        return None


def is_changed(draft: FileDraft, *, repository: Repository, head: str) -> bool:
    """Return whether a draft says something else than a commit."""
    old = find_old(draft, repository=repository, head=head)
    return old is None or draft.target != draft.path or encode_draft(draft, old=old) != old


def check_draft(draft: FileDraft) -> None:
    """Refuse a draft that could not be committed where it is to lie.

    Raises:
        InvalidInput: its path is none.

    """
    with git_refusals():
        check_path(draft.target)
        if draft.path:
            check_path(draft.path)


def write_drafts(drafts: Sequence[FileDraft], *, repository: Repository, head: str, folder: Path) -> None:
    """Write drafts into a folder that holds the files of a commit, without links, so that it is as a commit would be.

    Raises:
        InvalidInput: one of them lies where something else is.

    """
    contents = [encode_draft(draft, old=find_old(draft, repository=repository, head=head)) for draft in drafts]
    for draft in drafts:
        check_draft(draft)
        if draft.path:
            with _naming(draft):
                (folder / draft.path).unlink(missing_ok=True)
    for draft, content in zip(drafts, contents, strict=True):
        place = folder / draft.target
        with _naming(draft):
            _make_parents(place, above=folder)
            # Another copy of the commit may share the file: it is replaced, not changed.
            place.unlink(missing_ok=True)
            place.write_bytes(content)
            place.chmod(0o644)


@contextmanager
def _naming(draft: FileDraft) -> Iterator[None]:
    """Say of a draft that something else lies in its place."""
    try:
        yield
    except OSError as error:
        message = f"{draft.target} cannot lie there: {error.strerror}."
        raise InvalidInput(message, code="bad_change", errors={"changes": [message]}) from error


def _make_parents(place: Path, *, above: Path) -> None:
    """Make the folders that a file lies in; who runs the code has another user, so the umask has no say."""
    for parent in reversed(place.relative_to(above).parents[:-1]):
        if not (above / parent).exists():
            (above / parent).mkdir()
            (above / parent).chmod(0o755)


def encode_draft(draft: FileDraft, *, old: bytes | None) -> bytes:
    """Return a draft as a file: it keeps the ends of lines that it had, while browsers always send CRLF."""
    text = draft.text.replace("\r\n", "\n")
    return (text.replace("\n", "\r\n") if b"\r\n" in (old or b"") else text).encode()
