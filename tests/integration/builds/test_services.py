"""Builds as rows: resolution, queue, cancellation, taking over from dead workers, what the sweep repairs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.factories import repositories
from tests.factories.build_rows import World, a_jobspec, a_world
from webapp.builds import services
from webapp.builds.models import Build, Job, PublishedSpec
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.services import builds, interrupts, running, sweeping
from webapp.catalog.models import Table
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.local_files import local_path
from webapp.core import clock
from webapp.core.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from webapp.datasets.models import DatasetBranch, Transaction
from webapp.datasets.rules.transactions import TransactionState
from webapp.datasets.services import transactions
from webapp.dispatch.logs import LogWriter
from webapp.repositories import queries as repository_queries
from webapp.repositories import services as repository_services
from webapp.repositories.rules.states import PublicationState
from webapp.runtime.spark_folders import Loan

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def world(home: Any) -> World:
    """Return a chain of two transforms over /shop/raw, and one apart."""
    made = a_world()
    made.publish(
        a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]),
        a_jobspec("two", inputs=["/shop/one"], outputs=["/shop/two"]),
        a_jobspec("apart", inputs=["/shop/raw"], outputs=["/shop/apart"]),
    )
    return made


def states_of(build: Build) -> list[str]:
    return list(build.jobs.order_by("number").values_list("state", flat=True))


def open_paths() -> list[str]:
    return sorted(Transaction.objects.filter(state=TransactionState.OPEN).values_list("dataset__path", flat=True))


def test_resolution_opens_every_transaction_and_readies_the_first_jobs(world: World) -> None:
    build = world.start("/shop/two", upstream=True)
    assert (build.state, states_of(build)) == ("RUNNING", ["RUN_PENDING", "WAITING"])
    assert open_paths() == ["/shop/one", "/shop/two"]
    first, second = build.jobs.order_by("number")
    assert second.inputs.get().from_job == first
    assert second.inputs.get().transaction == first.outputs.get().transaction
    assert first.outputs.get().transaction.staging_branch == f"_job/{first.pk}"


def test_build_on_a_branch_makes_no_branch_on_inputs(world: World) -> None:
    world.branch("feature")
    build = world.start("/shop/one", branch="feature")
    assert build.chain == ["feature", "master"]
    assert list(DatasetBranch.objects.filter(name="feature").values_list("dataset__path", flat=True)) == ["/shop/one"]


def test_build_waits_for_the_publication_of_its_head(world: World) -> None:
    sha = repository_queries.get_head(world.repository, "master")
    repository_services.set_publication(
        repository=world.repository, branch="master", sha=sha, status=PublicationState.PENDING
    )
    build = world.start("/shop/one")
    assert (build.state, build.reason) == (
        "RESOLVING",
        f"Waits for the JobSpecs of master at {sha[:7]} to be published.",
    )
    repository_services.set_publication(
        repository=world.repository,
        branch="master",
        sha=sha,
        status=PublicationState.FAILED,
        errors=[{"file": "pipelines/m.py", "line": 3, "message": "SyntaxError"}],
    )
    services.resolve_build(build=build)
    build.refresh_from_db()
    assert build.state == "RUNNING"
    assert build.notes == [
        f"Commit {sha[:7]} on master could not be published (pipelines/m.py:3 SyntaxError). The last good JobSpecs are used."
    ]


def test_builds_of_overlapping_outputs_queue_in_their_order(world: World) -> None:
    first = world.start("/shop/one")
    second = world.start("/shop/two", upstream=True)
    third = world.start("/shop/two", upstream=True, force=True)
    other = world.start("/shop/apart")
    assert [each.state for each in (first, second, third, other)] == ["RUNNING", "RESOLVING", "RESOLVING", "RUNNING"]
    assert second.reason == f"Waits for build {first.pk}, which is writing /shop/one on master."
    assert third.reason.startswith(f"Waits for build {second.pk}, which is before it in the queue for /shop/one")
    services.cancel_build(build=first, by=world.maker)
    services.resolve_build(build=third)
    third.refresh_from_db()
    assert third.state == "RESOLVING"
    services.resolve_build(build=second)
    second.refresh_from_db()
    assert second.state == "RUNNING"


def test_transaction_of_a_person_is_waited_for_by_name(world: World) -> None:
    world.start("/shop/one")
    Transaction.objects.filter(state=TransactionState.OPEN).update(build_id=None, job_id="")
    build = world.start("/shop/one")
    assert "of maker-of-shop, which is writing /shop/one on master." in build.reason
    assert "not written yet: maker-of-shop or a maintainer commits or aborts it; if nothing more is" in build.reason


def test_cancel_ends_what_has_not_started_and_marks_what_runs(world: World) -> None:
    build = world.start("/shop/two", "/shop/apart", upstream=True)
    job = build.jobs.get(function="pipelines.m:apart")
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING, lease_until=clock.now())
    services.cancel_build(build=build, by=world.maker)
    build.refresh_from_db()
    assert sorted(states_of(build)) == ["ABORTED", "ABORTED", "ABORT_PENDING"]
    assert build.state == "RUNNING"
    assert open_paths() == ["/shop/apart"]
    job.refresh_from_db()
    builds.end_job(job=job, state=JobState.ABORTED, reason="gone")
    builds.advance_build(build=build)
    build.refresh_from_db()
    assert (build.state, build.code, open_paths()) == ("ABORTED", "cancelled", [])
    with pytest.raises(Conflict):
        services.cancel_build(build=build, by=world.maker)


def test_a_build_on_a_damaged_table_is_cancelled(world: World) -> None:
    build = world.start("/shop/two", upstream=True)
    table = Table.objects.get(name="two")
    local_path(table.metadata_location).write_bytes(b"{")
    metadata_files.forget_all()
    services.cancel_build(build=build, by=world.maker)
    build.refresh_from_db()
    assert (build.state, states_of(build)) == ("ABORTED", ["ABORTED", "ABORTED"])
    assert open_paths() == []


def test_waiting_build_is_cancelled_at_once(world: World) -> None:
    world.start("/shop/one")
    waiting = world.start("/shop/one")
    services.cancel_build(build=waiting, by=world.maker)
    waiting.refresh_from_db()
    assert waiting.state == "ABORTED"


def test_failure_goes_downstream_only(world: World) -> None:
    build = world.start("/shop/two", "/shop/apart", upstream=True)
    job = build.jobs.get(function="pipelines.m:one")
    builds.end_job(job=job, state=JobState.ABORTED, reason="x")
    builds.advance_build(build=build)
    assert dict(build.jobs.values_list("function", "state")) == {
        "pipelines.m:one": "ABORTED",
        "pipelines.m:two": "ABORTED",
        "pipelines.m:apart": "RUN_PENDING",
    }
    assert open_paths() == ["/shop/apart"]


def test_sweep_tries_a_lost_job_once_more_and_then_fails_it(world: World) -> None:
    build = world.start("/shop/one")
    job = build.jobs.get()
    for lost, state in ((1, "RUN_PENDING"), (1, "FAILED")):
        Job.objects.filter(pk=job.pk).update(
            state=JobState.RUNNING, attempt=1, lease_until=clock.now() - timedelta(seconds=1), worker="w-1"
        )
        assert sweeping.take_over_lost_jobs() == 1
        job.refresh_from_db()
        assert (job.state, job.lost) == (state, lost)
        assert "The worker w-1 died" in job.reason
    build.refresh_from_db()
    assert (build.state, open_paths()) == ("FAILED", [])
    assert sweeping.take_over_lost_jobs() == 0


def test_sweep_does_not_wait_for_the_end_of_a_lost_jobs_spark_session(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[list[Any]]],
) -> None:
    job = world.start("/shop/one").jobs.get()
    begun, released = threading.Event(), threading.Event()

    def end_session(**_: Any) -> bool:
        begun.set()
        return released.wait(60)

    monkeypatch.setattr(interrupts, "end_session", end_session)
    Job.objects.filter(pk=job.pk).update(
        state=JobState.RUNNING, spark_session="s", lease_until=clock.now() - timedelta(seconds=1)
    )
    with django_capture_on_commit_callbacks(execute=True):
        assert sweeping.take_over_lost_jobs() == 1
    assert begun.wait(60)
    (ending,) = [thread for thread in threading.enumerate() if thread.name == f"interrupt-{job.pk}"]
    released.set()
    ending.join()


def test_a_job_under_which_spark_ended_is_tried_once_more_and_then_fails(world: World, tmp_path: Path) -> None:
    job = world.start("/shop/one").jobs.get()
    for lost, state in ((1, "RUN_PENDING"), (1, "FAILED")):
        Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING, lease_until=clock.now())
        job.refresh_from_db()
        log = LogWriter(tmp_path / "log")
        running._Attempt(job=job, build=job.build, log=log, waited_for="", loan=Loan())._end_without_spark()
        log.close()
        job.refresh_from_db()
        assert (job.state, job.lost) == (state, lost)
        assert "The Spark engine ended, and what the job computed on it." in job.reason


def test_sweep_ends_a_cancelled_job_whose_worker_died(world: World) -> None:
    build = world.start("/shop/one")
    build.jobs.update(state=JobState.RUNNING, lease_until=clock.now() - timedelta(seconds=1))
    services.cancel_build(build=build, by=world.maker)
    sweeping.take_over_lost_jobs()
    build.refresh_from_db()
    assert (build.state, open_paths()) == ("ABORTED", [])


def test_running_job_with_a_good_lease_is_left_alone(world: World) -> None:
    build = world.start("/shop/one")
    build.jobs.update(state=JobState.RUNNING, lease_until=clock.now() + timedelta(seconds=5))
    assert sweeping.take_over_lost_jobs() == 0


@pytest.mark.usefixtures("silent_bell")
def test_sweep_rings_again_only_what_is_due(world: World) -> None:
    build = world.start("/shop/one")
    waiting = world.start("/shop/one")
    assert (sweeping.ring_waiting_jobs(), sweeping.ring_resolving_builds()) == (0, 0)
    past = clock.now() - timedelta(seconds=11)
    build.jobs.update(rung_at=past)
    Build.objects.filter(pk=waiting.pk).update(rung_at=past)
    # The second build stands behind the first: a ring would find nothing to do.
    assert (sweeping.ring_waiting_jobs(), sweeping.ring_resolving_builds()) == (1, 0)
    services.cancel_build(build=build, by=world.maker)
    assert (sweeping.ring_waiting_jobs(), sweeping.ring_resolving_builds()) == (0, 1)
    assert (sweeping.ring_waiting_jobs(), sweeping.ring_resolving_builds()) == (0, 0)


def test_sweep_carries_on_where_a_crash_cut_a_build(world: World) -> None:
    build = world.start("/shop/two", upstream=True)
    first = build.jobs.get(number=1)
    Job.objects.filter(pk=first.pk).update(state=JobState.COMPLETED)
    assert sweeping.advance_running_builds() == 1
    assert states_of(build) == ["COMPLETED", "RUN_PENDING"]
    Build.objects.filter(pk=build.pk).update(state=BuildState.FAILED)
    assert sweeping.abort_orphaned_transactions() == 2
    assert open_paths() == []


def test_one_damaged_table_keeps_no_transaction_open(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged so that no refusal of the catalog says it: the database alone ends a transaction, and the table follows."""
    build = world.start("/shop/two", upstream=True)
    Build.objects.filter(pk=build.pk).update(state=BuildState.FAILED)
    clean = transactions._clean_table

    def fail(row: Transaction, shared: Any) -> None:
        if row.dataset.path == "/shop/one":
            raise KeyError("snapshot-id")
        clean(row, shared)

    with monkeypatch.context() as damage:
        damage.setattr(transactions, "_clean_table", fail)
        assert sweeping.abort_orphaned_transactions() == 2
        assert open_paths() == []
        assert transactions.sweep_leftovers() == {"tables cleaned after aborted transactions": 0}
    assert transactions.sweep_leftovers() == {"tables cleaned after aborted transactions": 1}


def test_what_nobody_foresaw_in_planning_ends_the_build_by_name(world: World) -> None:
    PublishedSpec.objects.update(spec={"damaged": True})
    build = world.start("/shop/two")
    assert (build.state, build.code) == ("FAILED", "internal")
    assert build.reason.startswith("The build could not be planned: ")
    assert open_paths() == []


def test_who_may_not_write_may_not_build(world: World) -> None:
    reader = repositories.a_member(world.repository, "reader")
    writer = repositories.a_member(world.repository, "writer")
    stranger = repositories.a_person()
    world.branch("feature")
    with pytest.raises(PermissionDenied):
        services.start_build(order=services.BuildOrder(branch="feature", targets=["/shop/one"]), by=reader)
    with pytest.raises(PermissionDenied):
        services.start_build(order=services.BuildOrder(branch="master", targets=["/shop/one"]), by=writer)
    with pytest.raises(NotFound):
        services.start_build(order=services.BuildOrder(branch="feature", targets=["/shop/one"]), by=stranger)
    build = services.start_build(order=services.BuildOrder(branch="feature", targets=["/shop/one"]), by=writer)
    services.resolve_build(build=build)
    with pytest.raises(PermissionDenied):
        services.cancel_build(build=build, by=reader)
    trusted = services.start_build(
        order=services.BuildOrder(branch="master", targets=["/shop/apart"]), by=writer, is_trusted=True
    )
    services.resolve_build(build=trusted)
    trusted.refresh_from_db()
    assert trusted.state == "RUNNING"


def test_who_may_not_see_a_build_may_not_steer_it_either(world: World) -> None:
    secret = a_world("secret")
    build = world.start("/shop/one", repository=secret.repository, resolve=False)
    for steer in (services.cancel_build, services.retry_build):
        with pytest.raises(NotFound):
            steer(build=build, by=world.maker)


def test_input_that_its_builder_may_not_read_fails_the_build(world: World) -> None:
    a_world("secret")
    world.publish(a_jobspec("spy", inputs=["/secret/raw"], outputs=["/shop/spy"]))
    build = world.start("/shop/spy")
    assert (build.state, build.code) == ("FAILED", "not_found")
    assert "/secret/raw" in build.reason


def test_pinned_input_is_read_instead_of_the_newest(world: World) -> None:
    first = Transaction.objects.get(dataset__path="/shop/raw")
    build = world.start("/shop/one", pins={"/shop/raw": first.pk})
    assert build.jobs.get().inputs.get().transaction == first
    bad = world.start("/shop/apart", pins={"/shop/raw": "nothing"})
    assert (bad.state, bad.code) == ("FAILED", "pin_missing")


@pytest.mark.parametrize(
    ("targets", "branch", "words"),
    [
        ([], "master", "at least one"),
        (["no-path"], "master", "no dataset path"),
        (["/shop/one"], "main", "main"),
        (["/shop/one"], "_job/x", "no legal branch name"),
        (["/shop/one"] * 2 + [f"/shop/n{number}" for number in range(300)], "master", "at most"),
    ],
)
def test_unreadable_orders_are_refused(world: World, targets: list[str], branch: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        services.start_build(order=services.BuildOrder(branch=branch, targets=targets), by=world.maker)


def test_retry_of_a_forced_build_runs_only_what_was_not_done(world: World) -> None:
    build = world.start("/shop/one", "/shop/apart", force=True)
    done = build.jobs.get(function="pipelines.m:apart")
    Job.objects.filter(pk=done.pk).update(state=JobState.COMPLETED)
    builds.end_job(job=build.jobs.get(function="pipelines.m:one"), state=JobState.ABORTED, reason="x")
    with pytest.raises(Conflict, match="still RUNNING"):
        services.retry_build(build=build, by=world.maker)
    builds.advance_build(build=build)
    build.refresh_from_db()
    again = services.retry_build(build=build, by=world.maker)
    assert (again.force, again.forced, again.retry_of) == (False, ["/shop/one"], build)


def test_retry_orders_the_same_again(world: World) -> None:
    more = {"fallbacks": ["feature"], "upstream": True, "pins": {"/shop/raw": "t"}, "code_sha": "1" * 40, "title": "T"}
    build = world.start("/shop/one", repository=world.repository, resolve=False, **more)
    builds.end_build(build=build, state=BuildState.FAILED, reason="The disk was full.")
    again = services.retry_build(build=build, by=world.maker)
    assert services.BuildOrder.of(again) == services.BuildOrder.of(build)
    assert (again.chain, again.pins, again.title) == (["master", "feature"], {"/shop/raw": "t"}, "T")


def test_deleted_branch_takes_its_jobspecs_with_it(world: World) -> None:
    world.branch("feature")
    world.publish(a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"], digest="d2"), branch="feature")
    repository_services.delete_branch(repository=world.repository, name="feature", data="keep", by=world.maker)
    assert not world.repository.jobspecs.filter(branch="feature").exists()
