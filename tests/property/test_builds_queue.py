"""The queue of builds as a machine: any order of asking, doubled, reordered and lost messages, deaths, cancellations.

Whatever happened: who waits, waits for somebody who can go on, an act rings for what it freed alone, and in the end every
build is over. Where no message was lost and no worker died, it ends without the sweep.
"""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction as database
from django.test import TestCase
from hypothesis import HealthCheck, Phase, assume
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from jobs.protocol import JobResult
from tests.factories import repositories
from tests.factories.build_rows import World, a_jobspec, a_world
from tests.factories.messages import Messages, committing
from webapp.builds import services
from webapp.builds.models import Build, Job, QueuedOutput
from webapp.builds.queries import queue
from webapp.builds.rules.states import BUILD_ENDS, JobState
from webapp.builds.runner import paths
from webapp.builds.services import publication, running, sweeping
from webapp.builds.services import queue as services_queue
from webapp.core import clock
from webapp.datasets import services as datasets
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.rules.transactions import TransactionState
from webapp.dispatch.fair_slots import FairSlots
from webapp.dispatch.logs import LogWriter
from webapp.repositories import queries as repository_queries
from webapp.repositories import services as repository_services
from webapp.repositories.models import Publication
from webapp.repositories.rules.states import PublicationState
from webapp.runtime.doorbell import name_message

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PATHS = ("/shop/one", "/shop/two", "/shop/apart")
TABLES = ("shop.one", "shop.two", "shop.apart")
BRANCHES = ("master", "feature")
USERS = 3
PAST = timedelta(minutes=5)


class BuildQueue(RuleBasedStateMachine):
    """People ask and cancel, workers take messages and end jobs, things get lost."""

    world: World
    people: list[Any]

    def __init__(self) -> None:
        super().__init__()
        self.block = database.atomic()
        self.block.__enter__()
        self.messages = Messages()
        self.messages.start()
        self.running: list[tuple[Job, str]] = []
        self.needs_sweep = False

    def teardown(self) -> None:
        try:
            self.drain()
        finally:
            self.messages.stop()
            database.set_rollback(True)
            self.block.__exit__(None, None, None)

    @rule(
        user=st.integers(0, USERS - 1),
        branch=st.sampled_from(BRANCHES),
        wanted=st.sets(st.sampled_from(PATHS), min_size=1),
        upstream=st.booleans(),
        force=st.booleans(),
        times=st.integers(1, 3),
    )
    def ask(self, user: int, branch: str, wanted: set[str], upstream: bool, force: bool, times: int) -> None:
        for _ in range(times):
            with committing():
                services.start_build(
                    order=services.BuildOrder(branch=branch, targets=sorted(wanted), upstream=upstream, force=force),
                    by=self.people[user],
                )

    @precondition(lambda self: self.messages.waiting)
    @rule(at=st.integers(0, 50), twice=st.booleans())
    def deliver(self, at: int, twice: bool) -> None:
        task, kwargs = self.messages.take(at)
        for _ in range(1 + twice):
            self.work(task, kwargs)

    def work(self, task: str, kwargs: dict[str, Any]) -> None:
        with committing():
            if task.endswith("publish"):
                repository_services.set_publication(
                    repository=self.world.repository,
                    branch=kwargs["branch"],
                    sha=kwargs["sha"],
                    status=PublicationState.PUBLISHED,
                )
            elif task.endswith("run_job"):
                claimed = running._claim("a worker", FairSlots(1000))
                if claimed is not None:
                    self.running.append(claimed)
            else:
                build = Build.objects.filter(pk=kwargs["id"]).select_related("repository", "by").first()
                assert build is not None
                services.resolve_build(build=build)

    @precondition(lambda self: self.messages.waiting)
    @rule(at=st.integers(0, 50))
    def lose(self, at: int) -> None:
        self.messages.take(at)
        self.needs_sweep = True

    @precondition(lambda self: self.running)
    @rule(at=st.integers(0, 50), end=st.sampled_from(["complete", "fail", "put back"]))
    def end_job(self, at: int, end: str) -> None:
        before = self.messages.rung
        self.needs_sweep |= end == "put back"
        self.finish(self.running.pop(at % len(self.running)), end)
        # Each output that was freed has one head, and a job that ended readies those of its own build.
        assert self.messages.rung - before <= 2 * len(PATHS)

    def finish(self, claimed: tuple[Job, str], end: str) -> None:
        job, waited_for = claimed
        with closing(LogWriter(paths.log_path(job.pk))) as log, committing():
            attempt = running._Attempt(job=job, build=job.build, log=log, waited_for=waited_for)
            try:
                if end == "complete":
                    if not attempt._commit(JobResult(status="ok", outputs={}), dict.fromkeys(TABLES), None):
                        attempt._give_way()
                elif end == "fail":
                    attempt._fail("It failed.", code="failed")
                else:
                    attempt._put_back("Something is not there.", lost=0)
            except running.Fenced:
                return

    @precondition(lambda self: self.running)
    @rule(at=st.integers(0, 50))
    def worker_dies(self, at: int) -> None:
        job, _ = self.running.pop(at % len(self.running))
        Job.objects.filter(pk=job.pk, lease_until__isnull=False).update(lease_until=clock.now() - PAST)
        self.needs_sweep = True

    @rule(at=st.integers(0, 50))
    def cancel(self, at: int) -> None:
        builds = list(Build.objects.exclude(state__in=BUILD_ENDS).order_by("pk"))
        assume(builds)
        build = builds[at % len(builds)]
        before = self.messages.rung
        with committing():
            services.cancel_build(build=build, by=self.world.maker)
        assert self.messages.rung - before <= len(PATHS)

    @rule(branch=st.sampled_from(BRANCHES))
    def commit(self, branch: str) -> None:
        """The head of a branch is to be published, again: builds wait for it."""
        sha = repository_queries.get_head(self.world.repository, branch)
        with committing():
            repository_services.set_publication(
                repository=self.world.repository, branch=branch, sha=sha, status=PublicationState.PENDING
            )
            publication.request_publication(repository=self.world.repository, branch=branch, sha=sha)

    @rule(path=st.sampled_from(PATHS), branch=st.sampled_from(BRANCHES))
    def person_writes(self, path: str, branch: str) -> None:
        dataset = Dataset.objects.filter(path=path).first()
        assume(dataset is not None)
        assume(
            not Transaction.objects.filter(dataset=dataset, branch_name=branch, state=TransactionState.OPEN).exists()
        )
        with committing():
            datasets.open_transaction(
                dataset=dataset, branch=branch, chain=(branch, "master"), type="APPEND", by=self.world.maker
            )

    @rule(at=st.integers(0, 50))
    def person_ends(self, at: int) -> None:
        opened = list(Transaction.objects.filter(state=TransactionState.OPEN, build_id=None).order_by("pk"))
        assume(opened)
        with committing():
            datasets.abort_transaction(transaction=opened[at % len(opened)], reason="Done.")

    @rule()
    def sweep(self) -> None:
        past = clock.now() - PAST
        Build.objects.update(rung_at=past)
        Publication.objects.update(rung_at=past)
        Job.objects.filter(rung_at__isnull=False).update(rung_at=past, due_at=None)
        with committing():
            sweeping.sweep_builds()

    @invariant()
    def who_waits_waits_for_somebody_who_can_go_on(self) -> None:
        resolving = Build.objects.filter(state="RESOLVING").exists()
        opened = Transaction.objects.filter(state=TransactionState.OPEN).exists()
        assert not resolving or opened or queue.list_movable().exists()

    @invariant()
    def only_what_is_being_published_is_waited_for(self) -> None:
        waiting = Build.objects.filter(state="RESOLVING").exclude(waits_for_branch="")
        for build in waiting:
            is_pending = Publication.objects.filter(branch=build.waits_for_branch, status="pending").exists()
            rung = name_message(services_queue.RESOLVE_TASK, {"id": build.pk}) in self.messages.waiting
            assert is_pending or rung or self.needs_sweep

    @invariant()
    def only_who_is_unresolved_stands_in_a_queue(self) -> None:
        assert not QueuedOutput.objects.exclude(build__state="RESOLVING").exists()

    @invariant()
    def only_builds_that_are_not_over_hold_something_open(self) -> None:
        held = set(
            Transaction.objects.filter(state=TransactionState.OPEN, build_id__isnull=False).values_list(
                "build_id", flat=True
            )
        )
        assert not Build.objects.filter(pk__in=held, state__in=BUILD_ENDS).exists()

    def drain(self) -> None:
        """Nothing fails any more: everything must end, in steps that grow with the number of builds and no faster."""
        for opened in Transaction.objects.filter(state=TransactionState.OPEN, build_id=None):
            with committing():
                datasets.abort_transaction(transaction=opened, reason="Done.")
        left = Build.objects.exclude(state__in=BUILD_ENDS)
        steps = 20 + 12 * left.count()
        while left.exists():
            steps -= 1
            assert steps, f"builds that never end: {list(left.values('pk', 'state', 'reason', 'turn'))}"
            if self.running:
                self.finish(self.running.pop(), "complete")
            elif self.messages.waiting:
                self.work(*self.messages.take(0))
            else:
                assert self.needs_sweep, f"not rung: {list(left.values('pk', 'state', 'reason', 'turn'))}"
                self.sweep()
        assert not Job.objects.filter(state=JobState.RUNNING).exists()


@pytest.mark.parametrize("examples", [4, pytest.param(150, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_every_build_ends(home: Any, db: None, examples: int) -> None:
    world = a_world()
    specs = (
        a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]),
        a_jobspec("two", inputs=["/shop/one"], outputs=["/shop/two"]),
        a_jobspec("apart", inputs=["/shop/raw"], outputs=["/shop/apart"]),
    )
    world.publish(*specs)
    world.branch("feature")
    BuildQueue.world = world
    BuildQueue.people = [
        world.maker,
        *(repositories.a_member(world.repository, "maintainer") for _ in range(USERS - 1)),
    ]
    with TestCase.captureOnCommitCallbacks():
        first = world.start("/shop/two", upstream=True)
        services.cancel_build(build=first, by=world.maker)
    run_state_machine_as_test(
        BuildQueue,
        settings=hypothesis_settings(
            max_examples=examples,
            stateful_step_count=25,
            # Each step is many queries: a failure tells enough without minutes of shrinking.
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
