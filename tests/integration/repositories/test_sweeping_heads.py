"""What the sweep of branches costs, what it must not miss for that, and that a broken repository keeps up no other."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.factories import repositories as make
from webapp.git import fingerprint
from webapp.git.repository import GitRepository
from webapp.git.values import Change
from webapp.repositories import services
from webapp.repositories.models import Repository
from webapp.repositories.services import announcements

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
AGAIN = {"heads announced again": 1}


@pytest.fixture(autouse=True)
def quiet(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    monkeypatch.setattr(announcements, "_memory", announcements._Memory())


@pytest.fixture
def ines() -> Principal:
    return make.a_person("ines")


@pytest.fixture
def fine_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is trusted at once, as if it were seconds after the last change."""
    monkeypatch.setattr(fingerprint, "TICK_NS", 0)


def count(act: Callable[[], object]) -> tuple[int, list[str]]:
    """Do it; return how many queries that took, and in which repositories branches were read."""
    read: list[str] = []
    original = GitRepository.list_heads

    def list_heads(git: GitRepository) -> dict[str, str]:
        read.append(git.path.name)
        return original(git)

    with CaptureQueriesContext(connection) as queries, mock.patch.object(GitRepository, "list_heads", list_heads):
        act()
    return len(queries), read


def move(repository: Repository, branch: str = "master") -> str:
    """Move a branch in Git as somebody does who dies before it is announced."""
    git = repository.git
    author = git.get_commit(git.get_head("master")).author
    change = Change(path=f"{time.monotonic_ns()}", content=b"")
    return git.commit_changes(branch=branch, message="x", changes=[change], author=author).sha


def test_a_turn_costs_the_same_however_many_repositories_and_branches_there_are(
    ines: Principal, fine_clock: None
) -> None:
    costs = []
    for number in (1, 5):
        for place in range(number):
            repository = make.a_repository(f"r{number}{place}", by=ines)
            for branch in range(number):
                make.a_branch(repository, f"b{branch}", by=ines)
        services.sweep_settled_heads()
        costs.append(count(services.sweep_settled_heads))
    assert [read for _, read in costs] == [[], []]
    assert costs[0] == costs[1]
    lost = Repository.objects.get(name="r53")
    head = move(lost)
    assert count(services.sweep_settled_heads)[1] == ["r53.git"]
    assert services.sweep_settled_heads() == AGAIN
    assert lost.branches.get(name="master").announced_head == head
    services.sweep_settled_heads()
    assert count(services.sweep_settled_heads)[1] == []


def move_in_folder(repository: Repository) -> None:
    move(repository, "team/feature")


def move_a_packed_one(repository: Repository) -> None:
    subprocess.run(["git", "pack-refs", "--all"], cwd=repository.path, check=True)
    move(repository)


def pack_what_moved(repository: Repository) -> None:
    move(repository)
    subprocess.run(["git", "pack-refs", "--all"], cwd=repository.path, check=True)


def push_a_new_one(repository: Repository) -> None:
    repository.git.create_branch("other/deep/new", repository.git.get_head("master"))


@pytest.mark.parametrize("act", [move, move_in_folder, move_a_packed_one, pack_what_moved, push_a_new_one])
def test_no_move_is_missed(ines: Principal, fine_clock: None, act: Callable[[Repository], Any]) -> None:
    repository = make.a_repository("shop", by=ines)
    make.a_branch(repository, "team/feature", by=ines)
    services.sweep_settled_heads()
    assert count(services.sweep_settled_heads)[1] == []
    act(repository)
    assert services.sweep_settled_heads() == {}
    assert services.sweep_settled_heads() == AGAIN


def test_a_move_within_the_tick_of_a_look_is_seen(ines: Principal) -> None:
    """The folder has the same time before and after, and only the tick says that this proves nothing."""
    repository = make.a_repository("shop", by=ines)
    with mock.patch.object(fingerprint, "_read_mark", return_value=(1, time.time_ns())):
        services.sweep_settled_heads()
        move(repository)
        assert services.sweep_settled_heads() == {}
        assert services.sweep_settled_heads() == AGAIN


def test_what_was_written_into_a_ref_by_hand_is_seen_in_some_minutes(
    ines: Principal, fine_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make.a_repository("shop", by=ines)
    git = repository.git
    first = git.get_head("master")
    second = move(repository)
    for _ in range(3):
        services.sweep_settled_heads()
    git.create_branch("hand", first)
    for _ in range(3):
        services.sweep_settled_heads()
    descriptor = os.open(repository.path / "refs/heads/hand", os.O_WRONLY)
    os.write(descriptor, second.encode())
    os.close(descriptor)
    assert count(services.sweep_settled_heads)[1] == []
    now = time.monotonic
    monkeypatch.setattr(announcements.time, "monotonic", lambda: now() + announcements.LOOK_AGAIN_S)
    assert services.sweep_settled_heads() == {}
    assert services.sweep_settled_heads() == AGAIN
    assert repository.branches.get(name="hand").announced_head == second


@pytest.mark.parametrize("missing", ["commit", "parent", "tree"])
def test_a_move_that_cannot_be_announced_is_told_and_keeps_up_no_other(
    ines: Principal, client: Client, missing: str
) -> None:
    broken, whole = (make.a_repository(name, by=ines) for name in ("broken", "whole"))
    broken.git.create_branch("new", broken.git.get_head("master"))
    parent, commit = move(broken, "new"), move(broken, "new")
    tree = GitRepository(broken.path).objects.find_commit(move(broken)).tree.id
    announced = move(whole)
    gone = {"commit": commit, "parent": parent, "tree": str(tree)}[missing]
    (broken.path / "objects" / gone[:2] / gone[2:]).unlink()
    for _ in range(2):
        services.sweep_settled_heads()
    assert whole.branches.get(name="master").announced_head == announced
    answer = client.get("/readyz").json()
    assert answer["repositories"] == "damaged"
    assert "broken: " in answer["details"]["repositories"]
