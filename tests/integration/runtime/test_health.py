"""Health, and the API's own documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError
from django.db.backends.utils import CursorWrapper
from django.test import Client

from webapp.core import clock
from webapp.core.models import Heartbeat
from webapp.runtime import health as queries
from webapp.runtime.services import record_heartbeat

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PARTS = {"database", "broker", "worker", "spark", "warehouse", "disk", "sandbox", "repositories", "backlog"}


@pytest.fixture(autouse=True)
def empty_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests leave messages that no worker takes."""
    monkeypatch.setattr(queries.doorbell, "measure_wait", lambda _queue: None)


def test_healthz_answers_without_any_other_part(client: Client) -> None:
    assert client.get("/healthz").status_code == 200


def test_readyz_names_every_part_and_is_503_while_one_is_missing(client: Client) -> None:
    answer = client.get("/readyz")

    assert answer.status_code == 503
    body = answer.json()
    assert body["ready"] is False
    assert set(body) >= PARTS
    # the threads of pages are a part where another test has imported the web's own module
    assert set(body["details"]) - {"pages", "catalog"} == PARTS
    assert body["database"] == "ok"
    assert body["worker"] == "down"


def test_health_is_json_and_healthz_answers_while_the_database_is_away(
    client: Client, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(admin)

    def refuse(*_: object, **__: object) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(CursorWrapper, "execute", refuse)

    assert client.get("/healthz").status_code == 200
    answer = client.get("/readyz")
    assert (answer.status_code, answer["Content-Type"]) == (503, "application/json")
    assert (answer.json()["database"], answer.json()["worker"]) == ("down", "down")


@pytest.mark.parametrize("part", queries.WORKERS)
def test_worker_counts_while_its_heartbeat_is_fresh(client: Client, part: str) -> None:
    for each in queries.WORKERS:
        record_heartbeat(part=each)
    assert client.get("/readyz").json()["worker"] == "ok"

    Heartbeat.objects.filter(part=part).update(at=clock.now().replace(year=2020))

    body = client.get("/readyz").json()
    assert body["worker"] == "down"
    assert body["details"]["worker"] == f"no sign of {part}"


def test_worker_is_stuck_while_the_oldest_quick_message_is_old(client: Client, monkeypatch) -> None:
    for each in queries.WORKERS:
        record_heartbeat(part=each)
    waits = {"quick": queries.LATE_S - 1, "builds": 10 * queries.LATE_S}
    monkeypatch.setattr(queries.doorbell, "measure_wait", waits.get)
    body = client.get("/readyz").json()
    assert body["worker"] == "ok", "jobs wait for as long as others run"
    assert "the oldest message of builds waits for 600 s" in body["details"]["worker"]

    waits["quick"] = queries.LATE_S + 1
    body = client.get("/readyz").json()
    assert body["worker"] == "stuck"
    assert "the oldest message of quick waits for 61 s" in body["details"]["worker"]


def test_warehouse_that_cannot_be_written_is_down(client: Client, settings, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    settings.TRIBUTARY_WAREHOUSE = (blocked / "warehouse").as_uri()

    assert client.get("/readyz").json()["warehouse"] == "down"


def test_a_prefix_beside_the_warehouse_is_made_and_must_be_written_too(
    client: Client, settings, tmp_path: Path
) -> None:
    settings.TRIBUTARY_WAREHOUSE = (tmp_path / "warehouse").as_uri()
    settings.TRIBUTARY_LOCATIONS = ((tmp_path / "lake").as_uri(),)

    body = client.get("/readyz").json()
    assert body["warehouse"] == "ok"
    assert "tables" in body["details"]["disk"]

    (tmp_path / "file").touch()
    settings.TRIBUTARY_LOCATIONS = ((tmp_path / "file" / "lake").as_uri(),)

    body = client.get("/readyz").json()
    assert (body["warehouse"], "lake" in body["details"]["warehouse"]) == ("down", True)


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("amqp://user:secret@broker/vhost", 5672),
        ("amqps://broker", 5671),
        ("redis://broker/0", 6379),
        ("redis://broker:7000/0", 7000),
    ],
)
def test_broker_is_asked_at_the_port_of_its_kind(settings, monkeypatch, url: str, port: int) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(
        "webapp.runtime.health.answers_tcp", lambda host, port: bool(asked.append((host, port))) or True
    )
    settings.CELERY_BROKER_URL = url

    assert queries._broker().works
    assert asked == [("broker", port)]


def test_broker_of_an_unknown_kind_without_a_port_is_down_and_says_why(settings) -> None:
    settings.CELERY_BROKER_URL = "sqs://broker"

    health = queries._broker()
    assert (health.works, "names no port" in health.detail) == (False, True)


def test_openapi_document_is_3_1_and_lists_the_contract(client: Client, admin: User) -> None:
    document = json.loads(client.get("/api/v1/openapi.json").content)

    assert document["openapi"].startswith("3.1")
    assert {"/api/v1/tokens", "/api/v1/users", "/api/v1/groups", "/api/v1/audit"} <= set(document["paths"])


def test_docs_work_under_the_strict_policy(client: Client) -> None:
    answer = client.get("/api/v1/docs")

    assert answer.status_code == 200
    assert b"swagger-ui" in answer.content
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert b"<script>" not in answer.content
