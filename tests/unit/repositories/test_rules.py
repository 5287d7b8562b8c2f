"""Rules of repositories."""

from __future__ import annotations

import pytest

from webapp.accounts.rules.sight import SensitiveRule
from webapp.core.errors import InvalidInput
from webapp.repositories.rules.ancestry import Candidate, choose_parent, fallback_chain
from webapp.repositories.rules.names import check_new_branch_name, check_repository_name, explain_clash
from webapp.repositories.rules.pipeline import read_folders, read_sensitive


def _candidate(name: str, ahead: int, behind: int) -> Candidate:
    return Candidate(name=name, ahead=ahead, behind=behind)


def test_choose_parent_takes_the_fewest_commits_then_the_default() -> None:
    nearest = [_candidate("master", 4, 0), _candidate("feature1", 1, 0)]
    assert choose_parent(nearest, default="master") == "feature1"
    same = [_candidate("a", 0, 0), _candidate("master", 0, 0)]
    assert choose_parent(same, default="master") == "master"
    moved = [_candidate("a", 0, 3), _candidate("master", 0, 0)]
    assert choose_parent(moved, default="master") == "master"
    assert choose_parent([], default="master") == "master"


def test_fallback_chain_ends_with_the_default_even_in_a_ring() -> None:
    parents = {"f2": "f1", "f1": "master", "a": "b", "b": "a", "lone": ""}
    assert fallback_chain("f2", parents, default="master") == ("f2", "f1", "master")
    assert fallback_chain("a", parents, default="master") == ("a", "b", "master")
    assert fallback_chain("lone", parents, default="master") == ("lone", "master")
    assert fallback_chain("master", parents, default="master") == ("master",)


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ('[pipeline]\nfolders = ["/nyc", "weather/", "/nyc"]', ("nyc", "weather")),
        ('[pipeline]\nfolders = ["/a/b", "..", "", 1, "/x y"]', ()),
        ('[pipeline]\nfolders = "nyc"', ()),
        ("pipeline = 1", ()),
        ("not toml [", ()),
        ("", ()),
    ],
)
def test_read_folders(text: str, folders: tuple[str, ...]) -> None:
    assert read_folders(text.encode()) == folders


def test_read_folders_survives_bytes_and_depth() -> None:
    assert read_folders(b"\xff\xfe") == ()
    assert read_folders(b"x = " + b"[" * 100_000) == ()
    assert read_folders(b"a" * 300_000) == ()


@pytest.mark.parametrize("name", ["feature/x", "a", "v1.2", "x@y", "a=b", "UPPER", "1", "release-1.0+x"])
def test_branch_names_that_are_fine(name: str) -> None:
    assert check_new_branch_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["HEAD", "head", "FETCH_HEAD", "stash", "refs/x", "heads/x", "tags/x", "remotes/x", "abcdef1", "f" * 40, "main"],
)
def test_branch_names_that_mean_something_else(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_new_branch_name(name)


@pytest.mark.parametrize("name", ["a\n", "new", "NEW", "a.b", "ä", "a/b"])
def test_repository_names_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_repository_name(name)


def test_read_sensitive_columns_and_who_sees_them() -> None:
    text = """
[datasets."/a/b"]
sensitive = ["email", "name"]
sensitive_readers = ["hr"]
sensitive_repositories = ["beta"]
[datasets."/a/c"]
key = ["id"]
"""
    assert read_sensitive(text.encode()) == {
        "/a/b": SensitiveRule(("email", "name"), ("hr",), ("beta",)),
        "/a/c": SensitiveRule(),
    }
    assert read_sensitive(b"") == {}


@pytest.mark.parametrize(
    "text",
    [
        "[broken",
        "datasets = 1",
        "[datasets]\n'/a/b' = 1",
        "[datasets.'/a/b']\nsensitive = 'email'",
        "[datasets.'/a/b']\nsensitive = ['email']\nsensitive_readers = [1]",
        "[datasets.'/a/b']\nsensitive = ['email']\nsensitive_repositories = 'beta'",
    ],
)
def test_a_file_that_cannot_be_read_says_nothing_of_sensitive_columns(text: str) -> None:
    assert read_sensitive(text.encode()) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("feature/x", "exists already"),
        ("FEATURE/X", "unique without case"),
        ("feature", "folder of the other"),
        ("Feature", "unique without case"),
        ("feature/x/y", "folder of the other"),
        ("feature/X/y", "unique without case"),
        ("Feature/z", "unique without case"),
        ("v1", "a tag 'V1'"),
        ("feature/z", ""),
        ("feature/xy", ""),
        ("features", ""),
        ("v1/x", ""),
    ],
)
def test_branches_that_clash_in_a_clone_are_refused(name: str, words: str) -> None:
    clash = explain_clash(name, branches=["master", "feature/x"], tags=["V1", "release/2"])
    assert words in clash
    assert bool(words) == bool(clash)
