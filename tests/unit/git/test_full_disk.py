"""A commit that cannot be stored is refused, whatever libgit2 says."""

from __future__ import annotations

import random
import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from webapp.git.errors import BranchExists, NotStored
from webapp.git.repository import GitRepository
from webapp.git.values import Change, Person

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ME = Person(name="Ines", email="ines@example.org")
LONG = random.Random(1).randbytes(4_000).hex()


@pytest.fixture
def repo(tmp_path: Path) -> GitRepository:
    git = GitRepository.init(tmp_path / "a.git", branch="master")
    git.create_root_commit(branch="master", message="First", files={"a.txt": b"a\n"}, author=ME)
    return git


@contextmanager
def room(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as a disk without room would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("content", "message"),
    [pytest.param(b"b\n", LONG, id="the commit"), pytest.param(LONG.encode(), "Second", id="a file")],
)
def test_a_commit_that_is_not_stored_moves_nothing(repo: GitRepository, content: bytes, message: str) -> None:
    head = repo.get_head("master")
    change = Change(path="b.txt", content=content)
    with room(1_000), pytest.raises(NotStored):
        repo.commit_changes(branch="master", message=message, changes=[change], author=ME)
    assert repo.get_head("master") == head
    made = repo.commit_changes(branch="master", message=message, changes=[change], author=ME)
    assert repo.get_head("master") == made.sha


def test_a_branch_that_cannot_be_written_has_not_moved(repo: GitRepository) -> None:
    head = repo.get_head("master")
    made = repo.commit_changes(
        branch="master", message="Second", changes=[Change(path="b.txt", content=b"b\n")], author=ME
    )
    with room(10):
        with pytest.raises(NotStored):
            repo.move_branch("master", expected=made.sha, sha=head)
        with pytest.raises(NotStored):
            repo.create_branch("other", made.sha)
    assert repo.get_head("master") == made.sha
    repo.create_branch("other", made.sha)
    with room(10), pytest.raises(BranchExists):
        repo.create_branch("other/below", made.sha)
    repo.move_branch("master", expected=made.sha, sha=head)
    assert repo.get_head("master") == head
