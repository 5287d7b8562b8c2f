"""Files that conflict are shown as Git joins them, and become what somebody chooses; nothing else of the merge changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pygit2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pygit2.enums import FileMode

from webapp.git import merges
from webapp.git.conflicts import (
    Clash,
    ConflictedFile,
    ConflictMarks,
    Resolution,
    Segment,
    cut_ends,
    read_marked,
    settle,
)
from webapp.git.errors import BadChange, MergeConflict
from webapp.git.program import GIT_ENVIRONMENT
from webapp.git.repository import GitRepository
from webapp.git.values import Change, Person

pytestmark = pytest.mark.timeout(60)
ME = Person(name="Ines", email="ines@example.org")
BASE = {
    "text.py": b"a = 1\nb = 1\nc = 1\nd = 1\ne = 1\nf = 1\n",
    "gone.py": b"".join(b"line %d\n" % number for number in range(20)),
    "cut.py": b"one\ntwo",
    "marks.md": b"Title\n=======\n\nA\n",
    "ends.txt": b"1\r\n2\r\n",
    "bytes.bin": b"\0base",
}
OURS: dict[str, bytes | None] = {
    "text.py": b"a = 2\nb = 1\nc = 1\nd = 1\ne = 1\nf = 20\n",
    "gone.py": None,
    "cut.py": b"one\nours",
    "marks.md": b"Title\n=======\n\nOurs\n<<<<<<< x\n",
    "ends.txt": b"1\r\nours\r\n",
    "bytes.bin": b"\0ours",
    "clean-ours.py": b"ours\n",
}
THEIRS: dict[str, bytes | None] = {
    "text.py": b"a = 1\nb = 1\nc = 3\nd = 1\ne = 1\nf = 30\n",
    "gone.py": BASE["gone.py"] + b"more\n",
    "cut.py": b"one\ntheirs",
    "marks.md": b"Title\n=======\n\nTheirs\n",
    "ends.txt": b"1\r\ntheirs\r\n",
    "bytes.bin": b"\0theirs",
    "clean-theirs.py": b"theirs\n",
}


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    git = GitRepository.init(tmp_path_factory.mktemp("git") / "r.git", branch="master")
    git.create_root_commit(branch="master", message="m", files=BASE, author=ME)
    git.create_branch("fix", git.get_head("master"))
    for branch, files in (("fix", OURS), ("master", THEIRS)):
        changes = [
            Change(path=path, delete=True) if content is None else Change(path=path, content=content)
            for path, content in files.items()
        ]
        git.commit_changes(branch=branch, message="m", changes=changes, author=ME)
    return git


@pytest.fixture(scope="module")
def files(git: GitRepository) -> dict[str, ConflictedFile]:
    conflicts = merges.read_conflicts(git, source=git.get_head("master"), target=git.get_head("fix"))
    return {file.path: file for file in conflicts}


def merge(git: GitRepository, *resolutions: Resolution) -> dict[str, bytes]:
    source, target = git.get_head("master"), git.get_head("fix")
    sha = merges.prepare_merge(
        git, source=source, target=target, method="merge", message="m", author=ME, resolutions=resolutions
    )
    assert git.get_commit(sha).parents == (target, source)
    return {path: git.read_blob(sha, path).content for path in git.list_files(sha)}


def test_each_kind_of_conflict_says_what_each_side_has(files: dict[str, ConflictedFile]) -> None:
    assert {path: file.clashes for path, file in files.items()} == {
        "bytes.bin": 0, "cut.py": 1, "ends.txt": 1, "gone.py": 0, "marks.md": 1, "text.py": 1,
    }  # fmt: skip
    assert files["gone.py"].ours is None
    assert files["gone.py"].theirs is not None
    assert files["cut.py"].segments == ("one\n", Clash("ours", "theirs"))
    assert files["ends.txt"].segments == ("1\r\n", Clash("ours\r\n", "theirs\r\n"))
    assert files["marks.md"].segments == ("Title\n=======\n\n", Clash("Ours\n<<<<<<< x\n", "Theirs\n"))
    assert files["text.py"].segments[-1] == Clash("f = 20\n", "f = 30\n")


@pytest.mark.parametrize("take", ["ours", "theirs"])
def test_a_side_is_taken_of_what_clashes_and_the_rest_is_merged(
    git: GitRepository, files: dict[str, ConflictedFile], take: str
) -> None:
    merged = merge(git, *(Resolution(path=path, take=take) for path in files))  # type: ignore[arg-type]
    side, word = (OURS, b"ours") if take == "ours" else (THEIRS, b"theirs")
    assert merged["text.py"] == b"a = 2\nb = 1\nc = 3\nd = 1\ne = 1\nf = %d\n" % (20 if take == "ours" else 30)
    assert merged["cut.py"] == b"one\n" + word
    assert {path: merged.get(path) for path in ("marks.md", "ends.txt", "bytes.bin", "gone.py")} == {
        path: side[path] for path in ("marks.md", "ends.txt", "bytes.bin", "gone.py")
    }
    assert merged["clean-ours.py"] + merged["clean-theirs.py"] == b"ours\ntheirs\n"


def test_both_and_what_is_written_by_hand(git: GitRepository, files: dict[str, ConflictedFile]) -> None:
    by_hand = {"gone.py": b"back\n", "text.py": b"mine\n", "bytes.bin": b"\0mine"}
    resolutions = [Resolution(path=path, content=content) for path, content in by_hand.items()]
    both = [Resolution(path=path, take="both") for path in files if path not in by_hand]
    merged = merge(git, *resolutions, *both)
    assert {path: merged[path] for path in by_hand} == by_hand
    assert merged["cut.py"] == b"one\nours\ntheirs"
    assert merged["ends.txt"] == b"1\r\nours\r\ntheirs\r\n"


def test_what_is_open_is_named_and_what_cannot_be_is_refused(
    git: GitRepository, files: dict[str, ConflictedFile]
) -> None:
    with pytest.raises(MergeConflict) as refusal:
        merge(git, *(Resolution(path=path, take="ours") for path in files if path != "cut.py"))
    assert refusal.value.paths == ("cut.py",)
    rest = [Resolution(path=path, take="ours") for path in files if path not in {"text.py", "bytes.bin"}]
    good = {path: Resolution(path=path, take="ours") for path in ("text.py", "bytes.bin")}
    for path, bad, words in (
        ("text.py", Resolution(path="text.py", content=files["text.py"].marked.encode()), "line 6 still is a mark"),
        ("text.py", Resolution(path="text.py"), "say what becomes of it"),
        ("bytes.bin", Resolution(path="bytes.bin", take="both"), "both cannot be taken"),
        ("", Resolution(path="clean-ours.py", take="ours"), "does not conflict"),
    ):
        with pytest.raises(BadChange, match=words):
            merge(git, *rest, *(item for name, item in good.items() if name != path), bad)


@pytest.mark.slow
def test_taking_a_side_is_what_git_itself_makes_of_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = st.lists(st.sampled_from("abcd"), max_size=8).map(lambda words: "".join(f"{word}\n" for word in words))

    @settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
    @given(base=lines, ours=lines, theirs=lines)
    def check(base: str, ours: str, theirs: str) -> None:
        git = GitRepository.init(tmp_path_factory.mktemp("git") / "r.git", branch="master")
        git.create_root_commit(branch="master", message="m", files={"f": base.encode(), "x": b""}, author=ME)
        git.create_branch("fix", git.get_head("master"))
        for branch, text in (("fix", ours), ("master", theirs)):
            changes = [Change(path="f", content=text.encode()), Change(path=branch, content=b"")]
            git.commit_changes(branch=branch, message="m", changes=changes, author=ME)
        source, target = git.get_head("master"), git.get_head("fix")
        paths = merges.preview_merge(git, source=source, target=target).conflicts
        clone = tmp_path_factory.mktemp("clone")
        run_git(clone, "clone", "-q", str(git.path), ".")
        for take in ("ours", "theirs"):
            resolutions = [Resolution(path=path, take=take) for path in paths]  # type: ignore[arg-type]
            sha = merges.prepare_merge(
                git, source=source, target=target, method="merge", message="m", author=ME, resolutions=resolutions
            )
            run_git(clone, "checkout", "-q", "--detach", target)
            run_git(clone, "merge", "-q", "--no-edit", "-X", take, source)
            assert (clone / "f").read_bytes() == git.read_blob(sha, "f").content

    check()


def run_git(folder: Path, *arguments: str) -> None:
    environment = {**GIT_ENVIRONMENT, "GIT_ALLOW_PROTOCOL": "file"}
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, env=environment, check=True, capture_output=True)


_text = st.lists(
    st.sampled_from(["<<<<<<< a\n", "=======\n", ">>>>>>> b\n", "\n", "x\n", "\f y\n", "z\r\n"]), max_size=4
)
_segments = st.lists(
    st.one_of(
        _text.filter(bool).map("".join), st.builds(Clash, ours=_text.map("".join), theirs=_text.map("".join))
    ),
    max_size=6,
)  # fmt: skip


@given(segments=_segments)
def test_marks_are_told_from_what_a_text_says_itself(segments: list[Segment]) -> None:
    joined: list[Segment] = []
    for segment in segments:
        if joined and isinstance(segment, str) and isinstance(joined[-1], str):
            joined[-1] += segment
        else:
            joined.append(segment)
    sides = [settle(a_file(joined), Resolution(path="f", take=take)) for take in ("ours", "theirs")] if joined else []
    marks = ConflictMarks.fit([side for side in sides if isinstance(side, bytes)], ours="fix", theirs="master")
    marked = marks.write(joined)
    assert read_marked(marked, marks) == tuple(joined)
    assert (marks.find_left(marked) is not None) == any(isinstance(segment, Clash) for segment in joined)


def a_file(segments: list[Segment]) -> ConflictedFile:
    marks = ConflictMarks(7, "a", "b")
    return ConflictedFile(path="f", ours=None, theirs=None, segments=tuple(segments), marks=marks)


def test_a_line_without_an_end_stays_without_one() -> None:
    segments = ("a\n", Clash("b\r\n", "c\n"))
    assert cut_ends(segments, ours=b"a\nb", theirs=b"a\nc\n") == ("a\n", Clash("b", "c\n"))
    assert cut_ends(("a\n",), ours=b"a", theirs=b"a") == ("a\n",)


F, L, M = FileMode.BLOB, FileMode.LINK, FileMode.COMMIT
LONG = b"".join(b"line %d\n" % number for number in range(30))
Version = dict[str, tuple[bytes, FileMode]]


def write_version(git: GitRepository, version: Version, *parents: str) -> str:
    """Write a commit of files of any mode; the content of a submodule is the name of its commit."""
    tree = git.objects.write_tree(
        {
            path: (pygit2.Oid(hex=content.decode()) if mode == M else git.objects.create_blob(content), mode)
            for path, (content, mode) in {"z": (b"z", F), **version}.items()
        }
    )
    return git.objects.write_commit(tree, parents, "m", ME, ME)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "kinds"),
    [
        ({}, {"k": (b"f", F)}, {"k/a": (b"a", F), "k/b": (b"b", F)}, ("file", "folder")),
        ({}, {"k/a": (b"a", F)}, {"k": (b"f", F)}, ("folder", "file")),
        ({"k": (b"1", F)}, {"k": (b"2", F)}, {"k/a/b": (b"a", F)}, ("file", "folder")),
        ({"k/a": (b"1", F)}, {"k": (b"2", F)}, {"k/a": (b"2", F)}, ("file", "folder")),
        ({}, {"k": (b"f", L)}, {"k/a": (b"a", F)}, ("symlink", "folder")),
        ({}, {"k": (b"1" * 40, M)}, {"k/a": (b"a", F)}, ("submodule", "folder")),
        ({}, {"k": (b"f", F)}, {"k": (b"z", L)}, ("file", "symlink")),
        ({"k": (b"1", F)}, {"k": (b"2", F)}, {"k": (b"z", L)}, ("file", "symlink")),
        ({"k": (b"1", F)}, {"k": (b"z", L)}, {"k": (b"2", F)}, ("symlink", "file")),
        ({}, {"k": (b"z", L)}, {"k": (b"1" * 40, M)}, ("symlink", "submodule")),
        ({}, {"k": (b"f", F)}, {"k": (b"1" * 40, M)}, ("file", "submodule")),
        (
            {"old": (LONG, F)},
            {"k": (LONG + b"x\n", F)},
            {"old": (LONG + b"y\n", F), "k/a": (b"a", F)},
            ("file", "folder"),
        ),
        ({}, {r"d\xe9/k": (b"f", F)}, {r"d\xe9/k/a": (b"a", F)}, ("file", "folder")),
    ],
)
def test_conflicts_have_no_names_that_git_invented(
    tmp_path: Path, base: Version, ours: Version, theirs: Version, kinds: tuple[str, str]
) -> None:
    git = GitRepository.init(tmp_path / "r.git", branch="master")
    root = write_version(git, base)
    target, source = write_version(git, ours, root), write_version(git, theirs, root)
    path, *inside = sorted(merges.preview_merge(git, source=source, target=target).conflicts)
    assert path in {"k", r"d\xe9/k"}
    assert set(inside) <= {"k/a"}
    [file] = [file for file in merges.read_conflicts(git, source=source, target=target) if file.path == path]
    assert file.ours is not None
    assert file.theirs is not None
    assert (file.path, file.segments, (file.ours.kind, file.theirs.kind)) == (path, (), kinds)
    takes = {"ours": ours, "theirs": theirs, "content": {path: (b"new", F)}}
    for take, version in takes.items():
        resolutions = [Resolution(path=path, take="ours" if take == "content" else take) for path in inside]  # type: ignore[arg-type]
        resolutions.append(
            Resolution(path=path, content=b"new") if take == "content" else Resolution(path=path, take=take)  # type: ignore[arg-type]
        )
        sha = merges.prepare_merge(
            git, source=source, target=target, method="merge", message="m", author=ME, resolutions=resolutions
        )
        expected = {name: file for name, file in version.items() if name.startswith(path)}
        assert git.get_commit(sha).tree == git.get_commit(write_version(git, expected)).tree


def test_a_file_in_the_place_of_a_folder_that_stays_is_refused(tmp_path: Path) -> None:
    git = GitRepository.init(tmp_path / "r.git", branch="master")
    root = write_version(git, {"k/a": (b"1", F)})
    target, source = write_version(git, {"k": (b"2", F)}, root), write_version(git, {"k/a": (b"2", F)}, root)
    resolutions = [Resolution(path="k", take="ours"), Resolution(path="k/a", take="theirs")]
    with pytest.raises(BadChange, match="k is a file, not a folder"):
        merges.prepare_merge(
            git, source=source, target=target, method="merge", message="m", author=ME, resolutions=resolutions
        )


def test_names_of_files_like_those_that_git_invents_stay(tmp_path: Path) -> None:
    git = GitRepository.init(tmp_path / "r.git", branch="master")
    root = write_version(git, {})
    source = write_version(git, {"k/a": (b"a", F)}, root)
    own = {f"k~{source}": (b"own", F)}
    target = write_version(git, {"k": (b"f", F), **own}, root)
    assert merges.preview_merge(git, source=target, target=source).conflicts == ("k",)
    sha = merges.prepare_merge(
        git, source=target, target=source, method="merge", message="m", author=ME, resolutions=[Resolution(path="k", take="theirs")]
    )  # fmt: skip
    assert set(git.list_files(sha)) == {"k", f"k~{source}", "z"}


def test_files_in_the_way_of_others_are_named_and_resolved(tmp_path: Path) -> None:
    """Git says of these that they conflict, and lists no version of them."""
    git = GitRepository.init(tmp_path / "r.git", branch="master")
    text = b"".join(b"line %d\n" % number for number in range(12))
    git.create_root_commit(branch="master", message="m", files={"d/c.py": text}, author=ME)
    git.create_branch("fix", git.get_head("master"))
    added = [Change(path="n.py", content=b"new\n" + text)]
    gone, deeper = Change(path="d/c.py", delete=True), Change(path="d/n.py", content=b"new\n" + text)
    git.commit_changes(branch="fix", message="m", changes=[*added, gone], author=ME)
    git.commit_changes(branch="master", message="m", changes=[*added, deeper], author=ME)
    source, target = git.get_head("master"), git.get_head("fix")
    assert merges.preview_merge(git, source=source, target=target).conflicts == ("n.py", "d/n.py")
    files = merges.read_conflicts(git, source=source, target=target)
    assert [(file.path, file.is_ours, file.is_theirs) for file in files] == [
        ("n.py", True, True),
        ("d/n.py", False, True),
    ]
    assert merge(git, *(Resolution(path=file.path, take="ours") for file in files)) == {"n.py": b"new\n" + text}
