"""Saving files from the editor: one commit on the branch or on a new one, or what stood in its way."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from webapp.core.errors import AppError, InvalidInput
from webapp.git.diff import diff_texts
from webapp.git.paths import check_path
from webapp.git.texts import decode
from webapp.git.values import Change
from webapp.repositories import queries
from webapp.repositories.errors import git_refusals
from webapp.repositories.queries.parquet import LINES_SUFFIX, is_parquet, make_lines, make_parquet
from webapp.repositories.rules.texts import explain_read_only, normalise_lines, restore_lines
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
        return find_target(self.target, source=self.path)


def find_target(typed: str, *, source: str) -> str:
    """Return where a file is to lie: where it is, unless another path was typed."""
    return source if typed == source else typed.strip("/ ") or source


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
            files = _list_others(repository, edit, newest)
            return Moved(newest, tuple(_diff_rows(repository, file, edit.head, newest) for file in files))
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


def _diff_rows(repository: Repository, file: FileDiff, before: str, after: str) -> FileDiff:
    """Compare a Parquet file as the rows that its author edits; other files stay as Git compares them."""
    old, new = (
        find_content(path, repository=repository, head=sha)
        for path, sha in ((file.old_path, before), (file.path, after))
    )
    if not is_parquet(file.path) or old is None or new is None:
        return file
    try:
        return diff_texts(
            file.path, old=show_content(file.old_path, old).encode(), new=show_content(file.path, new).encode()
        )
    except InvalidInput:
        return file  # what they made of it cannot be edited here


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
    return find_content(draft.path, repository=repository, head=head) if draft.path else None


def find_content(path: str, *, repository: Repository, head: str) -> bytes | None:
    """Return what a commit has of a file; None where it has none."""
    try:
        return queries.read_file(repository, head, path)
    except AppError:
        return None


def show_content(path: str, content: bytes) -> str:
    """Return a file as the text that the editor shows of it.

    Raises:
        InvalidInput: the rows of a Parquet file cannot be edited as text.

    """
    return make_lines(path, content).text if is_parquet(path) else decode(content)


def is_changed(draft: FileDraft, *, repository: Repository, head: str) -> bool:
    """Return whether a draft says something else than a commit."""
    old = find_old(draft, repository=repository, head=head)
    if old is None or draft.target != draft.path:
        return True
    if is_parquet(draft.path):
        return normalise_lines(draft.text) != show_content(draft.path, old)
    return encode_draft(draft, old=old) != old


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
    """Return a draft as a file. A text that was not changed keeps its bytes, a changed one its line ends.

    A Parquet file is edited as JSON lines, and becomes one again.

    Raises:
        InvalidInput: a line is no row of the Parquet file, there is none that says what columns it has, or a text was
            changed that is not written back to the same bytes.

    """
    text = normalise_lines(draft.text)
    was_parquet = old is not None and is_parquet(draft.path)
    if is_parquet(draft.target):
        return _encode_rows(draft, text, old if was_parquet else None)
    if was_parquet and not draft.target.endswith(LINES_SUFFIX):
        message = f"{draft.path} is edited as JSON lines: it stays a Parquet file, or becomes one that ends with {LINES_SUFFIX}."
        raise InvalidInput(message, code="bad_rows")
    if old is None or was_parquet:
        return text.encode()
    if text == normalise_lines(show_content(draft.path, old)):
        return old
    if reason := explain_read_only(old):
        message = f"{draft.path} is read-only here. {reason} Change it with Git."
        raise InvalidInput(message, code="read_only")
    return restore_lines(text, old=old)


def _encode_rows(draft: FileDraft, text: str, old: bytes | None) -> bytes:
    if old is None:
        message = (
            f"{draft.target}: a Parquet file is not written as text. Write CSV or JSON lines, or push it with Git."
        )
        raise InvalidInput(message, code="bad_rows")
    return make_parquet(draft.target, text, old=old)
