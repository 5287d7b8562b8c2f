"""Code differences as values."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pygit2
import pytest
from django.template.loader import render_to_string
from pygit2.enums import FileMode, ObjectType

from webapp.core.characters import describe
from webapp.git import compare, diff, merges, program
from webapp.git.diff import Span, colour_lines, decorate, limit_lines
from webapp.git.errors import TooBig
from webapp.git.repository import GitRepository
from webapp.git.values import Change, Person

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.git.diff import FileDiff, Line

ME = Person(name="Ines", email="ines@example.org")


@pytest.fixture
def repo(tmp_path: Path) -> GitRepository:
    """Return a repository with three files."""
    git = GitRepository.init(tmp_path / "a.git", branch="master")
    files = {
        "a.py": b"import os\nx = 1\ny = 2\n",
        "b.txt": "".join(f"line {number}\n" for number in range(50)).encode(),
        "c.bin": b"\0\1",
    }
    git.create_root_commit(branch="master", message="First", files=files, author=ME)
    return git


def _diff(git: GitRepository, *changes: Change, **options: object) -> dict[str, FileDiff]:
    base = git.get_head("master")
    head = git.commit_changes(branch="master", message="m", changes=changes, author=ME).sha
    files = git.diff(base, head, **options)  # type: ignore[arg-type]
    return {
        file.path: decorate(file, old=git.read_to_colour(file.old_blob), new=git.read_to_colour(file.new_blob))
        for file in files
    }


def test_diff_numbers_colours_and_marks_lines(repo: GitRepository) -> None:
    file = _diff(repo, Change(path="a.py", content=b"import os\nx = 10\ny = 2\n"))["a.py"]
    assert (file.status, file.additions, file.deletions) == ("modified", 1, 1)
    [hunk] = file.hunks
    assert hunk.header == "@@ -1,3 +1,3 @@"
    assert [(line.kind, line.old, line.new, line.text) for line in hunk.lines] == [
        ("context", 1, 1, "import os"),
        ("deleted", 2, None, "x = 1"),
        ("added", None, 2, "x = 10"),
        ("context", 3, 3, "y = 2"),
    ]
    assert [span.text for span in hunk.lines[2].pieces if span.marked] == ["10"]
    assert hunk.lines[0].pieces[0].token == "k"
    assert [(left and left.old, right and right.new) for left, right in hunk.pairs] == [(1, 1), (2, 2), (3, 3)]


def test_diff_follows_a_rename(repo: GitRepository) -> None:
    content = repo.read_blob(repo.get_head("master"), "b.txt").content.replace(b"line 7\n", b"line seven\n")
    file = _diff(repo, Change(path="b.txt", move_to="docs/b.txt", content=content))["docs/b.txt"]
    assert (file.status, file.old_path) == ("renamed", "b.txt")
    assert file.similarity > 90
    assert (file.additions, file.deletions) == (1, 1)


def test_diff_of_binary_new_and_deleted_files(repo: GitRepository) -> None:
    files = _diff(
        repo, Change(path="c.bin", content=b"\0\2"), Change(path="b.txt", delete=True), Change(path="n", content=b"x")
    )
    assert files["c.bin"].is_binary
    assert files["c.bin"].hunks == ()
    assert (files["b.txt"].status, files["b.txt"].deletions) == ("deleted", 50)
    assert files["n"].status == "added"
    assert files["n"].hunks[0].lines[0].no_newline


def test_a_file_that_only_became_executable_shows_its_modes(repo: GitRepository) -> None:
    base = repo.get_head("master")
    raw = pygit2.Repository(str(repo.path))
    tree = raw[base].peel(pygit2.Tree)
    builder = raw.TreeBuilder(tree)
    builder.insert("a.py", tree["a.py"].id, FileMode.BLOB_EXECUTABLE)
    person = pygit2.Signature(ME.name, ME.email)
    head = raw.create_commit(None, person, person, "m", builder.write(), [base])
    (file,) = repo.diff(base, str(head))
    assert (file.path, file.hunks, file.modes) == ("a.py", (), ("100644", "100755"))
    page = render_to_string("components/code_diff.html", {"file": file, "id": "f"})
    assert "mode 100644 → 100755" in page
    assert "mode 100644" not in render_to_string(
        "components/code_diff.html", {"file": replace(file, new_mode=0o100644), "id": "f"}
    )


def test_diff_may_ignore_whitespace(repo: GitRepository) -> None:
    files = _diff(repo, Change(path="a.py", content=b"import os\nx  =  1\ny = 2\n"), ignore_whitespace=True)
    assert all(not file.hunks for file in files.values())


def test_diff_of_hostile_lines_keeps_every_character(repo: GitRepository) -> None:
    lines = ["\t<b>", "\x1b[31mred", "'''", "\u202e reversed", "\ufeff", "a" * 5000, "\r", "x\x0cy", "é" * 3]
    file = _diff(repo, Change(path="h.py", content="\n".join(lines).encode()))["h.py"]
    shown = ["".join(piece.text for piece in line.pieces) for line in file.hunks[0].lines]
    assert shown == [line.rstrip("\r") for line in lines]


UTF = "UTF-8, LF"


@pytest.mark.parametrize(
    ("old", "new", "texts", "forms", "shown"),
    [
        (b"one\n", b"one\r\n", ("one", "one"), (UTF, "UTF-8, CRLF"), ["␊", "␍␊"]),
        (b"one\r\n", b"one\n", ("one", "one"), ("UTF-8, CRLF", UTF), ["␍␊", "␊"]),
        (b"a\r\none\r\n", b"a\r\none\n", ("one", "one"), ("UTF-8, CRLF", "UTF-8, LF and CRLF"), ["␍␊", "␊"]),
        (b"one\n", b"one", ("one", "one"), ("", ""), ["⊘"]),
        (b"one\n", b"\xef\xbb\xbfone\n", ("one", "\ufeffone"), (UTF, "UTF-8 with a byte order mark, LF"), ["U+FEFF"]),
        (b"caf\xe9\n", b"caf\xe8\n", ("caf\xe9", "caf\xe8"), ("ISO 8859-1, LF",) * 2, []),
        (b"\x93caf\xe9\n", b"\x93cafe\n", ("\u201ccaf\xe9", "\u201ccafe"), ("Windows-1252, LF",) * 2, []),
        (b"caf\xe9\n", "caf\xe9\n".encode(), ("caf\xe9", "caf\xe9"), ("ISO 8859-1, LF", UTF), []),
        (
            "é é é \n".encode() + b"\xe9\n",
            "é é é \n".encode() + b"\xe8\n",
            ("\\xe9", "\\xe8"),
            ("UTF-8 with invalid bytes, LF",) * 2,
            [],
        ),
        ("caf\xe9\n".encode(), b"cafe\xcc\x81\n", ("caf\xe9", "cafe\u0301"), ("", ""), ["U+00E9", "U+0301"]),
        (b"a b\n", b"a\xc2\xa0b\n", ("a b", "a\xa0b"), ("", ""), ["␠", "U+00A0"]),
        (b"\tx\n", b"    x\n", ("\tx", "    x"), ("", ""), ["⇥", "␠␠␠␠"]),
        (b"paypal\n", b"p\xd0\xb0ypal\nnew\n", ("paypal", "p\u0430ypal"), ("", ""), ["U+0430"]),
        (b"a\n", b"a \n", ("a", "a "), ("", ""), ["␠"]),
        (b"a\n", b"a\xe2\x80\xae\n", ("a", "a\u202e"), ("", ""), ["U+202E"]),
        (b"a\n", b"a\r\r\n", ("a", "a\r"), (UTF, "UTF-8, CRLF"), ["␊", "␍", "␍␊"]),
    ],
)
def test_changes_that_look_like_none_are_drawn(
    repo: GitRepository, old: bytes, new: bytes, texts: tuple[str, str], forms: tuple[str, str], shown: list[str]
) -> None:
    _diff(repo, Change(path="t.txt", content=old))
    file = _diff(repo, Change(path="t.txt", content=new))["t.txt"]
    changed = [line for line in file.hunks[0].lines if line.kind != "context"]
    assert (changed[0].text, changed[1].text) == texts
    assert file.forms == forms
    page = render_to_string("components/code_diff.html", {"file": file, "id": "f"})
    assert re.findall(r'data-ch="([^"]*)"', page) == shown
    split = render_to_string("components/code_diff.html", {"file": file, "id": "f", "split": True})
    assert re.findall(r'data-ch="([^"]*)"', split) == shown
    assert [item.character for item in file.hidden] == [
        describe(mark) for mark in ("\ufeff", "\u202e") if mark in texts[1]
    ]


@pytest.mark.parametrize(
    ("encoding", "stored"),
    [
        ("ISO-8859-1", b"caf\xe9"),
        ("windows-1251", b"\xcf\xf0"),
        ("Shift_JIS", b"\x93\xfa"),
        ("", b"caf\xe9"),
        ("rot13", b"abc"),
        ("idna", b"caf\xe9"),
        ("no such", b"\xc3\xa9"),
    ],
)
def test_commits_are_read_in_their_encoding(repo: GitRepository, encoding: str, stored: bytes) -> None:
    base = pygit2.Repository(str(repo.path))[repo.get_head("master")]
    header = b"encoding %s\n" % encoding.encode() if encoding else b""
    who = stored + b" <a@b> 1762419600 +0000\n"
    raw = b"tree %s\nauthor %scommitter %s%s\n%s\n" % (str(base.tree_id).encode(), who, who, header, stored)
    sha = pygit2.Repository(str(repo.path)).odb.write(ObjectType.COMMIT, raw)
    expected = {
        "ISO-8859-1": "caf\xe9", "windows-1251": "\u041f\u0440", "Shift_JIS": "\u65e5", "": "caf\xe9", "rot13": "abc",
        "idna": "caf\xe9", "no such": "\xe9",
    }[encoding]  # fmt: skip
    commit = repo.get_commit(str(sha))
    assert (commit.subject, commit.author.name, commit.committer.name) == (expected,) * 3


def test_limit_lines_keeps_the_first(repo: GitRepository) -> None:
    file = _diff(repo, Change(path="b.txt", delete=True))["b.txt"]
    cut = limit_lines(file, limit=10)
    assert (cut.line_count, cut.truncated) == (10, True)
    assert limit_lines(file, limit=50) is file


def test_lines_that_are_not_shown_are_not_read(repo: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Line] = []
    lines_of = diff._lines
    monkeypatch.setattr(diff, "_lines", lambda *hunk: [read.append(line) or line for line in lines_of(*hunk)])
    long = b"".join(b"%d\n" % number for number in range(diff.MAX_FILE_LINES + 1))
    file = _diff(repo, Change(path="long.txt", content=long))["long.txt"]
    assert (file.additions, file.hunks, file.truncated) == (diff.MAX_FILE_LINES + 1, (), True)
    assert not read
    whole = long.replace(b"7\n", b"", 1)
    file = _diff(repo, Change(path="long.txt", content=b""), Change(path="whole.txt", content=whole))["whole.txt"]
    assert (file.line_count, file.truncated) == (diff.MAX_FILE_LINES, False)


def test_colour_lines_are_the_text(repo: GitRepository) -> None:
    text = 'def f(a):\n    """Doc\n    two"""\n    return "x"  # why\n\n\nlast'
    lines = colour_lines("f.py", text)
    assert "\n".join("".join(span.text for span in line) for line in lines) == text
    assert lines[1][-1].token == "s2"
    assert lines[2] == (Span('    two"""', "s2"),)


@pytest.mark.parametrize("name", ["x", "Makefile", "x.unknown", "..", "x.py.exe", ""])
def test_colour_lines_of_any_name(name: str) -> None:
    assert colour_lines(name, "a\nb") == [(Span("a", colour_lines(name, "a")[0][0].token),), colour_lines(name, "b")[0]]


def test_a_file_of_very_many_lines_is_not_compared_by_line(
    repo: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "MAX_DIFFED_LINES", 100)
    base = repo.get_head("master")
    files = _diff(repo, Change(path="b.txt", content=b"\n" * 200), Change(path="a.py", content=b"x\n" * 60))
    assert (files["b.txt"].status, files["b.txt"].truncated, files["b.txt"].hunks) == ("modified", True, ())
    assert (files["a.py"].additions, files["a.py"].truncated) == (60, False)
    changes = repo.list_changes(base, repo.get_head("master"))
    assert (sorted(file.path for file in changes.files), changes.additions) == (["a.py", "b.txt"], 60)


def test_a_comparison_of_more_than_is_read_is_refused(repo: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MAX_DIFF_BYTES", 1_000)
    with pytest.raises(TooBig, match="more than 1000"):
        _diff(repo, Change(path="long", content=b"x" * 2_000))


def test_a_merge_that_takes_too_much_memory_is_a_conflict_that_says_so(
    repo: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"".join(b"%d\n" % number for number in range(300_000))
    base = repo.commit_changes(
        branch="master", message="m", changes=[Change(path="long", content=content)], author=ME
    ).sha
    repo.create_branch("side", base)
    ours = repo.commit_changes(
        branch="master", message="m", changes=[Change(path="long", content=b"first\n" + content)], author=ME
    ).sha
    theirs = repo.commit_changes(
        branch="side", message="m", changes=[Change(path="long", content=content + b"last\n")], author=ME
    ).sha
    assert merges.preview_merge(repo, source=theirs, target=ours).clean
    monkeypatch.setattr(program, "GIT_MEMORY_BYTES", 16 * 1024**2)
    state = merges.preview_merge(repo, source=theirs, target=ours)
    assert (state.clean, state.conflicts) == (False, ("(both change files that are too large to be merged)",))
