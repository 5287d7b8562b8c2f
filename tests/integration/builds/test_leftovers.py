"""Files of attempts: removed at once if they never commit, kept if they did or might have; and who ends on a full disk."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError

from jobs.protocol import JobResult
from tests.factories import datasets
from tests.factories.build_rows import World, a_jobspec, a_world
from webapp.builds.models import Job
from webapp.builds.rules.states import JobState
from webapp.builds.runner import paths
from webapp.builds.services import leftovers, running, sweeping, uploads
from webapp.catalog import services as catalog
from webapp.core import clock
from webapp.core.databases import PAUSE_S
from webapp.core.errors import InvalidInput
from webapp.dispatch.logs import LogWriter
from webapp.runtime.room import Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
MIB = 1024**2
MINUTE = timedelta(minutes=1)


@pytest.fixture
def world(home: Path) -> World:
    """Return three transforms that do not depend on each other."""
    made = a_world()
    made.publish(
        *(a_jobspec(name, inputs=["/shop/raw"], outputs=[f"/shop/{name}"]) for name in ("one", "two", "three"))
    )
    return made


def begin(
    world: World, name: str, *, size: int = MIB, worker: str = "host-1", seconds_ago: int = 0
) -> tuple[Job, Path]:
    """Claim a job and write a file as it would; return both."""
    build = world.start(f"/shop/{name}")
    started = clock.now() - timedelta(seconds=seconds_ago)
    build.jobs.update(state=JobState.RUNNING, attempt=1, worker=worker, started_at=started, lease_until=clock.now())
    job = build.jobs.select_related("build").get()
    data, _ = catalog.open_job_folders(table=f"shop.{name}", folder=f"job-{job.pk}-1")
    (data / "deep").mkdir()
    (data / "deep" / "rows.parquet").write_bytes(b"x" * size)
    return job, data


@contextmanager
def attempt_of(job: Job, tmp_path: Path) -> Iterator[running._Attempt]:
    log = LogWriter(tmp_path / "log")
    yield running._Attempt(job=job, build=job.build, log=log, waited_for="")
    log.close()


def test_failed_attempt_leaves_no_files(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, data = begin(world, "one")

    def fail(_self: object, _place: object) -> None:
        raise InvalidInput("No.")

    monkeypatch.setattr(running._Attempt, "_run_at", fail)
    with attempt_of(job, tmp_path) as attempt:
        attempt.run()
    assert Job.objects.get(pk=job.pk).state == JobState.FAILED
    assert not data.exists()


def test_commit_without_an_answer_keeps_the_files(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database did it and did not say so; asked again it says that there is nothing left to do."""
    job, data = begin(world, "one")

    def commit(self: running._Attempt, *_: object) -> bool:
        if self._held().move(to=JobState.COMPLETED, finished_at=clock.now(), lease_until=None):
            raise OperationalError("server closed the connection unexpectedly")
        return False

    monkeypatch.setattr("webapp.core.databases.PAUSE_S", PAUSE_S / 100)
    monkeypatch.setattr("webapp.core.databases.connection", Connection())
    monkeypatch.setattr(running._Attempt, "_commit", commit)
    monkeypatch.setattr(
        running._Attempt, "_run_at", lambda self, place: self._complete(JobResult(status="ok"), place, staged={})
    )
    with attempt_of(job, tmp_path) as attempt, pytest.raises(running.Fenced):
        attempt.run()
    assert (data / "deep" / "rows.parquet").exists()


class Connection:
    """A connection outside of the test's own block, which could not be repeated."""

    in_atomic_block = False

    def close_if_unusable_or_obsolete(self) -> None:
        """Keep it."""


def test_lost_attempt_leaves_no_files(
    world: World, django_capture_on_commit_callbacks: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, data = begin(world, "one")
    place = paths.work_folder(job.pk, 1)
    place.mkdir(parents=True)
    monkeypatch.setattr("webapp.builds.services.interrupts.interrupt_session_aside", lambda **_: None)
    with django_capture_on_commit_callbacks(execute=True):
        assert sweeping.take_over_lost_jobs() == 1
    assert Job.objects.get(pk=job.pk).state == JobState.RUN_PENDING
    assert not data.exists()
    assert not place.exists()


@pytest.mark.parametrize("is_staged", [False, True])
def test_failed_upload_into_an_open_transaction_leaves_no_files(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_staged: bool
) -> None:
    """The files of other uploads into the transaction stay, as do those that a snapshot in it lists."""
    dataset = datasets.a_dataset("/shop/raw")
    opened = datasets.a_transaction(dataset, world.user)
    builds = [
        uploads.start_upload(
            dataset=dataset,
            branch="",
            mode="append",
            content=[b"id\n1\n"],
            filename="a.csv",
            by=world.maker,
            into=opened.pk,
        )
        for _ in range(2)
    ]
    files = []

    def write(attempt: running._Attempt, _place: object) -> None:
        data, metadata = attempt._open_own_folders()
        files.append(data / "rows.parquet")
        files[-1].write_bytes(b"x")
        if len(files) == 1:
            attempt.may_have_committed = True
            return
        if is_staged:
            client = datasets.a_client(world.user, opened.staging_branch)
            client.append(dataset.table, **{"manifest-list": f"{metadata.as_uri()}/snap-1.avro"})
        raise InvalidInput("No.")

    monkeypatch.setattr(running._Attempt, "_run_at", write)
    for build in builds:
        now = clock.now()
        build.jobs.update(state=JobState.RUNNING, attempt=1, worker="host-1", started_at=now, lease_until=now + MINUTE)
        with attempt_of(build.jobs.select_related("build").get(), tmp_path) as attempt:
            attempt.run()
    assert [file.exists() for file in files] == [True, is_staged]
    assert files[0].parent != files[1].parent


def test_newest_large_job_gives_disk_space_back(world: World, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, _ = begin(world, "one", seconds_ago=60)
    new, _ = begin(world, "two", seconds_ago=30)
    small, _ = begin(world, "three", size=1000)
    free = 0
    device = home.stat().st_dev
    monkeypatch.setattr(leftovers, "list_disks", lambda: [Disk("warehouse", home, free, 2 * MIB, device, 100 * MIB)])
    assert [leftovers.explain_shortage(job) != "" for job in (old, new, small)] == [False, True, False]
    assert "1.0 MB" in leftovers.explain_shortage(new)
    Job.objects.filter(pk=new.pk).update(worker="other-1")
    assert leftovers.explain_shortage(old) != "", "a job of another host does not count"
    Job.objects.filter(pk=new.pk).update(worker="host-1", state=JobState.COMPLETED)
    assert leftovers.explain_shortage(old) != ""
    free = 2 * MIB
    assert leftovers.explain_shortage(old) == ""
