"""A Spark cluster of an administrator's own, which cannot keep repositories apart, and repositories that are kept off it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Tags, run_checks
from django.test import Client

from tests.factories.build_rows import World, a_jobspec, a_world
from webapp.builds.models import Job
from webapp.builds.rules.states import JobState
from webapp.builds.services import running
from webapp.comparisons.models import Comparison
from webapp.comparisons.services import spark
from webapp.datasets.models import Dataset
from webapp.dispatch.logs import LogWriter
from webapp.runtime.probes import answers_tcp

pytestmark = [pytest.mark.contract, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def cluster(settings: Any) -> Iterator[None]:
    """A server of `SPARK_REMOTE` that listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings.SPARK_REMOTE = f"sc://127.0.0.1:{listener.getsockname()[1]}"
        settings.TRIBUTARY_SPARK_OPENER = ""
        yield


@pytest.fixture
def shop(home: Path) -> World:
    """A repository with a Spark transform."""
    world = a_world()
    world.publish(replace(a_jobspec("sums", inputs=["/shop/raw"], outputs=["/shop/sums"]), profile="spark"))
    return world


def run_job(world: World) -> Job:
    """Build and run the one job; without a job runner it cannot begin."""
    world.start("/shop/sums")
    Job.objects.update(state=JobState.RUNNING, attempt=1, worker="w", lease_until="2999-01-01T00:00Z")
    job = Job.objects.select_related("build").get()
    running._Attempt(job=job, build=job.build, log=LogWriter(Path("/dev/null")), waited_for="").run()
    job.refresh_from_db()
    return job


def list_warnings() -> list[tuple[str | None, str]]:
    messages = run_checks(tags=[Tags.security], include_deployment_checks=True)
    return [(message.id, message.msg) for message in messages if str(message.id).startswith("tributary")]


def test_the_deployment_check_names_who_reads_everything(settings: Any) -> None:
    ((code, message),) = list_warnings()
    assert code == "tributary.W001"
    assert message.startswith("Spark transforms of every repository can read every table")
    settings.TRIBUTARY_SPARK_REPOSITORIES = frozenset({"etl", "shop"})
    ((_, message),) = list_warnings()
    assert message.startswith("Spark transforms of etl, shop can read every table")
    settings.TRIBUTARY_SPARK_OPENER = "/a/socket"
    assert list_warnings() == []


def test_the_deployment_check_finds_keys_to_the_whole_bucket(settings: Any) -> None:
    settings.SPARK_REMOTE, settings.TRIBUTARY_S3_SHARE_KEYS = "", True
    assert [code for code, _ in list_warnings()] == ["tributary.W002"]
    settings.TRIBUTARY_S3_ROLE = "arn:aws:iam::1:role/tables"
    assert list_warnings() == []


def test_the_state_of_the_server_says_it_first(client: Client, shop: World) -> None:
    said = "SPARK_REMOTE does not keep repositories apart"
    health = client.get("/readyz").json()
    assert (health["spark"], health["details"]["spark"].startswith(said)) == ("shared", True)
    client.force_login(shop.user)
    assert said in client.get("/home/server").text


@pytest.mark.parametrize("allowed", [frozenset(), frozenset({"shop"})])
def test_repositories_use_the_cluster_unless_others_are_listed(
    settings: Any, shop: World, allowed: frozenset[str]
) -> None:
    settings.TRIBUTARY_SPARK_REPOSITORIES = allowed
    job = run_job(shop)
    assert (job.state, "kept off" in job.reason) == (JobState.RUN_PENDING, False), job.reason


def test_a_repository_that_is_not_listed_is_kept_off_the_cluster(settings: Any, shop: World) -> None:
    settings.TRIBUTARY_SPARK_REPOSITORIES = frozenset({"etl"})
    job = run_job(shop)
    assert (job.state, (job.error or {}).get("code")) == (JobState.FAILED, "spark_kept_off"), job.reason
    assert "TRIBUTARY_SPARK_REPOSITORIES" in job.reason


def test_rows_of_a_repository_that_is_kept_off_are_not_compared_there(
    settings: Any, shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = Comparison(dataset=Dataset.objects.get(path="/shop/raw"), attempt=1)
    assert spark.offer_spark(comparison=comparison, table_folder="/tables/raw")[0] is not None
    settings.TRIBUTARY_SPARK_REPOSITORIES = frozenset({"etl"})
    assert spark.offer_spark(comparison=comparison, table_folder="/tables/raw") == (None, spark.KEPT_OFF)
    settings.TRIBUTARY_SPARK_OPENER = "/a/socket"
    monkeypatch.setattr("webapp.runtime.health.answers_http2", answers_tcp)
    (Path(settings.TRIBUTARY_HOME) / "run").mkdir(exist_ok=True)
    (Path(settings.TRIBUTARY_HOME) / "run" / "spark.ready").touch()
    assert spark.offer_spark(comparison=comparison, table_folder="/tables/raw")[0] is not None
