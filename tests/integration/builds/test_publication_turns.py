"""Imports that hang: a repository, and the repositories of one user, leave threads of the worker to others."""

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


def test_repositories_of_one_user_leave_a_thread_to_others(worker: Worker) -> None:
    mallory, olek = make.a_person("mallory"), make.a_person("olek")
    loops = [make.a_repository(f"loops{number}", by=mallory) for number in range(publication.MOST_OF_MAKER + 1)]
    for repository in loops:
        a_loop(repository, "master", mallory)
    theirs = make.a_repository("theirs", by=olek)
    make.a_commit(theirs, {"notes.txt": "new\n"}, by=olek)
    for repository in loops[:-1]:
        worker.start(repository, "master")
    publish_now(loops[-1], "master")
    assert len(worker.imported) == publication.MOST_OF_MAKER
    sha = worker.start(theirs, "master")
    assert worker.imported[-1] == f"theirs {sha}"
    worker.rings.clear()
    worker.end()
    assert (loops[-1].name, "master") in worker.rings
