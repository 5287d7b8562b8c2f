"""Leased work as a machine: messages lost and doubled, workers that die or are slow, parts that are away, people who cancel.

Three laws, for jobs, comparisons, publications, queries, previews, deliveries and mails. Never two that commit: of all that work on a row at most one
has it, and it is done once for each time that it was asked for. Nothing is forgotten: once nothing fails any more, whatever
waits is worked on. Everything ends, in steps that grow with what was asked and no faster.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.db import transaction as database
from django.db.models import Model
from django.test import override_settings
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from jobs.protocol import DiffResult, JobResult, PublishResult, write_message
from tests.factories.build_rows import World, a_world
from tests.factories.messages import Messages, committing
from webapp.builds import services as builds
from webapp.builds.models import Build, Job, JobOutput
from webapp.builds.rules.states import JOB_ENDS, BuildState, JobState
from webapp.builds.runner import paths
from webapp.builds.services import publication, running, sweeping
from webapp.builds.services import queue as build_queue
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.services import comparisons
from webapp.core import clock
from webapp.datasets.models import Dataset
from webapp.dispatch.fair_slots import FairSlots
from webapp.dispatch.logs import LogWriter
from webapp.dispatch.processes import ProcessEnd
from webapp.notices.models import Mail
from webapp.notices.rules import facts
from webapp.notices.rules.facts import Reason
from webapp.notices.rules.states import MailState
from webapp.notices.services import mailing
from webapp.notices.services.telling import tell
from webapp.previews import services as previews
from webapp.previews.models import CodePreview
from webapp.previews.rules.states import PreviewState
from webapp.repositories import queries as repository_queries
from webapp.repositories import services as repository_services
from webapp.repositories.models import Delivery, Publication, Webhook
from webapp.repositories.rules.states import PublicationState
from webapp.repositories.services import webhooks
from webapp.runtime.fork_server import LOST
from webapp.sql import services as sql
from webapp.sql.models import Query
from webapp.sql.rules.states import QueryState

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
BRANCHES = ("one", "two", "three")


class Work:
    """One kind of leased work, as those who ask, work and sweep meet it."""

    model: type[Model]
    done: Any
    """The state of what was committed."""
    ends: frozenset[Any]
    """The states in which nothing moves."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.asked = 0

    def ask(self) -> Any:
        """Ask for a piece of work that is not under way; return its row."""
        raise NotImplementedError

    def claim(self, *, id: Any = None, **_: Any) -> Any:
        """Return the row that a worker has, whom a message woke."""
        row = self.model.objects.filter(pk=id).first()  # type: ignore[attr-defined]
        return row if row is not None and self.model.objects.claim(row) else None  # type: ignore[attr-defined]

    def complete(self, row: Any) -> None:
        """Commit what a worker has made."""
        raise NotImplementedError

    def give_back(self, row: Any) -> None:
        """Find that something is not there."""
        self.model.objects.held(row).give_back()  # type: ignore[attr-defined]

    def lose_part(self, row: Any) -> None:
        """Find that what the process runs on has died."""
        self.model.objects.held(row).retry()  # type: ignore[attr-defined]

    def cancel(self, row: Any) -> None:
        """Have a person cancel it, where people can."""

    def sweep(self) -> None:
        """Do what the loop does."""
        raise NotImplementedError

    def read_state(self, row: Any) -> Any:
        """Where a row stands."""
        return self.model.objects.filter(pk=row.pk).values_list("state", flat=True).get()  # type: ignore[attr-defined]


class Jobs(Work):
    """Jobs of builds of one job each, which make nothing: what counts is who ends them."""

    model, done, ends = Job, JobState.COMPLETED, frozenset(JOB_ENDS)

    def ask(self) -> Job:
        build = Build.objects.create(
            branch="master",
            chain=["master"],
            targets=["/shop/one"],
            by=self.world.user,
            repository=self.world.repository,
            state=BuildState.RUNNING,
        )
        job = Job.objects.create(build=build, number=1, state=JobState.RUN_PENDING, rung_at=clock.now())
        JobOutput.objects.create(job=job, name="out", path="/shop/one")
        build_queue.ring_job(job)
        return job

    def claim(self, **_: Any) -> Job | None:
        claimed = running._claim("a worker", FairSlots(1000))
        return claimed[0] if claimed is not None else None

    def complete(self, row: Job) -> None:
        self._act(
            row, lambda attempt: attempt._commit(JobResult(status="ok", outputs={}), {}, None) or attempt._give_way()
        )

    def give_back(self, row: Job) -> None:
        self._act(row, lambda attempt: attempt._put_back("Something is not there.", lost=0))

    def lose_part(self, row: Job) -> None:
        self._act(row, lambda attempt: attempt._end_without_spark())

    def _act(self, row: Job, act: Any) -> None:
        with closing(LogWriter(paths.log_path(row.pk))) as log:
            try:
                act(running._Attempt(job=row, build=row.build, log=log, waited_for=""))
            except running.Fenced:
                return

    def cancel(self, row: Job) -> None:
        build = Build.objects.get(jobs=row)
        if not build.is_over:
            builds.cancel_build(build=build, by=self.world.maker)

    def sweep(self) -> None:
        sweeping.sweep_builds()


class Comparisons(Work):
    """Comparisons, which are run again once they have failed."""

    model, done = Comparison, ComparisonState.READY
    ends = frozenset({ComparisonState.READY, ComparisonState.FAILED})

    def ask(self) -> Comparison:
        failed = Comparison.objects.filter(state=ComparisonState.FAILED).first()
        if failed is not None:
            comparisons.rerun_comparison(comparison=failed, by=self.world.maker)
            return failed
        dataset = Dataset.objects.get(path="/shop/raw")
        row = Comparison.objects.create(identity=str(Comparison.objects.count()), dataset=dataset)
        comparisons.ring_comparison(row)
        return row

    def complete(self, row: Comparison) -> None:
        self._end(row, 0)

    def lose_part(self, row: Comparison) -> None:
        self._end(row, LOST)

    def _end(self, row: Comparison, code: int) -> None:
        folder = self.folder / str(code)
        folder.mkdir(exist_ok=True)
        if code == 0:
            write_message(folder / comparisons.ANSWER, DiffResult(status="ok"))
        comparisons._finish(ProcessEnd.of_code(code), Comparison.objects.held(row), folder, time_limit_s=60)

    def cancel(self, row: Comparison) -> None:
        comparisons.cancel_comparison(comparison=row, by=self.world.maker)

    def sweep(self) -> None:
        comparisons.sweep_comparisons()


class Publications(Work):
    """Publications of heads, which are asked for again while they are worked on, too."""

    model, done = Publication, PublicationState.PUBLISHED
    ends = frozenset({PublicationState.PUBLISHED, PublicationState.FAILED})

    def ask(self) -> Publication:
        self.asked += 1
        branch = BRANCHES[self.asked % len(BRANCHES)]
        sha = repository_queries.get_head(self.world.repository, branch)
        publication.request_publication(repository=self.world.repository, branch=branch, sha=sha)
        return repository_services.set_publication(
            repository=self.world.repository, branch=branch, sha=sha, status=PublicationState.PENDING
        )

    def claim(self, *, repository: str = "", branch: str = "", sha: str = "", **_: Any) -> Publication | None:
        row = Publication.objects.filter(repository__name=repository, branch=branch, sha=sha).first()
        return super().claim(id=row.pk) if row is not None else None

    def complete(self, row: Publication) -> None:
        publication.settle_publication(publication=row, result=PublishResult())

    def sweep(self) -> None:
        sweeping.sweep_builds()

    def read_state(self, row: Publication) -> Any:
        return Publication.objects.get(pk=row.pk).status


class Queries(Work):
    """Queries that people run."""

    model, done, ends = Query, QueryState.READY, QueryState.ends()

    def ask(self) -> Query:
        row = Query.objects.create(
            repository=self.world.repository, by=self.world.user, branch="master", sql="SELECT 1"
        )
        sql._ring(row)
        return row

    def complete(self, row: Query) -> None:
        self._end(row, 0)

    def lose_part(self, row: Query) -> None:
        self._end(row, LOST)

    def _end(self, row: Query, code: int) -> None:
        folder = self.folder / str(code)
        folder.mkdir(exist_ok=True)
        if code == 0:
            write_message(folder / sql.ANSWER, DiffResult(status="ok"))
        sql._finish(row, ProcessEnd.of_code(code), Query.objects.held(row), folder)

    def cancel(self, row: Query) -> None:
        sql.cancel_query(query=row, by=self.world.maker)

    def sweep(self) -> None:
        sql.sweep_queries()


class Previews(Work):
    """Previews of code that is not committed."""

    model, done, ends = CodePreview, PreviewState.READY, PreviewState.ends()

    def ask(self) -> CodePreview:
        row = CodePreview.objects.create(
            repository=self.world.repository, by=self.world.user, branch="master", head="0" * 40, file="a.py"
        )
        previews._ring(row)
        return row

    def complete(self, row: CodePreview) -> None:
        previews._end(CodePreview.objects.held(row), to=PreviewState.READY)

    def cancel(self, row: CodePreview) -> None:
        previews.cancel_preview(preview=row, by=self.world.maker)

    def sweep(self) -> None:
        previews.sweep_previews()


class Deliveries(Work):
    """Deliveries to a webhook, which are given up after some tries."""

    model, done, ends = Delivery, True, frozenset({True, None})

    def ask(self) -> Delivery:
        webhook, _ = Webhook.objects.get_or_create(
            repository=self.world.repository, defaults={"url": "http://nobody.example", "events": ["push"]}
        )
        webhooks.announce_event(repository=webhook.repository, event="push", payload={})
        return Delivery.objects.latest("pk")

    def complete(self, row: Delivery) -> None:
        webhooks.settle_delivery(row, 204, "")

    def give_back(self, row: Delivery) -> None:
        webhooks.settle_delivery(row, 500, "It answered 500")

    lose_part = give_back

    def sweep(self) -> None:
        webhooks.sweep_deliveries()

    def read_state(self, row: Delivery) -> bool | None:
        """Whether it was taken; None where it was given up."""
        fresh = Delivery.objects.get(pk=row.pk)
        return False if fresh.due_at is not None else fresh.status == 204 or None


class Mails(Work):
    """Mails of notifications, which are given up after some tries."""

    model, done, ends = Mail, MailState.SENT, frozenset({MailState.SENT, MailState.GIVEN_UP})

    def ask(self) -> Mail:
        to = {Reason.MENTIONED: [self.world.maker.user_id]}
        with override_settings(EMAIL_HOST="mail.example"):
            tell(fact=facts.OPENED, to=to, repository=self.world.repository)
        return Mail.objects.latest("pk")

    def complete(self, row: Mail) -> None:
        mailing.end_mail(row, MailState.SENT)

    def give_back(self, row: Mail) -> None:
        mailing.put_off_mail(row, "It answered 451")

    lose_part = give_back

    def sweep(self) -> None:
        mailing.sweep_mails()


@dataclass
class Asked:
    """A row, and what was made of it since it was last asked for."""

    row: Any
    committed: int = 0


class Dispatch(RuleBasedStateMachine):
    """Whoever asks, works and cancels, while time passes and things get lost."""

    work: Work

    def __init__(self) -> None:
        super().__init__()
        self.block = database.atomic()
        self.block.__enter__()
        self.messages = Messages()
        self.messages.start()
        self.ahead = timedelta()
        now = clock.now
        clocks = dict.fromkeys(("now", "shared_now", "statement_now"), lambda: now() + self.ahead)
        self.time = mock.patch.multiple(clock, **clocks, _settled=clock._SettledClock())
        self.time.start()
        self.asked: dict[Any, Asked] = {}
        self.workers: list[Any] = []

    def teardown(self) -> None:
        try:
            self.drain()
        finally:
            self.time.stop()
            self.messages.stop()
            database.set_rollback(True)
            self.block.__exit__(None, None, None)

    @rule(times=st.integers(1, 2))
    def ask(self, times: int) -> None:
        for _ in range(times):
            with committing():
                row = self.work.ask()
            self.asked[row.pk] = Asked(row)

    @precondition(lambda self: self.messages.waiting)
    @rule(at=st.integers(0, 50), twice=st.booleans())
    def deliver(self, at: int, twice: bool) -> None:
        _, message = self.messages.take(at)
        for _ in range(1 + twice):
            with committing():
                row = self.work.claim(**message)
            if row is not None:
                self.workers.append(row)

    @precondition(lambda self: self.messages.waiting)
    @rule(at=st.integers(0, 50))
    def lose(self, at: int) -> None:
        self.messages.take(at)

    @precondition(lambda self: self.workers)
    @rule(at=st.integers(0, 50), seconds=st.integers(1, 30))
    def beat(self, at: int, seconds: int) -> None:
        """Time passes, and one worker at least lives."""
        self.pass_time(seconds)
        row = self.workers[at % len(self.workers)]
        has = self.work.model.objects.held(row)  # type: ignore[attr-defined]
        assert has.renew() == has.exists()

    @precondition(lambda self: self.workers)
    @rule(at=st.integers(0, 50), end=st.sampled_from(["complete", "give_back", "lose_part"]))
    def end(self, at: int, end: str) -> None:
        self.finish(self.workers.pop(at % len(self.workers)), end)

    def finish(self, row: Any, end: str) -> None:
        has = self.work.model.objects.held(row).exists()  # type: ignore[attr-defined]
        before = self.work.read_state(row)
        with committing():
            getattr(self.work, end)(row)
        after = self.work.read_state(row)
        assert has or after == before, "whoever lost the row changed it"
        if after == self.work.done != before:
            self.asked[row.pk].committed += 1
            assert self.asked[row.pk].committed == 1

    @precondition(lambda self: self.workers)
    @rule(at=st.integers(0, 50))
    def die(self, at: int) -> None:
        self.workers.pop(at % len(self.workers))

    @precondition(lambda self: self.asked)
    @rule(at=st.integers(0, 50), again=st.booleans())
    def cancel(self, at: int, again: bool) -> None:
        """A person takes it back, and may ask again at once."""
        asked = list(self.asked.values())[at % len(self.asked)]
        if self.work.read_state(asked.row) not in self.work.ends:
            with committing():
                self.work.cancel(asked.row)
        if again:
            self.ask(times=1)

    @rule(seconds=st.integers(1, 90))
    def pass_time(self, seconds: int) -> None:
        self.ahead += timedelta(seconds=seconds)
        clock._settled = clock._SettledClock()  # time passes, no clock is set

    @rule()
    def sweep(self) -> None:
        with committing():
            self.work.sweep()

    @invariant()
    def a_row_is_one_worker_s(self) -> None:
        have = [row.pk for row in self.workers if self.work.model.objects.held(row).exists()]  # type: ignore[attr-defined]
        assert len(have) == len(set(have))

    def drain(self) -> None:
        """Nothing fails any more, so everything ends."""
        steps = 30 + 10 * len(self.asked) + len(self.workers)
        while left := [
            each.row for each in self.asked.values() if self.work.read_state(each.row) not in self.work.ends
        ]:
            steps -= 1
            assert steps, f"never over: {[(row.pk, self.work.read_state(row)) for row in left]}"
            if self.workers:
                self.finish(self.workers.pop(), "complete")
            elif self.messages.waiting:
                self.deliver(0, twice=True)
            else:
                self.pass_time(3600)
                self.sweep()


@pytest.mark.parametrize("kind", [Jobs, Comparisons, Publications, Queries, Previews, Deliveries, Mails])
@pytest.mark.parametrize("examples", [8, pytest.param(300, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_work_is_done_once_and_never_forgotten(home: Any, tmp_path: Path, kind: type[Work], examples: int) -> None:
    world = a_world()
    for branch in BRANCHES:
        world.branch(branch)
    Dispatch.work = kind(world, tmp_path)
    run_state_machine_as_test(
        Dispatch,
        settings=hypothesis_settings(
            max_examples=examples,
            stateful_step_count=30,
            # Each step is many queries: a failure tells enough without minutes of shrinking.
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
