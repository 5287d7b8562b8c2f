"""What a merge on the server lands is what Git itself makes of it in a clone."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webapp.git import merges
from webapp.git.errors import MergeConflict
from webapp.git.repository import GitRepository
from webapp.git.values import Change, Person

pytestmark = pytest.mark.integration
ME = Person(name="Ines", email="ines@example.org")
BASE = "".join(f"line {number}\n" for number in range(12))
FILES = ["a.py", "b.py", "d/c.py"]

_edits = st.one_of(
    st.tuples(st.just("edit"), st.sampled_from(FILES), st.integers(0, 11), st.sampled_from(["x", "y"])),
    st.tuples(st.just("add"), st.sampled_from(["n.py", "d/n.py", "e/n.py"]), st.just(0), st.sampled_from(["x", "y"])),
    st.tuples(st.just("delete"), st.sampled_from(FILES), st.just(0), st.just("")),
    st.tuples(st.just("move"), st.sampled_from(FILES), st.just(0), st.sampled_from(["m.py", "d/m.py", "e/m.py"])),
)
_pull = st.lists(_edits, min_size=1, max_size=3)
_history = st.lists(_pull, min_size=2, max_size=5)


def _change(git: GitRepository, branch: str, edit: tuple[str, str, int, str]) -> Change | None:
    """Turn an edit into a change that this branch can take."""
    kind, path, number, word = edit
    head = git.get_head(branch)
    present = git.find_kind(head, path) == "file"
    if kind == "add":
        return Change(path=path, content=f"new {word}\n{BASE}".encode())
    if not present:
        return None
    if kind == "delete":
        return Change(path=path, delete=True)
    if kind == "move":
        return None if git.find_kind(head, word) else Change(path=path, move_to=word)
    lines = git.read_blob(head, path).text.splitlines(keepends=True)
    lines[number % len(lines)] = f"changed to {word}\n"
    return Change(path=path, content="".join(lines).encode())


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )


def _independent_merge(bare: Path, folder: Path, ours: str, theirs: str) -> str | None:
    """Merge in a clone with the ordinary command; None where it conflicts, even if it does not say so."""
    _git(folder, "init", "-q", ".")
    fetched = _git(folder, "fetch", "-q", str(bare), "+refs/heads/*:refs/heads/from/*")
    assert fetched.returncode == 0, fetched.stderr
    assert _git(folder, "checkout", "-q", "--detach", ours).returncode == 0
    if _git(folder, "merge", "-q", "--no-edit", "--no-ff", theirs).returncode:
        return None
    if _git(folder, "grep", "-q", "^<<<<<<<", "HEAD").returncode == 0:
        return None
    return _git(folder, "rev-parse", "HEAD^{tree}").stdout.strip()


@pytest.mark.parametrize("examples", [15, pytest.param(1_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
def test_landed_trees_equal_an_independent_merge(examples: int) -> None:
    @settings(
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(history=_history, squash=st.booleans())
    def law(history: list[list[tuple[str, str, int, str]]], squash: bool) -> None:
        check_landed_trees(history, squash=squash)

    law()


def test_marks_of_a_conflict_never_land() -> None:
    """Git 2.39 calls this merge clean, and leaves the marks of a conflict in n.py."""
    check_landed_trees(
        [[("delete", "a.py", 0, ""), ("add", "n.py", 0, "y")], [("add", "n.py", 0, "y"), ("edit", "a.py", 0, "x")]],
        squash=False,
    )


def check_landed_trees(history: list[list[tuple[str, str, int, str]]], *, squash: bool) -> None:
    """Merge each branch of a history in its turn, and compare what landed with a merge in a clone."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        git = GitRepository.init(home / "a.git", branch="master")
        first = git.create_root_commit(
            branch="master", message="First", files=dict.fromkeys(FILES, BASE.encode()), author=ME
        ).sha
        for number, edits in enumerate(history):
            git.create_branch(f"pull{number}", first)
            for edit in edits:
                change = _change(git, f"pull{number}", edit)
                if change is not None and not _is_same(git, f"pull{number}", change):
                    git.commit_changes(branch=f"pull{number}", message="m", changes=[change], author=ME)
        for number in range(len(history)):
            ours, theirs = git.get_head("master"), git.get_head(f"pull{number}")
            if git.is_ancestor(theirs, ours):
                continue
            clone = home / f"clone{number}"
            clone.mkdir()
            expected = _independent_merge(git.path, clone, ours, theirs)
            state = merges.preview_merge(git, source=theirs, target=ours)
            assert state.clean == (expected is not None)
            if expected is None:
                with pytest.raises(MergeConflict):
                    merges.prepare_merge(git, source=theirs, target=ours, method="merge", message="m", author=ME)
                assert git.get_head("master") == ours
                continue
            merged = merges.prepare_merge(
                git, source=theirs, target=ours, method="squash" if squash else "merge", message="m", author=ME
            )
            git.move_branch("master", expected=ours, sha=merged)
            assert git.get_commit(git.get_head("master")).tree == expected
            assert git.is_ancestor(ours, git.get_head("master"))
        assert _git(git.path, "fsck", "--strict").returncode == 0


def _is_same(git: GitRepository, branch: str, change: Change) -> bool:
    head = git.get_head(branch)
    if change.content is None or git.find_kind(head, change.path) != "file":
        return False
    return git.read_blob(head, change.path).content == change.content
