"""Changes of files, applied to the files of a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygit2.enums import FileMode

from webapp.git.errors import BadChange, TooBig
from webapp.git.objects import FILE_MODES, MAX_FILE_BYTES
from webapp.git.paths import check_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webapp.git.objects import Files, Objects
    from webapp.git.values import Change

MAX_COMMIT_BYTES = 100 * 1024 * 1024
MAX_CHANGES = 3000
MAX_MESSAGE = 65_536


def apply_changes(objects: Objects, parent: str, changes: Iterable[Change]) -> str:
    """Write the files of a commit with these changes; return the hash of their folder.

    Raises:
        BadChange: one of them cannot be made; it names the file.

    """
    files = objects.list_all(objects.find_commit(parent).tree)
    for change in changes:
        _apply(change, files, objects)
    return objects.write_tree(files)


def check_changes(changes: list[Change], message: str) -> None:
    """Refuse what is no commit, or too much for one."""
    if not changes:
        raise BadChange("", "a commit needs at least one change")
    if not message.strip():
        raise BadChange("", "a commit needs a message")
    if "\0" in message:
        raise BadChange("", "a message has no NUL characters")
    if len(message) > MAX_MESSAGE or len(changes) > MAX_CHANGES:
        msg = f"A commit has at most {MAX_CHANGES} changes and {MAX_MESSAGE} characters of message."
        raise TooBig(msg)
    check_contents([change.content or b"" for change in changes])


def check_contents(contents: list[bytes]) -> None:
    """Refuse files that are too large for a commit, alone or together."""
    sizes = [len(content) for content in contents]
    if max(sizes) > MAX_FILE_BYTES or sum(sizes) > MAX_COMMIT_BYTES:
        msg = f"A file has at most {MAX_FILE_BYTES} bytes, a commit {MAX_COMMIT_BYTES}."
        raise TooBig(msg)


def _apply(change: Change, files: Files, objects: Objects) -> None:
    old = files.get(change.path)
    if change.delete or change.move_to is not None:
        if old is None:
            raise BadChange(change.path, "there is no such file")
        if change.delete and (change.content is not None or change.move_to is not None):
            raise BadChange(change.path, "a change deletes, moves or writes a file, not two of these")
        del files[change.path]
    if change.delete:
        return
    path = change.path if change.move_to is None else change.move_to
    if path != change.path or old is None:  # a pushed file keeps its name, whatever it is
        check_path(path)
    if change.move_to is not None and path in files:
        raise BadChange(path, "there is a file already")
    if change.content is None:
        if old is None or change.move_to is None:
            raise BadChange(change.path, "a change needs content, 'delete' or 'move_to'")
        files[path] = old
        return
    if old is not None and old[1] not in FILE_MODES:
        raise BadChange(change.path, "only ordinary files can be edited; this is a link or a submodule")
    files[path] = (objects.create_blob(change.content), old[1] if old else FileMode.BLOB)
