"""Which file names may be written; the refusals follow the attacks that Git itself had to fix."""

from __future__ import annotations

import unicodedata

from webapp.git.errors import BadChange

MAX_PATH_BYTES = 1024
MAX_PART_BYTES = 255
MAX_DEPTH = 40


def _folds_to_dot_git(part: str) -> bool:
    """Say whether some file system takes this name for Git's own folder."""
    # HFS ignores format characters, NTFS ignores trailing dots and spaces, a stream suffix and knows a short name.
    visible = "".join(char for char in part if unicodedata.category(char) != "Cf").casefold()
    stem = visible.split(":", 1)[0].rstrip(". ")
    return stem in {".git", "git~1"}


def _check_part(path: str, part: str) -> None:
    if part in {"", ".", ".."}:
        raise BadChange(path, "a path has no empty, '.' or '..' parts")
    if _folds_to_dot_git(part):
        raise BadChange(path, "a path may not name Git's own folder")
    if len(part.encode()) > MAX_PART_BYTES:
        raise BadChange(path, f"a name in a path has at most {MAX_PART_BYTES} bytes")


def check_path(path: str) -> str:
    """Return a path that may be written into a commit; raise BadChange otherwise."""
    try:
        encoded = path.encode()
    except UnicodeEncodeError as error:
        raise BadChange("", "a path is valid Unicode text") from error
    if not path:
        raise BadChange("", "a path is missing")
    if len(encoded) > MAX_PATH_BYTES:
        raise BadChange(path[:80], f"a path has at most {MAX_PATH_BYTES} bytes")
    if any(unicodedata.category(char) == "Cc" for char in path):
        raise BadChange("", "a path has no control characters")
    if "\\" in path:
        raise BadChange(path, "use '/' between the parts of a path")
    parts = path.split("/")
    if len(parts) > MAX_DEPTH:
        raise BadChange(path, f"a path has at most {MAX_DEPTH} parts")
    for part in parts:
        _check_part(path, part)
    return path
