"""How file names are written as text, and which may be written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.git.errors import BadChange
from webapp.git.paths import check_path, decode_path, encode_path

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


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a b/é%20?#.txt".encode(), "a b/é%20?#.txt"),
        (b"caf\xe9.txt", r"caf\xe9.txt"),
        (b"d\xff/\n", r"d\xff/\x0a"),
        (b"\x1b[31m", r"\x1b[31m"),
        ("next\u0085line\u2028".encode(), r"next\xc2\x85line\xe2\x80\xa8"),
        (b"a\\b", r"a\b"),
        (rb"a\xe9", r"a\x5cxe9"),
        (rb"a\xE9\x", r"a\xE9\x"),
        (b"\\\xe9", r"\\xe9"),
    ],
)
def test_a_path_has_one_text(raw: bytes, text: str) -> None:
    assert decode_path(raw) == text
    assert encode_path(text) == raw


@pytest.mark.parametrize("text", ["a\nb", r"\x61", r"\x2egit", r"\xc3\xa9", r"\x5cx", "\ud800", "\udce9"])
def test_other_texts_of_a_path_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"path|surrogates"):
        encode_path(text)


@given(
    st.lists(st.sampled_from([b"\\", b"x", b"e9", b"5c", b"\xe9", b"\xc3", b"\n", b"\xed\xb3\xa9", b"a", b"/"])).map(
        b"".join
    )
)
def test_texts_of_paths_are_one_to_one(raw: bytes) -> None:
    text = decode_path(raw)
    assert encode_path(text) == raw
    assert "\n" not in text
