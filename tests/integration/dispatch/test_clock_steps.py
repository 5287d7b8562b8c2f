"""A clock that is set ends no lease of a living worker, no token, and no job for good."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs.protocol import CLOCK_BEHIND, JobError, JobResult
from tests.factories.build_rows import World, a_jobspec, a_world
from webapp.accounts import services as accounts
from webapp.accounts.queries import authenticate_token
from webapp.builds.models import Job
from webapp.builds.services import running, sweeping
from webapp.core import clock
from webapp.core.errors import Unauthenticated
from webapp.core.principals import JobScope
from webapp.dispatch.logs import LogWriter
from webapp.dispatch.processes import ProcessEnd

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
STEP = timedelta(minutes=2)


class Clock:
    """A clock of the host that a test sets; time passes by all clocks."""

    def __init__(self) -> None:
        self.ahead = timedelta()
        self.passed = 0.0
        self._since_boot = clock._since_boot

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead + timedelta(seconds=self.passed)

    def since_boot(self) -> float:
        return self._since_boot() + self.passed


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    for name in ("now", "shared_now", "statement_now"):
        monkeypatch.setattr(clock, name, moved.now)
    monkeypatch.setattr(clock, "_since_boot", moved.since_boot)
    monkeypatch.setattr(clock, "_settled", clock._SettledClock())
    clock.settled_now()  # the sweep has looked before
    return moved


@pytest.fixture
def world(home: Any) -> World:
    made = a_world()
    made.publish(a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]))
    return made


@pytest.fixture
def job(host: Clock, world: World) -> Job:
    """A job that a worker has."""
    made = world.start("/shop/one").jobs.get()
    assert Job.objects.claim(made, worker="alive", started_at=clock.now())
    return made


def test_step_ahead_takes_no_job_from_a_living_worker(host: Clock, job: Job) -> None:
    host.ahead = STEP
    assert sweeping.take_over_lost_jobs() == 0
    assert Job.objects.held(job).renew()
    host.passed = clock.SETTLES_S + 1
    assert Job.objects.held(job).renew()
    clock.settled_now()
    assert sweeping.take_over_lost_jobs() == 0
    assert Job.objects.get(pk=job.pk).state == "RUNNING"


def test_dead_worker_is_noticed_after_a_step_ahead(host: Clock, job: Job) -> None:
    host.ahead = STEP
    assert sweeping.take_over_lost_jobs() == 0
    host.passed = clock.SETTLES_S + 1
    assert sweeping.take_over_lost_jobs() == 1


def test_clock_of_one_host_ends_no_token(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = clock.now()
    monkeypatch.setattr(clock, "shared_now", lambda: right)
    _, secret = accounts.create_token(user=admin, name="t", expires_at=right + timedelta(minutes=1))
    monkeypatch.setattr(clock, "now", lambda: right + timedelta(days=1))
    assert authenticate_token(secret).username == "admin"
    monkeypatch.setattr(clock, "shared_now", lambda: right + timedelta(minutes=2))
    with pytest.raises(Unauthenticated):
        authenticate_token(secret)


def test_end_of_an_attempt_leaves_the_token_of_the_next_one(admin: Any) -> None:
    def make(attempt: int) -> str:
        scope = JobScope(job_id="j", branch="_job/j", base_branch="b", chain=("b",), attempt=attempt)
        return accounts.create_token(user=admin, name="job j", job_scope=scope)[1]

    first, second = make(1), make(2)
    accounts.revoke_job_tokens(job_id="j", attempt=1)
    assert authenticate_token(second).job is not None
    with pytest.raises(Unauthenticated):
        authenticate_token(first)


@pytest.fixture
def fail_job(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    """Run an attempt whose process fails, and return the job as it then is."""
    log = LogWriter(tmp_path / "log")
    monkeypatch.setattr(running._Attempt, "_check_parts", lambda self: None)
    monkeypatch.setattr(running._Attempt, "_start", lambda self, *_: log)

    def run(error: JobError, meanwhile: Callable[[Callable[[], bool]], object] = lambda look: look()) -> Job:
        def watch(*_: object, look: Callable[[], bool], **__: object) -> ProcessEnd:
            meanwhile(look)
            return ProcessEnd.of_code(1)

        monkeypatch.setattr(running, "watch", watch)
        answer = JobResult(status="failed", error=error)
        monkeypatch.setattr(running.manifests, "read_result", lambda **_: answer)
        running._Attempt(job=job, build=job.build, log=LogWriter(tmp_path / "said"), waited_for="").run()
        return Job.objects.get(pk=job.pk)

    return run


@pytest.mark.parametrize("step", [STEP, -STEP])
def test_job_that_fails_while_the_clock_is_set_runs_again(host: Clock, fail_job: Any, step: timedelta) -> None:
    def set_and_reset(look: Callable[[], bool]) -> None:
        host.ahead = step
        assert look()
        host.ahead = timedelta()

    job = fail_job(JobError(message="Unauthorized"), set_and_reset)

    assert (job.state, job.lost) == ("RUN_PENDING", 0)
    assert "clock of the host was set" in job.reason


def test_job_that_fails_by_itself_fails(fail_job: Any) -> None:
    assert fail_job(JobError(message="Unauthorized")).state == "FAILED"


def test_job_that_always_fails_fails_in_spite_of_steps(host: Clock, job: Job, fail_job: Any) -> None:
    Job.objects.filter(pk=job.pk).update(attempt=running.MAX_BUSY)
    job.attempt = running.MAX_BUSY

    def set_ahead(look: Callable[[], bool]) -> None:
        host.ahead += STEP
        look()

    assert fail_job(JobError(message="x"), set_ahead).state == "FAILED"


def test_job_whose_spark_has_an_older_clock_runs_again(fail_job: Any) -> None:
    job = fail_job(JobError(message="Invalid update timestamp 5", code=CLOCK_BEHIND))

    assert (job.state, job.reason) == ("RUN_PENDING", "The clock of Spark is behind: Invalid update timestamp 5")
