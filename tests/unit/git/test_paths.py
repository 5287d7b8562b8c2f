"""Which file names may be written."""

from __future__ import annotations

import pytest

from webapp.git.errors import BadChange
from webapp.git.paths import check_path

GOOD = ["a", "a/b.py", ".gitignore", ".github/x", "git", "a b/é.txt", "...", "..a", "a..b", ".gitmodules", "x" * 255]
BAD = [
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "a/./b",
    "../a",
    ".git",
    ".git/config",
    "a/.git/hooks/pre-commit",
    ".GIT/x",
    ".Git",
    ".git ",
    ".git.",
    ".git...",
    ".git . .",
    "git~1",
    "GIT~1/x",
    ".g\u200cit/config",
    ".gi\u200dt",
    "\u200e.git",
    ".git\ufeff",
    ".git::$INDEX_ALLOCATION",
    ".git:x",
    "a\\b",
    "..\\a",
    "a\0b",
    "a\nb",
    "a\x7fb",
    "a\x1b[31m",
    "\ud800",
    "x" * 256,
    "a/" * 50 + "b",
    "é" * 600,
]


@pytest.mark.parametrize("path", GOOD)
def test_check_path_accepts(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize("path", BAD)
def test_check_path_refuses(path: str) -> None:
    with pytest.raises(BadChange):
        check_path(path)
