"""Locks that writers killed by SIGKILL leave are removed; those of the living are not, and neither is a moved head."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from webapp.git import locks
from webapp.git.errors import BranchExists, HeadMoved, RefLocked
from webapp.git.program import GIT_ENVIRONMENT
from webapp.git.repository import GitRepository
from webapp.git.values import Change, Person

if TYPE_CHECKING:
    from collections.abc import Iterator

ME = Person(name="Ines", email="ines@example.org")
ROOT = Path(__file__).resolve().parents[3]
WRITER = """
import subprocess, sys
from pathlib import Path
from webapp.git.locks import Lease
from webapp.git.program import GIT_ENVIRONMENT

repository = Path(sys.argv[1])
lease = Lease(repository)
with subprocess.Popen(
    ["git", "--git-dir", repository, "update-ref", "--stdin"],
    env=GIT_ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[lease.descriptor],
) as git:
    git.stdin.write(f"start\\nupdate refs/heads/master {sys.argv[3]} {sys.argv[2]}\\nprepare\\n".encode())
    git.stdin.flush()
    print(git.pid, flush=True)
    sys.stdin.readline()
"""
"""Locks master as a push does, in the middle of its transaction, and waits."""


@pytest.fixture
def repo(tmp_path: Path) -> GitRepository:
    git = GitRepository.init(tmp_path / "a.git", branch="master")
    git.create_root_commit(branch="master", message="First", files={"a.txt": b"1\n"}, author=ME)
    return git


@pytest.fixture(autouse=True)
def sure_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second instead of two for a lock to lie unchanged."""
    monkeypatch.setattr(locks, "UNCHANGED_SECONDS", 0.5)
    monkeypatch.setattr("webapp.git.repository.LOCK_SECONDS", 1.5)


@contextmanager
def writer(repo: GitRepository) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process of ours whose child Git has master locked; the process, and the id of its child."""
    head = repo.get_head("master")
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(repo.path), head, head],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        while not (repo.path / "refs/heads/master.lock").exists():
            time.sleep(0.01)
        try:
            yield process, child
        finally:
            process.kill()


def commit(repo: GitRepository, name: str, branch: str = "master") -> str:
    change = Change(path=name, content=b"x")
    return repo.commit_changes(branch=branch, message="m", changes=[change], author=ME).sha


def test_a_killed_writer_keeps_nobody_from_the_branch(repo: GitRepository) -> None:
    with writer(repo) as (process, child):
        subprocess.run(["kill", "-9", str(child), str(process.pid)], check=True)
        process.wait()
        assert (repo.path / "refs/heads/master.lock").exists()
        sha = commit(repo, "b.txt")
    assert repo.get_head("master") == sha
    assert repo.find_locks() == []
    assert list((repo.path / "writers").iterdir()) == []


def test_a_living_writers_lock_is_named_and_left(repo: GitRepository) -> None:
    head = repo.get_head("master")
    with writer(repo):
        with pytest.raises(RefLocked, match=r"refs/heads/master\.lock is held by another writer"):
            repo.move_branch("master", expected=head, sha=head)
        assert "refs/heads/master.lock" in repo.find_locks()


def test_the_child_of_a_killed_writer_keeps_its_lock(repo: GitRepository) -> None:
    """Web dies, Git lives on for a moment: what it has locked is still its own."""
    with writer(repo) as (process, child):
        # Without its parent Git reads the end of its input and gives up, unless it is stopped.
        subprocess.run(["kill", "-STOP", str(child)], check=True)
        process.kill()
        process.wait()
        assert repo.remove_stale_locks() == []
        time.sleep(0.6)
        assert repo.remove_stale_locks() == []
        subprocess.run(["kill", "-9", str(child)], check=True)
        deadline = time.monotonic() + 20
        while not repo.remove_stale_locks():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_push_that_still_arrives_does_not_keep_locks_of_the_dead(repo: GitRepository) -> None:
    push = locks.Lease(repo.path, is_writing=False)
    time.sleep(0.02)
    (repo.path / "refs/heads/master.lock").touch()
    commit(repo, "b.txt")
    push.begin()
    time.sleep(0.02)
    (repo.path / "refs/heads/master.lock").touch()
    with pytest.raises(RefLocked):
        commit(repo, "c.txt")
    push.release()
    commit(repo, "c.txt")


@pytest.mark.parametrize("name", ["packed-refs.lock", "HEAD.lock", "config.lock", "index.lock", "refs/heads/a/b.lock"])
def test_every_kind_of_stale_lock_goes(repo: GitRepository, name: str) -> None:
    path = repo.path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert repo.remove_stale_locks() == []
    time.sleep(0.6)
    assert repo.remove_stale_locks() == [name]
    assert not path.exists()


def test_deleting_and_making_branches_go_past_stale_locks(repo: GitRepository) -> None:
    head = repo.get_head("master")
    (repo.path / "refs/heads/f.lock").touch()
    repo.create_branch("f", head)
    (repo.path / "packed-refs.lock").touch()
    repo.delete_branch("f", expected=head)
    assert repo.find_head("f") is None


def test_a_moved_head_and_a_taken_name_are_no_locks(repo: GitRepository) -> None:
    head = repo.get_head("master")
    commit(repo, "b.txt")
    with pytest.raises(HeadMoved):
        repo.move_branch("master", expected=head, sha=head)
    with pytest.raises(BranchExists):
        repo.create_branch("master", head)


def test_unfinished_objects_of_the_dead_are_removed_when_they_are_old(
    repo: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("aa/tmp_obj_x", "pack/tmp_pack_x", "tmp_objdir-incoming-x/aa/b"):
        path = repo.path / "objects" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert repo.remove_leftovers() == 0
    monkeypatch.setattr(locks, "LEFTOVER_SECONDS", -1.0)
    assert repo.remove_leftovers() == 3
    assert repo.find_damage() == ""


def test_the_last_commits_of_folders_are_shared_by_threads(repo: GitRepository) -> None:
    heads = [commit(repo, f"d{number}/a.txt") for number in range(12)]
    failures: list[BaseException] = []

    def read(start: int) -> None:
        try:
            for turn in range(60):
                head = heads[(start + turn) % len(heads)]
                assert "a.txt" in GitRepository(repo.path).last_commits(head)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test is to name it
            failures.append(error)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_git_itself_finds_nothing_wrong_with_the_folder_of_leases(repo: GitRepository) -> None:
    with locks.hold_lease(repo.path):
        listed = subprocess.run(
            ["git", "--git-dir", repo.path, "for-each-ref"], env=dict(GIT_ENVIRONMENT), capture_output=True, check=True
        )
    assert b"refs/heads/master" in listed.stdout
