"""Transactions that something needs: no client removes their snapshots, and a job whose pin is gone says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import BadRequestError

from tests.factories import datasets as make
from tests.factories import repositories
from tests.factories.build_rows import World, a_jobspec, a_world
from tests.factories.catalog import Answer, table_path
from webapp.accounts import services as accounts
from webapp.builds.models import Build, Job, JobInput
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.services import builds, pins, running
from webapp.catalog import queries as catalog
from webapp.catalog.services import branches
from webapp.core.errors import Conflict
from webapp.core.principals import JobScope
from webapp.datasets.models import Dataset, DatasetBranch, Transaction
from webapp.dispatch.logs import LogWriter
from webapp.pulls import services as pulls
from webapp.pulls.models import PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
RAW = "shop.raw"


@pytest.fixture
def world(home: Any) -> World:
    """Return a chain of two transforms over /shop/raw."""
    made = a_world()
    made.publish(
        a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]),
        a_jobspec("two", inputs=["/shop/one"], outputs=["/shop/two"]),
    )
    return made


def newest() -> Transaction:
    """The transaction that master of /shop/raw shows."""
    shown = DatasetBranch.objects.get(dataset__path="/shop/raw", name="master").transaction
    assert shown is not None
    return shown


def write(world: World) -> Transaction:
    """Let master move on; return what it showed before."""
    before = newest()
    make.write(make.a_client(world.user), before.dataset, rows=1, total=4)
    return before


def expire(world: World, *rows: Transaction) -> Answer:
    """Remove the snapshots of transactions as a client does."""
    update = {"action": "remove-snapshots", "snapshot-ids": [row.snapshot_id for row in rows]}
    return make.a_client(world.user).commit(rows[0].dataset.table, update)


def lose(row: Transaction) -> None:
    """Remove the snapshot of a transaction past all checks."""
    branches._change_all(
        [row.dataset.table],
        lambda base: {
            **base,
            "snapshots": [each for each in base["snapshots"] if each["snapshot-id"] != row.snapshot_id],
        },
        by=None,
    )


def check_refused(answer: Answer, row: Transaction, *words: str) -> None:
    assert (answer.status, answer.error[0]) == (400, "ValidationException")
    for word in (str(row.snapshot_id), row.dataset.path, row.pk, row.branch_name, *words):
        assert word in answer.error[1]


@pytest.mark.parametrize("state", [JobState.WAITING, JobState.RUN_PENDING, JobState.RUNNING, JobState.ABORT_PENDING])
def test_catalog_keeps_what_an_unfinished_job_reads(world: World, state: JobState) -> None:
    build = world.start("/shop/one")
    pinned = write(world)
    Job.objects.update(state=state, lease_until="2999-01-01T00:00Z")
    check_refused(expire(world, pinned), pinned, f"job 1 of build {build.pk} reads it", "cancel")
    assert catalog.get_metadata(table=RAW)["snapshots"][0]["snapshot-id"] == pinned.snapshot_id


def test_catalog_lets_go_what_a_finished_job_read(world: World) -> None:
    build = world.start("/shop/one")
    pinned = write(world)
    builds.call_off_build(build=build, reason="Enough.")
    assert expire(world, pinned).status == 200
    assert len(catalog.get_metadata(table=RAW)["snapshots"]) == 1


def test_catalog_keeps_what_a_build_is_to_read(world: World) -> None:
    pinned = write(world)
    build = world.start("/shop/one", resolve=False, pins={"/shop/raw": pinned.pk})
    check_refused(expire(world, pinned), pinned, f"build {build.pk} is to read it")
    Build.objects.update(state=BuildState.ABORTED)
    assert expire(world, pinned).status == 200


@pytest.mark.parametrize("is_whole_commit", [True, False])
def test_pyiceberg_hears_what_needs_a_snapshot(world: World, *, is_whole_commit: bool) -> None:
    build = world.start("/shop/one")
    pinned = write(world)
    write(world)
    table = make.a_pyiceberg(world.user).load_table(RAW)
    ids = [each.snapshot_id for each in table.metadata.snapshots[:-1]] if is_whole_commit else [pinned.snapshot_id]
    with pytest.raises(BadRequestError, match=f"job 1 of build {build.pk} reads it"):
        table.maintenance.expire_snapshots().by_ids(ids).commit()
    assert len(catalog.get_metadata(table=RAW)["snapshots"]) == 3


def test_catalog_keeps_what_a_branch_without_a_place_shows(world: World) -> None:
    shown = newest()
    DatasetBranch.objects.create(dataset=shown.dataset, name="side", name_lower="side", transaction=shown)
    write(world)
    check_refused(expire(world, shown), shown, "branch side shows it")
    DatasetBranch.objects.filter(name="side").delete()
    assert expire(world, shown).status == 200


def test_catalog_keeps_what_an_open_transaction_stands_on(world: World) -> None:
    stands_on = newest()
    side = DatasetBranch.objects.create(
        dataset=stands_on.dataset, name="side", name_lower="side", transaction=stands_on
    )
    opened = make.a_transaction(stands_on.dataset, world.user, branch="side")
    write(world)
    assert DatasetBranch.objects.get(pk=side.pk).transaction == opened
    check_refused(expire(world, stands_on), stands_on, f"open transaction {opened.pk} of branch side")


def test_register_overwrite_keeps_what_a_job_reads(world: World) -> None:
    first = catalog.get_file(table=RAW).location
    write(world)
    build = world.start("/shop/one")
    pinned = newest()
    admin = make.a_client(make.a_user())
    body = {"name": "raw", "metadata-location": first, "overwrite": True}
    answer = admin.call("POST", "namespaces/shop/register", body)
    check_refused(answer, pinned, f"job 1 of build {build.pk} reads it")
    builds.call_off_build(build=build, reason="Enough.")
    assert admin.call("POST", "namespaces/shop/register", body).status == 200


def test_table_that_a_job_reads_cannot_be_dropped(world: World) -> None:
    build = world.start("/shop/one")
    client = make.a_client(world.user)
    answer = client.call("DELETE", table_path(RAW))
    assert answer.status == 409
    assert f"job 1 of build {build.pk} reads it" in answer.error[1]
    builds.call_off_build(build=build, reason="Enough.")
    assert client.call("DELETE", table_path(RAW)).status == 204


def test_catalog_shows_no_empty_table_for_a_lost_pin(world: World, tmp_path: Path) -> None:
    build = world.start("/shop/one")
    pinned = write(world)
    job = build.jobs.get()
    attempt = running._Attempt(job=job, build=build, log=LogWriter(tmp_path / "log"), waited_for="")
    secret = accounts.create_token(user=world.user, name="job", job_scope=attempt._scope)[1]
    client = make.Catalog(secret, job.staging_branch)
    assert client.load(RAW).metadata["current-snapshot-id"] == pinned.snapshot_id
    lose(pinned)
    answer = client.load(RAW)
    assert (answer.status, answer.error[0]) == (410, "NotFoundException")
    assert answer.error[1].startswith(f"/shop/raw: transaction {pinned.pk} on branch master is gone")


def test_scope_of_an_older_release_names_the_branch(world: World) -> None:
    build = world.start("/shop/one")
    pinned = write(world)
    job = build.jobs.get()
    pin = {"branch": "master", "snapshot_id": pinned.snapshot_id, "schema_id": 0, "spec_id": 0, "order_id": 0}
    scope = JobScope(job.pk, job.staging_branch, "master", ("master",), inputs={RAW: pin})
    secret = accounts.create_token(user=world.user, name="job", job_scope=scope)[1]
    lose(pinned)
    answer = make.Catalog(secret, job.staging_branch).load(RAW)
    assert answer.error[1].startswith("/shop/raw: transaction unknown on branch master is gone")


class TestReadNewest:
    def lose_input(self, world: World, **order: Any) -> tuple[Job, Transaction]:
        build = world.start("/shop/one", **order)
        pinned = write(world)
        lose(pinned)
        return build.jobs.get(), pinned

    def test_input_names_what_is_read(self, world: World) -> None:
        job, pinned = self.lose_input(world)
        said = pins.read_newest(job=job, gone=pins.find_gone(job=job))
        assert job.inputs.get().transaction == newest() != pinned
        assert said == (
            f"/shop/raw: transaction {pinned.pk} on branch master is gone, its snapshot has expired. "
            f"Job 1 reads transaction {newest().pk} instead."
        )
        assert Build.objects.get(pk=job.build_id).notes == [said]
        assert pins.find_gone(job=job) == []

    def test_pinned_build_fails(self, world: World) -> None:
        pinned = newest()
        job, _ = self.lose_input(world, pins={"/shop/raw": pinned.pk})
        with pytest.raises(Conflict, match=f"transaction {pinned.pk} on branch master is gone.*asked to read this one"):
            pins.read_newest(job=job, gone=pins.find_gone(job=job))
        assert job.inputs.get().transaction == pinned

    def test_input_of_the_same_build_fails(self, world: World) -> None:
        job, pinned = self.lose_input(world)
        maker = Job.objects.create(build=job.build, number=7, state=JobState.COMPLETED)
        JobInput.objects.filter(job=job).update(from_job=maker)
        with pytest.raises(Conflict, match=f"transaction {pinned.pk} .* is gone.*Job 7 of this build made it"):
            pins.read_newest(job=job, gone=pins.find_gone(job=job))

    def test_branch_without_another_one_fails(self, world: World) -> None:
        job = world.start("/shop/one").jobs.get()
        lose(newest())
        with pytest.raises(Conflict, match=f"transaction {newest().pk} .* is gone.*no other one to read"):
            pins.read_newest(job=job, gone=pins.find_gone(job=job))

    def test_removed_transaction_fails(self, world: World) -> None:
        job = world.start("/shop/one").jobs.get()
        JobInput.objects.update(transaction=None)
        with pytest.raises(Conflict, match="/shop/raw: its transaction on branch master is gone.*dataset was removed"):
            pins.read_newest(job=job, gone=pins.find_gone(job=job))


def open_pull(world: World) -> PullRequest:
    """Open a pull request that changes /shop/raw."""
    repositories.a_branch(world.repository, "feature", by=world.maker)
    repositories.a_commit(world.repository, {"notes.md": "one"}, by=world.maker, branch="feature")
    pull = pulls.open_pull(repository=world.repository, title="One", source="feature", target="master", by=world.maker)
    pull.datasets.create(path="/shop/raw", dataset=Dataset.objects.get(path="/shop/raw"), change="modified")
    return pull


def test_open_pull_request_keeps_what_it_shows(world: World) -> None:
    pinned = newest()
    pull = open_pull(world)
    row = pull.datasets.get()
    row.before = pinned
    row.save()
    write(world)
    check_refused(expire(world, pinned), pinned, f"pull request shop#{pull.number} shows it")
    row.comparisons.create(name="this", after=pinned)
    row.before = None
    row.save()
    check_refused(expire(world, pinned), pinned, f"pull request shop#{pull.number} shows it")
    row.comparisons.all().delete()
    pulls.close_pull(pull=pull, by=world.maker)
    assert expire(world, pinned).status == 200


@pytest.mark.parametrize("kind", ["review", "verdict"])
def test_open_pull_request_keeps_what_reviewers_saw(world: World, kind: str) -> None:
    pinned = newest()
    pull = open_pull(world)
    if kind == "review":
        seen = {"transactions": {"/shop/raw": pinned.pk}}
        pull.reviews.create(reviewer=world.user, verdict="approve", seen=seen)
    else:
        pull.verdicts.create(reviewer=world.user, path="/shop/raw", verdict="approve", transaction=pinned.pk)
    write(world)
    check_refused(expire(world, pinned), pinned, f"shop#{pull.number}")


def test_refusal_hides_a_repository_that_the_client_may_not_see(world: World) -> None:
    pinned = newest()
    secret = a_world("secret")
    open_pull(secret).datasets.update(before=pinned)
    write(world)
    answer = expire(world, pinned)
    check_refused(answer, pinned, "an open pull request shows it")
    assert "secret" not in answer.error[1]
