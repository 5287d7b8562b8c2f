"""A bare repository: compare-and-swap, merges, hostile trees."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pygit2
import pytest

from webapp.git import merges
from webapp.git.errors import BranchExists, GitError, HeadMoved, MergeConflict, NothingChanged, UnknownPath, UnknownRef
from webapp.git.repository import GitRepository
from webapp.git.values import Change, Person

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.git.values import MergeMethod

ME = Person(name="Ines", email="ines@example.org")


@pytest.fixture
def repo(tmp_path: Path) -> GitRepository:
    """Return a repository with one commit."""
    git = GitRepository.init(tmp_path / "a.git", branch="master")
    git.create_root_commit(
        branch="master", message="First", files={"a.txt": b"1\n2\n3\n4\n5\n", "d/b.txt": b"x\n"}, author=ME
    )
    return git


def _commit(git: GitRepository, path: str, text: str, branch: str = "master", **options: str) -> str:
    change = Change(path=path, content=text.encode())
    return git.commit_changes(branch=branch, message="m", changes=[change], author=ME, **options).sha  # type: ignore[arg-type]


def test_concurrent_commits_are_all_in_the_history_or_told(repo: GitRepository) -> None:
    done: list[str] = []
    lost: list[str] = []

    def work(name: str) -> None:
        git = GitRepository(repo.path)
        for number in range(15):
            head = git.get_head("master")
            try:
                done.append(_commit(git, f"{name}{number}.txt", "x", expected_head=head))
            except HeadMoved as error:
                lost.append(error.head)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = [commit.sha for commit in repo.iterate_commits(repo.get_head("master"))]
    assert len(done) + len(lost) == 60
    assert sorted(history[:-1]) == sorted(done)


def test_concurrent_commits_without_expectation_all_land(repo: GitRepository) -> None:
    def work(name: str) -> None:
        for number in range(8):
            _commit(GitRepository(repo.path), f"{name}{number}.txt", "x")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(repo.list_files(repo.get_head("master"))) == 2 + 24
    assert repo.count_commits(repo.get_head("master")) == 25


def test_branches_by_compare_and_swap(repo: GitRepository) -> None:
    first = repo.get_head("master")
    repo.create_branch("f", first)
    with pytest.raises(BranchExists):
        repo.create_branch("f", first)
    with pytest.raises(BranchExists):
        repo.create_branch("f/x", first)
    second = _commit(repo, "n", "1", branch="f")
    with pytest.raises(HeadMoved):
        repo.delete_branch("f", expected=first)
    with pytest.raises(HeadMoved):
        repo.move_branch("f", expected=first, sha=first)
    repo.delete_branch("f", expected=second)
    with pytest.raises(UnknownRef):
        repo.delete_branch("f", expected=second)
    with pytest.raises(UnknownRef):
        repo.move_branch("f", expected=second, sha=second)
    assert repo.has_commit(second)


@pytest.mark.parametrize(
    "ref", ["HEAD", "master~0", "master^", "@{-1}", ":/First", "master:a.txt", "refs/heads/none", "", "--all", "a" * 40]
)
def test_resolve_knows_branches_and_commits_only(repo: GitRepository, ref: str) -> None:
    with pytest.raises(UnknownRef):
        repo.resolve(ref)


def test_resolve_takes_short_names_of_commits_never_of_trees(repo: GitRepository) -> None:
    head = repo.get_head("master")
    assert repo.resolve(head[:7]) == head
    with pytest.raises(UnknownRef):
        repo.resolve(repo.get_commit(head).tree)
    repo.create_branch(head[:8], head)
    second = _commit(repo, "n", "1")
    assert repo.resolve(second) == second


def test_a_tag_named_like_a_branch_changes_nothing(repo: GitRepository) -> None:
    head = repo.get_head("master")
    newer = _commit(repo, "n", "1")
    pygit2.Repository(str(repo.path)).references.create("refs/tags/master", head)
    assert repo.resolve("master") == newer
    assert repo.list_heads() == {"master": newer}


def test_merge_names_conflicts_and_checks_the_head(repo: GitRepository) -> None:
    base = repo.get_head("master")
    repo.create_branch("f", base)
    theirs = _commit(repo, "a.txt", "1\n2\nthree\n4\n5\n", branch="f")
    ours = _commit(repo, "a.txt", "1\n2\nTHREE\n4\n5\n")
    assert merges.preview_merge(repo, source=theirs, target=ours).conflicts == ("a.txt",)
    with pytest.raises(MergeConflict):
        merges.prepare_merge(repo, source=theirs, target=ours, method="merge", message="m", author=ME)
    merged = merges.prepare_merge(repo, source=theirs, target=base, method="merge", message="m", author=ME)
    with pytest.raises(HeadMoved):
        repo.move_branch("master", expected=base, sha=merged)
    assert repo.get_head("master") == ours


def test_merge_and_squash_have_the_same_tree(repo: GitRepository) -> None:
    base = repo.get_head("master")
    repo.create_branch("f", base)
    source = _commit(repo, "new.txt", "1", branch="f")
    merged, squashed = (
        merges.prepare_merge(repo, source=source, target=base, method=method, message="m", author=ME)
        for method in ("merge", "squash")
    )
    assert repo.get_commit(merged).parents == (base, source)
    assert repo.get_commit(squashed).parents == (base,)
    assert repo.get_commit(squashed).tree == repo.get_commit(merged).tree


@pytest.mark.parametrize("method", ["merge", "squash"])
def test_revert_takes_back_what_a_merge_brought_and_leaves_what_came_since(
    repo: GitRepository, method: MergeMethod
) -> None:
    base = repo.get_head("master")
    repo.create_branch("f", base)
    source = _commit(repo, "new.txt", "1", branch="f")
    merged = merges.prepare_merge(repo, source=source, target=base, method=method, message="m", author=ME)
    repo.move_branch("master", expected=base, sha=merged)
    assert repo.get_commit(merges.prepare_revert(repo, sha=merged, target=merged, message="m", author=ME)).tree == (
        repo.get_commit(base).tree
    )
    since = _commit(repo, "since.txt", "since")
    reverted = repo.get_commit(merges.prepare_revert(repo, sha=merged, target=since, message="m", author=ME))
    assert reverted.parents == (since,)
    assert repo.list_files(reverted.sha) == sorted([*repo.list_files(base), "since.txt"])
    with pytest.raises(NothingChanged):
        merges.prepare_revert(repo, sha=merged, target=reverted.sha, message="m", author=ME)
    repo.move_branch("master", expected=since, sha=reverted.sha)
    again = merges.prepare_revert(repo, sha=reverted.sha, target=reverted.sha, message="m", author=ME)
    assert repo.get_commit(again).tree == repo.get_commit(since).tree
    assert repo.list_files(merges.prepare_revert(repo, sha=merged, target=again, message="m", author=ME)) == (
        repo.list_files(reverted.sha)
    ), "taken back anew, in the same second and words"


def test_revert_names_files_that_changed_since(repo: GitRepository) -> None:
    head = _commit(repo, "a.txt", "1\n2\nthree\n4\n5\n")
    since = _commit(repo, "a.txt", "1\n2\nTHREE\n4\n5\n")
    with pytest.raises(MergeConflict) as conflict:
        merges.prepare_revert(repo, sha=head, target=since, message="m", author=ME)
    assert conflict.value.paths == ("a.txt",)


def test_unrelated_histories_conflict_and_still_compare(repo: GitRepository) -> None:
    raw = pygit2.Repository(str(repo.path))
    signature = pygit2.Signature("a", "b")
    tree = raw.TreeBuilder()
    tree.insert("alien.txt", raw.create_blob(b"x"), pygit2.enums.FileMode.BLOB)
    alien = str(raw.create_commit("refs/heads/alien", signature, signature, "m", tree.write(), []))
    head = repo.get_head("master")
    assert not merges.preview_merge(repo, source=alien, target=head).clean
    assert repo.merge_base(alien, head) is None
    assert [file.path for file in repo.diff(None, alien)] == ["alien.txt"]
    with pytest.raises(MergeConflict, match="no commit in common"):
        merges.prepare_merge(repo, source=alien, target=head, method="merge", message="m", author=ME)


def test_hostile_trees_are_never_followed(repo: GitRepository, tmp_path: Path) -> None:
    raw = pygit2.Repository(str(repo.path))
    secret = tmp_path / "secret"
    secret.write_text("canary")
    link = raw.create_blob(str(secret).encode())
    up = raw.create_blob(b"..")
    builder = raw.TreeBuilder()
    builder.insert("link", link, pygit2.enums.FileMode.LINK)
    builder.insert("up", up, pygit2.enums.FileMode.LINK)
    builder.insert("module", pygit2.Oid(hex="1" * 40), pygit2.enums.FileMode.COMMIT)
    builder.insert("ok.py", raw.create_blob(b"x = 1\n"), pygit2.enums.FileMode.BLOB_EXECUTABLE)
    signature = pygit2.Signature("a", "b")
    sha = str(raw.create_commit(None, signature, signature, "m", builder.write(), []))
    repo.create_branch("evil", sha)
    out = tmp_path / "out"
    assert sorted(repo.export(sha, out)) == ["link", "module", "up"]
    assert [path.name for path in out.iterdir()] == ["ok.py"]
    assert os.access(out / "ok.py", os.X_OK)
    assert repo.read_blob(sha, "link").content == str(secret).encode()
    assert repo.read_blob(sha, "link").kind == "symlink"
    with pytest.raises(UnknownPath):
        repo.read_blob(sha, "up/secret")
    with pytest.raises(GitError):
        repo.commit_changes(branch="evil", message="m", changes=[Change(path="link", content=b"x")], author=ME)
    assert {entry.name: entry.kind for entry in repo.list_entries(sha)} == {
        "link": "symlink",
        "module": "submodule",
        "ok.py": "file",
        "up": "symlink",
    }


def test_names_that_are_no_text_still_open(repo: GitRepository) -> None:
    raw = pygit2.Repository(str(repo.path))
    data = b"100644 caf\xe9.txt\0" + bytes.fromhex(str(raw.create_blob(b"x")))
    tree = raw.odb.write(pygit2.enums.ObjectType.TREE, data) if hasattr(raw, "odb") else raw.write(2, data)
    signature = pygit2.Signature("a", "b")
    sha = str(raw.create_commit(None, signature, signature, "m", tree, []))
    assert [entry.name for entry in repo.list_entries(sha)] == ["caf\\xe9.txt"]
    assert repo.list_files(sha) == ["caf\\xe9.txt"]
    assert repo.last_commits(sha).keys() == {"caf\\xe9.txt"}
    assert [file.path for file in repo.diff(None, sha)] == ["caf\\xe9.txt"]


def test_odd_identities_make_valid_commits(repo: GitRepository) -> None:
    author = Person(name="<>\n evil\0", email="")
    change = Change(path="n", content=b"1")
    commit = repo.commit_changes(branch="master", message="m", changes=[change], author=author)
    assert commit.author.name == "evil"
    assert commit.author.email == "unknown@localhost"


def test_log_of_a_path_and_last_commits(repo: GitRepository) -> None:
    first = repo.get_head("master")
    second = _commit(repo, "d/b.txt", "y")
    third = _commit(repo, "a.txt", "z")
    assert [commit.sha for commit in repo.iterate_commits(third, path="d/b.txt")] == [second, first]
    assert {name: commit.sha for name, commit in repo.last_commits(third).items()} == {"a.txt": third, "d": second}
    assert [commit.sha for commit in repo.iterate_commits(third, exclude=first)] == [third, second]
    assert repo.ahead_behind(third, first) == (2, 0)
    assert repo.is_ancestor(first, third)
    assert not repo.is_ancestor(third, first)


def test_nothing_of_the_users_configuration_is_read(
    repo: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[core]\n  fsmonitor = "touch {canary}"\n[merge]\n  renames = false\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"touch {canary}")
    head = repo.get_head("master")
    assert merges.preview_merge(repo, source=head, target=head).clean
    assert not canary.exists()


@pytest.mark.parametrize("name", ["a" * 300, "a" * 5000, "é" * 2000, "\ud800", "a\0b", "", "..", "a b"])
def test_a_name_that_no_branch_can_have_is_no_branch(repo: GitRepository, name: str) -> None:
    assert repo.find_head(name) is None
    assert repo.find_ref(f"refs/tags/{name}") is None


@pytest.mark.parametrize("name", ["/master", "//master", "x//y", "x/y/"])
def test_a_second_spelling_of_a_branch_neither_finds_nor_moves_it(repo: GitRepository, name: str) -> None:
    head = repo.get_head("master")
    repo.create_branch("x/y", head)
    newer = _commit(repo, "a", "newer")
    heads = repo.list_heads()
    assert repo.find_head(name) is None
    with pytest.raises(UnknownRef):
        repo.move_branch(name, expected=head, sha=newer)
    with pytest.raises(UnknownRef):
        repo.delete_branch(name, expected=head)
    assert repo.list_heads() == heads


@pytest.mark.parametrize("text", [b"a line\n" * 40, os.urandom(3_000), bytes(400_000)], ids=["text", "noise", "zeros"])
@pytest.mark.timeout(20)
def test_a_loose_object_that_was_cut_is_refused_and_keeps_nobody_waiting(repo: GitRepository, text: bytes) -> None:
    sha = repo.commit_changes(branch="master", message="m", changes=[Change(path="c", content=text)], author=ME).sha
    blob = repo.read_blob(sha, "c").sha
    path = repo.path / "objects" / blob[:2] / blob[2:]
    whole = path.read_bytes()
    path.chmod(0o600)
    for length in (len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:length])
        for read in (lambda: GitRepository(repo.path).read_blob(sha, "c"), lambda: repo.read_to_colour(blob)):
            with pytest.raises(GitError, match="damaged"):
                read()
    path.write_bytes(whole)
    assert GitRepository(repo.path).read_blob(sha, "c").content == text
    assert GitRepository(repo.path).read_to_colour(blob) == text


def test_describe_paths_tells_folders_from_files(repo: GitRepository) -> None:
    before = repo.get_head("master")
    tool = repo.objects.find_object(before, "a.txt").id
    tree = repo._repo.TreeBuilder(repo._repo[before].tree)
    tree.insert("tool", tool, pygit2.enums.FileMode.BLOB_EXECUTABLE)
    author = pygit2.Signature("Ines", "ines@example.org")
    sha = str(repo._repo.create_commit(None, author, author, "m", tree.write(), [before]))
    found = repo.describe_paths(sha, ["a.txt", "tool", "d", "d/b.txt", ".", "none", "a.txt/b", "none/b"])
    assert found.keys() == {"a.txt", "tool", "d", "d/b.txt", "."}
    assert (found["a.txt"].is_program, found["tool"].is_program) == (False, True)
    assert found["a.txt"].id == found["tool"].id
    assert found["."].names == ("a.txt", "d/", "tool")
    assert [path for path in found if found[path].is_folder] == ["d", "."]
