"""What the queue of builds costs and whom it serves: counted, not timed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import pytest
from django.db import connection
from django.test import Client, TestCase
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from tests.factories import repositories
from tests.factories.build_rows import World, a_jobspec, a_world
from webapp.accounts.models import User
from webapp.builds import services
from webapp.builds.models import Build, Job
from webapp.builds.queries import planning, queue, read_progress
from webapp.builds.services import builds as build_services
from webapp.builds.services import running, sweeping
from webapp.core import clock
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.rules.transactions import TransactionState
from webapp.datasets.services import abort_transaction
from webapp.dispatch.fair_slots import FairSlots
from webapp.repositories import queries as repository_queries
from webapp.repositories import services as repository_services
from webapp.repositories.models import Publication
from webapp.repositories.rules.states import PublicationState
from webapp.runtime.doorbell import ROOM

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
SLOTS = FairSlots(1000)


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What was rung for: the queue and the id."""
    rings: list[tuple[str, Any]] = []
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda _task, *, queue, id=0, **_: rings.append((queue, id)))
    monkeypatch.setattr("webapp.runtime.doorbell.count_room", lambda _queue: ROOM)
    return rings


@pytest.fixture
def world(home: Any) -> World:
    """Two transforms over /shop/raw, and many that no build of these tests needs."""
    made = a_world()
    made.publish(
        a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]),
        a_jobspec("two", inputs=["/shop/one"], outputs=["/shop/two"]),
        *(a_jobspec(f"other{n}", inputs=["/shop/raw"], outputs=[f"/shop/other{n}"]) for n in range(60)),
    )
    return made


def count(rung: list[tuple[str, Any]], act: Callable[[], object]) -> tuple[int, list[tuple[str, Any]]]:
    """Do something with all that follows its commit; return how many queries that took, and the rings."""
    rung.clear()
    with (
        CaptureQueriesContext(
            connection,
        ) as queries,
        TestCase.captureOnCommitCallbacks(execute=True),
    ):
        act()
    return len(queries), list(rung)


def queue_up(world: World, number: int) -> list[Build]:
    return [world.start("/shop/one", force=True) for _ in range(number)]


def resolve(build: Build) -> None:
    fresh = Build.objects.select_related("repository", "by").get(pk=build.pk)
    services.resolve_build(build=fresh)


def test_the_end_of_a_build_costs_the_same_with_many_builds_behind_it(
    world: World, rung: list[tuple[str, Any]]
) -> None:
    costs = []
    for waiting in (2, 30):
        first, *others = queue_up(world, 1 + waiting)
        costs.append(
            (
                count(rung, lambda first=first: services.cancel_build(build=first, by=world.maker)),
                count(rung, lambda others=others: resolve(others[1])),
                count(rung, lambda others=others: resolve(others[0])),
                count(rung, sweeping.sweep_builds),
            )
        )
        ended, blocked, resolved, swept = costs[-1]
        assert ended[1] == [("quick", others[0].pk)], "the next one alone is rung"
        assert blocked[1] == []
        assert [name for name, _ in resolved[1]] == ["builds"]
        assert swept[1] == []
        for build in others:
            services.cancel_build(build=build, by=world.maker)
    assert [queries for queries, _ in costs[0]] == [queries for queries, _ in costs[1]]


def test_a_build_that_stands_behind_another_is_not_planned_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _, second = queue_up(world, 2)
    monkeypatch.setattr(planning, "make_versioned_plan", None)
    resolve(second)
    second.refresh_from_db()
    assert second.state == "RESOLVING"
    assert queue.read_places(builds=[second])[second.pk].words == "1st of 1 in the queue for /shop/one"


def test_the_sweep_rings_for_a_full_queue_only_as_far_as_there_is_room(
    world: World, rung: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = [world.start(f"/shop/other{n}", resolve=False) for n in range(5)]
    Build.objects.update(rung_at=clock.now().replace(year=2020))
    monkeypatch.setattr("webapp.runtime.doorbell.count_room", lambda _queue: 3)
    assert sweeping.ring_resolving_builds() == 3
    assert rung == [("quick", build.pk) for build in builds[:3]]
    assert sweeping.ring_resolving_builds() == 2


def test_planning_reads_what_is_above_the_targets_and_outside_the_lock(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    depths: list[int] = []
    original = planning.read_spec

    def read_spec(row: Any) -> Any:
        read.append(row.function)
        depths.append(len(connection.savepoint_ids))
        return original(row)

    monkeypatch.setattr(planning, "read_spec", read_spec)
    world.start("/shop/one")
    world.start("/shop/two", upstream=True, branch="master", resolve=False)
    assert set(read) == {"pipelines.m:one"}
    assert set(depths) == {len(connection.savepoint_ids)}, "no atomic block was open"


def test_what_moves_between_planning_and_the_block_is_planned_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start("/shop/one")
    build = services.start_build(order=services.BuildOrder(branch="master", targets=["/shop/two"]), by=world.maker)
    Transaction.objects.filter(state="OPEN").update(state="ABORTED", closed_at=clock.now())
    original = planning.make_versioned_plan
    plans: list[int] = []

    def move(**arguments: Any) -> Any:
        plan = original(**arguments)
        plans.append(len(connection.savepoint_ids))
        if len(plans) < 10:
            world.publish(
                a_jobspec("two", inputs=["/shop/raw"], outputs=["/shop/two"], digest=f"moved{len(plans)}"),
            )
        return plan

    world.publish(a_jobspec("two", inputs=["/shop/raw"], outputs=["/shop/two"]))
    monkeypatch.setattr(planning, "make_versioned_plan", move)
    resolve(build)
    build.refresh_from_db()
    assert build.state == "RUNNING", build.reason
    # Each plan was overtaken; the last one was made where nothing can overtake it, and is the one that counts.
    assert plans[-1] > plans[0]
    assert len(plans) == 4
    assert build.jobs.get().digest == "moved3"


def test_users_take_turns_however_many_builds_each_asks_for(world: World) -> None:
    other = repositories.a_member(world.repository, "maintainer")
    mine = [world.start(f"/shop/other{n}") for n in range(6)]
    assert [claim() for _ in range(2)] == [mine[0].pk, mine[1].pk]
    theirs = [
        services.start_build(order=services.BuildOrder(branch="master", targets=[f"/shop/other{n}"]), by=other)
        for n in (10, 11)
    ]
    for build in theirs:
        resolve(build)
    assert [claim() for _ in range(6)] == [theirs[0].pk, mine[2].pk, theirs[1].pk, mine[3].pk, mine[4].pk, mine[5].pk]
    assert running._claim("w", SLOTS) is None


def claim() -> int:
    claimed = running._claim("w", SLOTS)
    assert claimed is not None
    return claimed[0].build_id


def test_whoever_asks_again_and_again_does_not_pass_who_waits(world: World) -> None:
    """Two people who each ask for one output again as soon as they have it; a third one waits for it."""
    busy = [repositories.a_member(world.repository, "maintainer") for _ in range(2)]
    patient = services.start_build(
        order=services.BuildOrder(branch="master", targets=["/shop/one"], force=True), by=world.maker
    )
    for turn in range(6):
        build = services.start_build(
            order=services.BuildOrder(branch="master", targets=["/shop/one"], force=True), by=busy[turn % 2]
        )
        resolve(build)
        resolve(patient)
        patient.refresh_from_db()
        if patient.state == "RUNNING":
            break
        claim()
        services.cancel_build(build=build, by=world.maker)
        Job.objects.filter(build=build).update(state="ABORTED")
        for opened in Transaction.objects.filter(build_id=build.pk, state="OPEN"):
            abort_transaction(transaction=opened, reason="over")
    assert patient.state == "RUNNING"
    assert turn <= 2


def test_a_job_that_was_put_back_lets_others_pass_until_it_is_due(world: World, rung: list[tuple[str, Any]]) -> None:
    first, second = (world.start(f"/shop/other{n}") for n in range(2))
    Job.objects.filter(build=first).update(due_at=clock.now().replace(year=2100))
    assert claim() == second.pk
    assert running._claim("w", SLOTS) is None
    Job.objects.filter(build=first).update(due_at=clock.now().replace(year=2020))
    assert claim() == first.pk


def test_a_transaction_that_a_person_closes_rings_for_who_waits(world: World, rung: list[tuple[str, Any]]) -> None:
    first = world.start("/shop/one")
    waiting = world.start("/shop/one", force=True)
    opened = Transaction.objects.get(state="OPEN")
    Transaction.objects.filter(pk=opened.pk).update(build_id=None, job_id="")
    _, rings = count(rung, lambda: abort_transaction(transaction=opened, reason="enough"))
    assert rings == [("quick", waiting.pk)]
    assert Dataset.objects.get(path="/shop/one").transactions.filter(state="OPEN").count() == 0
    assert first.pk < waiting.pk


def test_the_backlog_is_told_and_is_not_green_once_nothing_moves(world: World, client: Client) -> None:
    assert client.get("/readyz").json()["backlog"]["state"] == "ok"
    first, *others = queue_up(world, 4)
    told = client.get("/readyz").json()
    assert told["backlog"] == {
        "state": "ok",
        "builds_resolving": 3,
        "jobs_waiting": 1,
        "oldest_s": told["backlog"]["oldest_s"],
        "messages": told["backlog"]["messages"],
    }
    long_ago = clock.now() - timedelta(minutes=10)
    Build.objects.update(created_at=long_ago)
    Job.objects.update(created_at=long_ago)
    told = client.get("/readyz").json()
    assert (told["backlog"]["state"], told["ready"]) == ("stuck", False)
    assert told["backlog"]["oldest_s"] >= 600
    assert "none has begun or ended" in told["details"]["backlog"]
    claim()
    assert client.get("/readyz").json()["backlog"]["state"] == "ok"
    # A person's open transaction is no fault of the queue.
    Job.objects.update(state="COMPLETED", started_at=long_ago)
    Transaction.objects.filter(state="OPEN").update(build_id=None)
    assert client.get("/readyz").json()["backlog"]["state"] == "ok"
    assert {build.state for build in others} == {"RESOLVING"}
    assert first.state == "RUNNING"


def test_the_end_of_a_publication_rings_the_builds_that_wait_for_it_and_no_others(
    world: World, rung: list[tuple[str, Any]]
) -> None:
    world.branch("feature")
    running, queued = queue_up(world, 2)
    set_status(world, "pending")
    waiting = [world.start(f"/shop/other{n}") for n in range(2)]
    on_feature = world.start("/shop/other2", branch="feature")
    set_status(world, "pending", branch="feature")
    for_feature = world.start("/shop/other3", branch="feature")
    assert {build.state for build in (*waiting, on_feature, for_feature)} == {"RESOLVING"}
    Build.objects.update(rung_at=clock.now().replace(year=2020))
    assert count(rung, sweeping.ring_resolving_builds)[1] == [], "nothing to do until the publication is over"
    _, rings = count(rung, lambda: set_status(world, "failed"))
    assert rings == [("quick", build.pk) for build in (*waiting, on_feature)]
    for build in (waiting[0], on_feature):
        resolve(build)
    on_feature.refresh_from_db()
    assert "Waits for the JobSpecs of feature at" in on_feature.reason
    _, rings = count(rung, lambda: set_status(world, "published", branch="feature"))
    assert rings == [("quick", build.pk) for build in (on_feature, for_feature)]
    assert (running.state, queued.state) == ("RUNNING", "RESOLVING")


def test_a_deleted_branch_rings_the_builds_that_wait_for_its_jobspecs(
    world: World, rung: list[tuple[str, Any]]
) -> None:
    world.branch("feature")
    set_status(world, "pending", branch="feature")
    waiting = services.start_build(
        order=services.BuildOrder(
            branch="master", targets=["/shop/one"], fallbacks=["feature"], repository=world.repository
        ),
        by=world.maker,
    )
    resolve(waiting)
    _, rings = count(
        rung, lambda: repository_services.delete_branch(repository=world.repository, name="feature", by=world.maker)
    )
    assert ("quick", waiting.pk) in rings
    resolve(waiting)
    waiting.refresh_from_db()
    assert waiting.state == "RUNNING"


def test_a_publication_that_ends_while_a_build_begins_to_wait_for_it_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_status(world, "pending")
    original = build_services._wait

    def publish_then_wait(*arguments: Any, **options: Any) -> None:
        set_status(world, "published")
        original(*arguments, **options)

    monkeypatch.setattr(build_services, "_wait", publish_then_wait)
    assert world.start("/shop/one").state == "RUNNING"


def test_the_sweep_rings_a_pending_publication_once_in_ten_seconds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_status(world, "pending")
    room = 1
    monkeypatch.setattr("webapp.runtime.doorbell.count_room", lambda _queue: room)
    assert sweeping.ring_pending_publications() == 0
    Publication.objects.update(rung_at=clock.now() - timedelta(seconds=11))
    assert [sweeping.ring_pending_publications() for _ in range(2)] == [1, 0]
    Publication.objects.update(rung_at=clock.now() - timedelta(seconds=11))
    room = 0
    assert sweeping.ring_pending_publications() == 0


def set_status(world: World, status: Literal["pending", "published", "failed"], *, branch: str = "master") -> None:
    sha = repository_queries.get_head(world.repository, branch)
    repository_services.set_publication(
        repository=world.repository, branch=branch, sha=sha, status=PublicationState(status)
    )


def test_pages_say_where_a_build_stands(world: World, client: Client) -> None:
    client.force_login(world.user)
    builds = queue_up(world, 3)
    apart = [world.start(f"/shop/other{n}") for n in range(2)]
    page = client.get("/builds").content.decode()
    assert "1st of 2 in the queue for /shop/one" in page
    assert "2nd of 2 in the queue for /shop/one" in page
    assert "Waits for a worker, 1 job before its own" in page
    assert "Waits for a worker, 2 jobs before its own" in page
    own = client.get(f"/builds/{builds[2].pk}").content.decode()
    assert "It is 2nd of 2 in the queue for /shop/one." in own
    assert "Waits for a worker, 2 jobs before its own." in client.get(f"/builds/{apart[1].pk}").content.decode()


def test_a_followed_build_changes_when_its_place_does(world: World) -> None:
    first, second, third = queue_up(world, 3)
    before = read_progress(third.pk)["version"]
    services.cancel_build(build=second, by=world.maker)
    assert read_progress(third.pk)["version"] != before
    assert first.pk < third.pk


def test_what_a_build_waits_for_follows_later_writes(world: World, client: Client) -> None:
    """It was written down when the build looked; pages and REST say what is true now."""
    first = world.start("/shop/one")
    Transaction.objects.filter(state=TransactionState.OPEN).update(build_id=None, job_id="")
    second, third = world.start("/shop/one"), world.start("/shop/one")
    client.force_login(User.objects.get(pk=world.maker.user_id))
    written = clock.now() + timedelta(hours=3)

    def said(build: Build) -> str:
        reason = client.get(f"/api/v1/builds/{build.pk}").json()["reason"]
        listed = {row["id"]: row["reason"] for row in client.get("/api/v1/builds").json()["results"]}
        assert listed[build.pk] == reason
        assert read_progress(build.pk)["reason"] == reason
        assert escape(reason) in client.get(f"/builds/{build.pk}").content.decode()
        return str(reason)

    assert "not written yet" in said(second)
    seen = read_progress(second.pk)["version"]
    Transaction.objects.filter(state=TransactionState.OPEN).update(written_at=written)
    assert f"last written {written:%Y-%m-%d %H:%M}" in said(second)
    assert read_progress(second.pk)["version"] != seen
    assert said(third) == f"Waits for build {second.pk}, which is before it in the queue for /shop/one."
    for opened in Transaction.objects.filter(state=TransactionState.OPEN):
        abort_transaction(transaction=opened, reason="over")
    assert said(second) == "Nothing is in its way any more: it is planned next."
    services.cancel_build(build=second, by=world.maker)
    assert said(third) == "Nothing is in its way any more: it is planned next."
    assert said(second) == f"Cancelled by {world.maker.username}."
    several = [first, second, third, world.start("/shop/one")]
    for builds in ([third], several):
        with CaptureQueriesContext(connection) as costs:
            queue.read_reasons(builds=builds)
        assert len(costs) == 2
