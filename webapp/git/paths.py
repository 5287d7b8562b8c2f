"""How file names are written as text, and which may be written; the refusals follow the attacks that Git had to fix."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from webapp.git.errors import BadChange

if TYPE_CHECKING:
    import pygit2

MAX_PATH_BYTES = 1024
MAX_PART_BYTES = 255
MAX_DEPTH = 40
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\udc80-\udcff]|\\(?=x[0-9a-f]{2})")
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def decode_path(raw: bytes | str) -> str:
    r"""Return the text that stands for a path everywhere outside Git: pages, addresses, REST, the database.

    Git allows any bytes in a name. Bytes that are not UTF-8, control characters and line breaks are written as `\xhh`,
    as is a backslash that would otherwise begin such an escape. Different paths therefore have different texts.
    """
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "surrogateescape")
    return _UNPRINTABLE.sub(lambda match: "".join(f"\\x{byte:02x}" for byte in _encode(match[0])), text)


def encode_path(path: str) -> bytes:
    """Return the bytes of a path from its text.

    Raises:
        ValueError: the text stands for no path, or another text stands for that path.

    """
    raw = _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), path.encode())
    if decode_path(raw) != path:
        msg = f"{path!r} is not how a path is written."
        raise ValueError(msg)
    return raw


def find_entry(tree: pygit2.Tree, path: str) -> pygit2.Object:
    """Return what a tree has at a path.

    Raises:
        KeyError: it has nothing there.

    """
    try:
        # pygit2 takes bytes that are not UTF-8 as Python writes names of files.
        return tree[encode_path(path).decode("utf-8", "surrogateescape")]
    except ValueError as error:
        raise KeyError(path) from error


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


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
