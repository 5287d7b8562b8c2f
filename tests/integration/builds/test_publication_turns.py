"""Imports that hang: those of one user, or of two, leave slots of the worker to others."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from jobs.protocol import PublishResult
from tests.factories import repositories as make
from webapp.builds.services import publication
from webapp.repositories.models import Publication, Repository
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


class Worker:
    """The quick worker: imports hang until they are let go, and rings are kept."""

    def __init__(self) -> None:
        self.imported: list[str] = []
        self.rings: list[tuple[str, str]] = []
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Event()
        self._threads: list[threading.Thread] = []

    def ring(self, task: str, *, queue: str, **arguments: Any) -> None:
        if task == publication.TASK:
            self.rings.append((arguments["repository"], arguments["branch"]))

    def hang(self, *, repository: Repository, sha: str, held: object) -> PublishResult:
        self.imported.append(f"{repository.name} {sha}")
        self.begun.release()
        self.let_go.wait(20)
        return PublishResult()

    def start(self, repository: Repository, branch: str) -> str:
        """Answer a ring in a thread, up to its import."""
        sha = repository.git.get_head(branch)
        thread = threading.Thread(target=self._publish, args=(repository, branch, sha))
        thread.start()
        self._threads.append(thread)
        assert self.begun.acquire(timeout=15)
        return sha

    def end(self) -> None:
        self.let_go.set()
        for thread in self._threads:
            thread.join(20)

    @staticmethod
    def _publish(repository: Repository, branch: str, sha: str) -> None:
        try:
            publication.publish(repository=repository, branch=branch, sha=sha)
        finally:
            connection.close()


@pytest.fixture
def worker(home: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    worker = Worker()
    monkeypatch.setattr("webapp.runtime.doorbell.ring", worker.ring)
    monkeypatch.setattr(publication, "import_commit", worker.hang)
    return worker


def a_loop(repository: Repository, branch: str, by: Principal) -> None:
    """Push a head whose modules never end."""
    if branch != "master":
        make.a_branch(repository, branch, by=by)
    make.a_commit(repository, {"pipelines/a.py": f"while True:\n    pass  # {branch}\n"}, branch=branch, by=by)


def publish_now(repository: Repository, branch: str) -> None:
    publication.publish(repository=repository, branch=branch, sha=repository.git.get_head(branch))


def test_a_repository_is_published_once_at_a_time_newest_head_first(worker: Worker) -> None:
    mallory = make.a_person("mallory")
    repository = make.a_repository("loops", by=mallory)
    for branch in ("one", "two", "three"):
        a_loop(repository, branch, mallory)
    worker.start(repository, "one")
    publish_now(repository, "two")
    publish_now(repository, "three")
    assert len(worker.imported) == 1, "they return at once"
    worker.rings.clear()
    worker.end()
    assert worker.rings == [("loops", "three")]
    states = Publication.objects.filter(repository=repository, branch__in=("one", "two")).order_by("pk")
    last = {row.branch: row.status for row in states}
    assert last == {"one": PublicationState.PUBLISHED, "two": PublicationState.PENDING}


def test_a_publication_whose_branch_moves_on_makes_way_for_the_next(worker: Worker) -> None:
    mallory = make.a_person("mallory")
    repository = make.a_repository("loops", by=mallory)
    a_loop(repository, "one", mallory)
    old = worker.start(repository, "one")
    make.a_commit(repository, {"pipelines/a.py": ""}, branch="one", by=mallory)
    worker.rings.clear()
    worker.end()
    assert worker.rings == [("loops", "one")]
    publish_now(repository, "one")
    rows = {row.sha: row.status for row in Publication.objects.filter(repository=repository, branch="one")}
    assert rows[repository.git.get_head("one")] == PublicationState.PUBLISHED
    assert old not in rows


def test_loops_of_a_user_do_not_delay_others_in_the_repository(worker: Worker) -> None:
    mallory = make.a_person("mallory")
    repository = make.a_repository("loops", by=mallory)
    olek = make.a_member(repository, "writer", "olek")
    a_loop(repository, "one", mallory)
    make.a_branch(repository, "theirs", by=olek)
    make.a_commit(repository, {"notes.txt": "new\n"}, branch="theirs", by=olek)
    worker.start(repository, "one")
    worker.start(repository, "theirs")
    worker.end()
    assert len(worker.imported) == 2


def test_two_users_leave_a_slot_to_others(worker: Worker) -> None:
    mallory, trudy, olek = (make.a_person(name) for name in ("mallory", "trudy", "olek"))
    loops = {by.username: [make.a_repository(f"{by.username}{n}", by=by) for n in range(4)] for by in (mallory, trudy)}
    for by in (mallory, trudy):
        for repository in loops[by.username]:
            a_loop(repository, "master", by)
    theirs = make.a_repository("theirs", by=olek)
    make.a_commit(theirs, {"notes.txt": "new\n"}, by=olek)
    for username, most in (("mallory", 3), ("trudy", 2)):
        for repository in loops[username][:most]:
            worker.start(repository, "master")
        for repository in loops[username][most:]:
            publish_now(repository, "master")
    assert len(worker.imported) == 5, "half of the slots, and all but the last"
    sha = worker.start(theirs, "master")
    assert worker.imported[-1] == f"theirs {sha}"
    worker.rings.clear()
    worker.end()
    assert worker.rings[0][0] in {"mallory3", "trudy2", "trudy3"}


def test_shares_are_of_those_who_push_not_of_the_repository_s_maker(worker: Worker) -> None:
    olek, mallory = make.a_person("olek"), make.a_person("mallory")
    shared = [make.a_repository(f"shared{n}", by=olek) for n in range(4)]
    for repository in shared:
        make.add_member(repository, "writer", mallory)
        a_loop(repository, "loop", mallory)
    for repository in shared[:3]:
        worker.start(repository, "loop")
    publish_now(shared[3], "loop")
    assert len(worker.imported) == 3
    worker.start(shared[0], "master")
    worker.end()
    assert len(worker.imported) == 4
