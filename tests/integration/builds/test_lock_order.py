"""Two acts on the same datasets in opposite orders: on a database that locks rows, neither waits for the other in a circle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from tests.factories import datasets as make
from tests.factories.build_rows import World, a_jobspec, a_world
from tests.factories.catalog import Answer, Catalog, set_ref, snapshot
from tests.factories.postgres import find_url
from webapp.builds import services
from webapp.builds.models import Build
from webapp.builds.services import sweeping
from webapp.core import clock
from webapp.datasets import services as datasets
from webapp.datasets.models import Dataset
from webapp.datasets.services import recording

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(find_url() is None, reason="SQLite's blocks take turns; test_postgres runs this"),
]
COMPETITOR = "competitor"


@pytest.fixture
def world(home: Any) -> World:
    """Two datasets whose paths have another order than their keys, and two jobs that write one each."""
    world = a_world()
    for name in ("z", "a"):
        datasets.get_or_create_dataset(path=f"/shop/{name}", by=world.maker)
    world.publish(
        a_jobspec("a", inputs=["/shop/raw"], outputs=["/shop/a"]),
        a_jobspec("z", inputs=["/shop/a"], outputs=["/shop/z"]),
    )
    return world


@pytest.fixture
def pausing(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Whoever is not the competitor stops after the first datasets that it locks, until somebody waits for a row."""
    holds = threading.Event()
    lock = recording._lock

    def lock_and_pause(**which: Any) -> None:
        lock(**which)
        if all(which.values()) and threading.current_thread().name != COMPETITOR and not holds.is_set():
            holds.set()
            wait_for_waiter()

    monkeypatch.setattr(recording, "_lock", lock_and_pause)
    yield holds
    holds.set()


def wait_for_waiter() -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
        time.sleep(0.02)
    raise AssertionError("nobody waits")


def lock_all() -> None:
    """What a commit of both datasets does."""
    with transaction.atomic():
        datasets.lock(Dataset.objects.filter(path__in=["/shop/a", "/shop/z"]))


def both(act: Callable[[], object], holds: threading.Event) -> None:
    """Do it while somebody locks both datasets in the order of their keys."""
    errors: list[BaseException] = []

    def compete() -> None:
        try:
            assert holds.wait(20)
            lock_all()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    competitor = threading.Thread(target=compete, name=COMPETITOR)
    competitor.start()
    try:
        act()
    finally:
        competitor.join(30)
    assert errors == []


def test_a_build_begins_beside_a_commit_of_its_datasets(world: World, pausing: threading.Event) -> None:
    build = services.start_build(
        order=services.BuildOrder(branch="master", targets=["/shop/a", "/shop/z"]), by=world.maker
    )
    both(lambda: services.resolve_build(build=build), pausing)
    build.refresh_from_db()
    assert build.state == "RUNNING", build.reason


@pytest.mark.parametrize("end", ["cancelled", "failed downstream", "taken over"])
def test_a_build_ends_beside_a_commit_of_its_datasets(world: World, request: pytest.FixtureRequest, end: str) -> None:
    build = world.start("/shop/a", "/shop/z")
    job = build.jobs.get(number=1)
    pausing: threading.Event = request.getfixturevalue("pausing")
    if end == "cancelled":
        both(lambda: services.cancel_build(build=build, by=world.maker), pausing)
    elif end == "failed downstream":
        build.jobs.filter(pk=job.pk).update(state="FAILED")
        both(lambda: services.advance_build(build=build), pausing)
    else:
        build.jobs.filter(pk=job.pk).update(state="RUNNING", lost=1, lease_until=clock.now().replace(year=2020))
        both(sweeping.take_over_lost_jobs, pausing)
    assert Build.objects.get(pk=build.pk).is_over


def test_a_client_commits_two_tables_beside_a_commit_of_their_datasets(world: World, pausing: threading.Event) -> None:
    """The catalog goes by the keys of its own rows."""
    client = make.a_client(world.user)
    changes = [append_to(client, name) for name in ("a", "z")]
    answers: list[Answer] = []
    both(lambda: answers.append(client.call("POST", "transactions/commit", {"table-changes": changes})), pausing)
    assert [answer.status for answer in answers] == [204]


def append_to(client: Catalog, name: str) -> dict[str, Any]:
    new = snapshot(client.load(f"shop.{name}").metadata, **{"timestamp-ms": 1})
    return {
        "identifier": {"namespace": ["shop"], "name": name},
        "requirements": [],
        "updates": [{"action": "add-snapshot", "snapshot": new}, set_ref("main", new["snapshot-id"])],
    }
