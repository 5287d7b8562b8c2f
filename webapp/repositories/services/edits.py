"""Saving a file from the editor: one commit on the branch or on a new one, or what stood in its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from webapp.core.errors import AppError
from webapp.git.values import Change
from webapp.repositories import queries
from webapp.repositories.services.commits import commit_files, commit_to_new_branch

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.git.diff import FileDiff
    from webapp.git.values import CommitInfo
    from webapp.repositories.models import Repository

Mode = Literal["edit", "new", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What somebody did to one file while looking at a commit of its branch."""

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
        changes=[_change(repository, edit)],
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
        changes=[_change(repository, edit)],
        expected_head=newest if is_untouched else edit.head,
        by=by,
    )


def _list_others(repository: Repository, edit: Edit, newest: str) -> list[FileDiff]:
    files = queries.compare(repository, edit.head, newest)
    return [file for file in files if edit.path in (file.path, file.old_path)]


def _change(repository: Repository, edit: Edit) -> Change:
    if edit.mode == "delete":
        return Change(path=edit.path, delete=True)
    text = edit.text.replace("\r\n", "\n")
    if edit.mode == "new":
        return Change(path=edit.saved_path, content=text.encode())
    content = (text.replace("\n", "\r\n") if _has_crlf(repository, edit) else text).encode()
    return Change(path=edit.path, content=content, move_to=edit.saved_path if edit.saved_path != edit.path else None)


def _has_crlf(repository: Repository, edit: Edit) -> bool:
    """Return whether the file's lines end in CRLF: it keeps the ends that it had, while browsers always send CRLF."""
    try:
        return b"\r\n" in queries.read_file(repository, edit.head, edit.path)
    except AppError:
        return False
