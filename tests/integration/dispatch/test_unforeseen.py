"""An attempt that meets an error which nobody foresaw ends by its name and at once; what passes is put back."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection

from jobs.protocol import JobError, JobResult, PublishResult
from tests.factories.build_rows import World, a_jobspec, a_world
from webapp.builds import signals
from webapp.builds.models import Job, PublishedSpec
from webapp.builds.rules.states import JobState
from webapp.builds.services import publication, running, sweeping
from webapp.comparisons.models import Comparison
from webapp.comparisons.services import comparisons
from webapp.core import clock
from webapp.datasets.models import Dataset
from webapp.dispatch.failures import MOST_SAID
from webapp.dispatch.logs import LogWriter
from webapp.dispatch.processes import ProcessEnd
from webapp.repositories import queries as repository_queries
from webapp.repositories import services as repository_services
from webapp.repositories.models import Delivery, Publication, Webhook
from webapp.repositories.rules.states import PublicationState
from webapp.repositories.rules.webhooks import MOST_TRIES
from webapp.repositories.services import webhooks

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
HOSTILE = DataError("value too long for type character varying(400)\x00\ud800" + "x" * 1_000_000)
OURS = KeyError("rows")
BUSY = OperationalError("database is locked")
READ_ONLY = OSError(errno.EROFS, "Read-only file system")
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def world(home: Any) -> World:
    made = a_world()
    made.publish(a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]))
    return made


def failing(error: BaseException) -> Callable[..., Any]:
    """Something that raises it."""

    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def check_said(text: str, name: str) -> None:
    """It names the error, and every database and page takes it."""
    assert f": {name}" in text
    assert text.isprintable()
    assert len(text) < 2 * MOST_SAID


# --- jobs -----------------------------------------------------------------------------------------


@pytest.fixture
def attempt(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The first attempt of a job, whose process is not run."""
    job = world.start("/shop/one").jobs.get()
    assert Job.objects.claim(job, started_at=clock.now())
    log = LogWriter(tmp_path / "log")
    monkeypatch.setattr(running._Attempt, "_check_parts", lambda self: None)
    monkeypatch.setattr(running._Attempt, "_start", lambda self, *_: log)
    monkeypatch.setattr(running, "watch", lambda *_, **__: ProcessEnd.of_code(1))
    answer = JobResult(status="failed", error=JobError(message="What the job says."))
    monkeypatch.setattr(running.manifests, "read_result", lambda **_: answer)
    return running._Attempt(job=job, build=job.build, log=LogWriter(tmp_path / "said"), waited_for="")


@pytest.mark.parametrize("error", [HOSTILE, OURS], ids=["hostile", "ours"])
def test_a_job_whose_end_cannot_be_stored_fails_by_name_at_its_first_attempt(attempt: Any, error: Exception) -> None:
    ended: list[Job] = []

    def follow(job: Job, **_: Any) -> None:
        ended.append(job)
        if len(ended) == 1:
            raise error

    signals.job_finished.connect(follow)
    try:
        attempt.run()
    finally:
        signals.job_finished.disconnect(follow)
    job = Job.objects.get(pk=attempt.job.pk)
    assert (job.state, job.attempt, job.lost, job.build.state) == ("FAILED", 1, 0, "FAILED")
    assert job.reason.startswith("What the job answered could not be stored: ")
    check_said(job.reason, type(error).__name__)
    assert len(ended) == 2


def test_a_job_that_cannot_be_started_fails_by_name(attempt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running._Attempt, "_start", failing(OURS))
    attempt.run()
    job = Job.objects.get(pk=attempt.job.pk)
    assert (job.state, job.reason) == ("FAILED", "The job could not be run: KeyError: 'rows'")


@pytest.mark.parametrize(("error", "lost"), [(BUSY, 0), (FULL, 0), (READ_ONLY, 1)], ids=["busy", "full", "read-only"])
@pytest.mark.parametrize("place", ["_start", "_conclude"])
def test_a_job_is_put_back_for_what_passes(
    attempt: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, lost: int, place: str
) -> None:
    monkeypatch.setattr(running._Attempt, place, failing(error))
    attempt.run()
    job = Job.objects.get(pk=attempt.job.pk)
    assert (job.state, job.lost) == ("RUN_PENDING", lost)
    assert "tried" in job.reason or "begins when there is room" in job.reason


def test_a_job_is_given_up_where_the_machine_fails_twice(attempt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running._Attempt, "_start", failing(READ_ONLY))
    attempt.job.lost = 1
    attempt.run()
    job = Job.objects.get(pk=attempt.job.pk)
    assert (job.state, job.lost) == (JobState.FAILED, 0)
    check_said(job.reason, "OSError: [Errno 30] Read-only file system")


# --- publications ---------------------------------------------------------------------------------


@pytest.fixture
def pending(world: World) -> Publication:
    sha = repository_queries.get_head(world.repository, "master")
    return repository_services.set_publication(
        repository=world.repository, branch="master", sha=sha, status=PublicationState.PENDING
    )


def publish(row: Publication) -> Publication:
    """Let a worker publish it; the row as it is then."""
    publication.publish(repository=row.repository, branch=row.branch, sha=row.sha)
    row.refresh_from_db()
    return row


@pytest.mark.parametrize("error", [HOSTILE, OURS], ids=["hostile", "ours"])
def test_a_publication_fails_by_name(pending: Publication, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(publication, "import_commit", lambda **_: PublishResult())
    monkeypatch.setattr(publication, "replace_specs", failing(error))
    row = publish(pending)
    assert (row.status, row.attempt) == ("failed", 1)
    check_said(row.errors[0]["message"], type(error).__name__)
    assert row.errors[0]["message"].startswith("What the modules declare could not be stored: ")


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite keeps texts of any length")
def test_a_text_too_long_for_its_column_ends_a_publication(
    pending: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(a_jobspec("two", outputs=["/shop/two"]), file="x" * 5000)
    monkeypatch.setattr(publication, "import_commit", lambda **_: PublishResult(jobspecs=(spec,)))
    row = publish(pending)
    assert row.status == "failed"
    assert "DataError: value too long for type character varying(1000)" in row.errors[0]["message"]
    assert PublishedSpec.objects.count() == 1, "the JobSpecs of before stay"


@pytest.mark.parametrize(("error", "lost"), [(BUSY, 0), (FULL, 0), (READ_ONLY, 1)], ids=["busy", "full", "read-only"])
def test_a_publication_waits_again_for_what_passes(
    pending: Publication, monkeypatch: pytest.MonkeyPatch, error: Exception, lost: int
) -> None:
    monkeypatch.setattr(publication, "import_commit", failing(error))
    row = publish(pending)
    assert (row.status, row.lost, row.lease_until) == ("pending", lost, None)
    if lost:
        row = publish(pending)
        assert row.status == "failed"
        check_said(row.errors[0]["message"], "OSError")


def test_a_publication_whose_worker_dies_is_tried_once_more_and_then_given_up(
    pending: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping.turns, "began", None)
    for lost, status in ((1, "pending"), (1, "failed")):
        pending.refresh_from_db()
        assert Publication.objects.claim(pending)
        Publication.objects.update(lease_until=clock.now() - timedelta(seconds=1))
        assert sweeping.sweep_builds()["publications taken over"] == 1
        pending.refresh_from_db()
        assert (pending.status, pending.lost) == (status, lost)
    assert pending.errors[0]["message"] == "The worker died twice while it published the commit."
    assert sweeping.sweep_builds()["publications taken over"] == 0


# --- comparisons ----------------------------------------------------------------------------------


@pytest.fixture
def comparison(world: World) -> Comparison:
    return Comparison.objects.create(identity="1", dataset=Dataset.objects.get(path="/shop/raw"))


@pytest.mark.parametrize("error", [HOSTILE, OURS], ids=["hostile", "ours"])
def test_a_comparison_fails_by_name(comparison: Comparison, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(comparisons, "_run", failing(error))
    comparisons.run_comparison(comparison_id=comparison.pk)
    comparison.refresh_from_db()
    assert (comparison.state, comparison.code, comparison.attempt) == ("failed", "crashed", 1)
    check_said(comparison.error, type(error).__name__)


@pytest.mark.parametrize(("error", "lost"), [(BUSY, 0), (FULL, 0), (READ_ONLY, 1)], ids=["busy", "full", "read-only"])
def test_a_comparison_waits_again_for_what_passes(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch, error: Exception, lost: int
) -> None:
    monkeypatch.setattr(comparisons, "_run", failing(error))
    comparisons.run_comparison(comparison_id=comparison.pk)
    comparison.refresh_from_db()
    assert (comparison.state, comparison.lost) == ("queued", lost)
    if lost:
        comparisons.run_comparison(comparison_id=comparison.pk)
        comparison.refresh_from_db()
        assert comparison.state == "failed"
        check_said(comparison.error, "OSError")


# --- deliveries -----------------------------------------------------------------------------------


@pytest.fixture
def delivery(world: World) -> Delivery:
    webhook = Webhook.objects.create(repository=world.repository, url="http://nobody.example", events=["push"])
    webhooks.announce_event(repository=webhook.repository, event="push", payload={})
    return Delivery.objects.get()


def test_a_delivery_says_what_nobody_foresaw_and_is_tried_again_as_others_are(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks.outgoing, "post", failing(HOSTILE))
    webhooks.deliver(delivery_id=delivery.pk)
    delivery.refresh_from_db()
    assert (delivery.status, delivery.tries) == (0, 1)
    check_said(delivery.reason, "DataError")
    assert delivery.due_at is not None


def test_a_delivery_whose_worker_dies_each_time_is_given_up(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks.outgoing, "post", failing(SystemExit()))
    for _ in range(MOST_TRIES):
        Delivery.objects.update(due_at=clock.now() - timedelta(seconds=1))
        with pytest.raises(SystemExit):
            webhooks.deliver(delivery_id=delivery.pk)
    Delivery.objects.update(due_at=clock.now() - timedelta(seconds=1))
    webhooks.deliver(delivery_id=delivery.pk)
    delivery.refresh_from_db()
    assert (delivery.due_at, delivery.status, delivery.reason) == (None, 0, "The worker died while it sent the event.")
