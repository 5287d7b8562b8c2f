"""A ring asks once for a thing, and never fails who rings, whatever the broker does."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tests.factories.broker import ringing, running_redis
from tests.factories.builds import ROOT
from webapp.builds.services import sweeping
from webapp.comparisons.services import comparisons
from webapp.core import clock
from webapp.repositories.services import webhooks
from webapp.runtime import broker, doorbell
from webapp.runtime.broker import MessageFile

pytestmark = pytest.mark.integration
PATIENCE_S = 8
"""Generous: a ring that tried again as Celery does by itself takes 20 seconds."""


def test_a_thing_is_asked_for_once_until_a_worker_has_taken_it(tmp_path: Path) -> None:
    path = tmp_path / "messages.sqlite3"
    with ringing("", {"path": str(path)}, "webapp.runtime.broker:Transport"):
        for _ in range(20):
            assert doorbell.ring("a.task", queue="quick", id=1)
        assert doorbell.ring("a.task", queue="quick", id=2)
        assert doorbell.ring("another.task", queue="quick", id=1)
        assert doorbell.count_messages("quick") == 3
        messages = MessageFile(path)
        assert '"a.task"' in (messages.take("quick") or "")
        messages.close()
        assert doorbell.ring("a.task", queue="quick", id=1)
        assert doorbell.count_messages("quick") == 3
        assert doorbell.count_room("quick") == doorbell.ROOM - 3


def test_the_age_of_the_oldest_message_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "messages.sqlite3"
    now = time.monotonic()
    with ringing("", {"path": str(path)}, "webapp.runtime.broker:Transport"):
        assert doorbell.measure_wait("quick") is None
        assert doorbell.ring("a.task", queue="quick", id=1)
        monkeypatch.setattr(broker.time, "monotonic", lambda: now + 50)
        assert doorbell.ring("a.task", queue="quick", id=1)
        assert doorbell.ring("a.task", queue="quick", id=2)
        assert 49 < (doorbell.measure_wait("quick") or 0) <= 50
        assert doorbell.measure_wait("builds") is None
        monkeypatch.setattr(broker.time, "monotonic", lambda: 7.0)  # the host was started again
        assert doorbell.measure_wait("quick") == 7.0


def test_messages_of_the_previous_release_have_no_age(tmp_path: Path) -> None:
    path = tmp_path / "messages.sqlite3"
    table = "CREATE TABLE message (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL)"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute(table)
        old.execute("INSERT INTO message (queue, key, body) VALUES ('quick', 'a', '{}')")
        messages = MessageFile(path)
        assert messages.measure_wait("quick") is None
        messages.put("quick", "b", "{}")
        # A process of that release goes on with the file.
        old.execute("INSERT INTO message (queue, key, body) VALUES ('quick', 'c', '{}')")
        assert messages.measure_wait("quick") is not None
        assert [messages.take("quick") for _ in range(4)] == ["{}", "{}", "{}", None]
        messages.close()


def test_redis_tells_the_age_of_the_oldest_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_redis(tmp_path) as redis, ringing(redis.url):
        assert doorbell.measure_wait("quick") is None
        assert doorbell.ring("a.task", queue="quick", id=1)
        later = clock.now() + timedelta(seconds=50)
        monkeypatch.setattr(clock, "now", lambda: later)
        assert doorbell.ring("a.task", queue="quick", id=2)
        assert 49 < (doorbell.measure_wait("quick") or 0) <= 51


def test_nothing_else_sends_messages() -> None:
    """A message that is sent past the doorbell fails a request whose work is done already."""
    sends = re.compile(r"\.(delay|apply_async|send_task)\(")
    senders = [path.name for path in (ROOT / "webapp").rglob("*.py") if sends.search(path.read_text())]
    assert senders == ["doorbell.py"]


def test_a_broker_whose_disk_is_full_is_missed_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "messages.sqlite3"
    path.mkdir()  # no file can be opened there
    with ringing("", {"path": str(path)}, "webapp.runtime.broker:Transport") as bell:
        assert not doorbell.ring("a.task", queue="quick", id=1)
        assert bell.missed == 1
        path.rmdir()
        bell._silent_until = 0
        assert doorbell.ring("a.task", queue="quick", id=1)


def test_redis_that_is_away_costs_a_moment_once_and_is_used_again(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis, ringing(redis.url) as bell:
        assert doorbell.ring("a.task", queue="quick", id=1)
        assert doorbell.count_messages("quick") == 1
        redis.stop()
        started = time.monotonic()
        assert [doorbell.ring("a.task", queue="quick", id=n) for n in range(50)] == [False] * 50
        assert time.monotonic() - started < PATIENCE_S
        assert bell.missed == 50
        assert doorbell.count_room("quick") == 0
        redis.start()
        bell._silent_until = 0
        assert doorbell.ring("a.task", queue="quick", id=1)
        assert doorbell.count_messages("quick") == 1


def test_redis_that_takes_connections_and_never_answers_is_given_up(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis, ringing(redis.url) as bell:
        assert doorbell.ring("a.task", queue="quick", id=1)
        os.kill(redis.process.pid, signal.SIGSTOP)
        try:
            for _ in range(2):  # with the connection that there is, and with a new one
                bell._silent_until = 0
                started = time.monotonic()
                assert not doorbell.ring("a.task", queue="quick", id=1)
                assert time.monotonic() - started < PATIENCE_S
        finally:
            os.kill(redis.process.pid, signal.SIGCONT)


def test_an_address_that_swallows_what_is_sent_is_given_up() -> None:
    """AMQP's greeting never comes; the connection itself is made by the kernel."""
    listener = subprocess.Popen(
        [
            "python3",
            "-c",
            "import socket,time; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1],flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert listener.stdout is not None
        port = int(listener.stdout.readline())
        with ringing(f"amqp://127.0.0.1:{port}"):
            started = time.monotonic()
            assert not doorbell.ring("a.task", queue="quick", id=1)
            assert time.monotonic() - started < PATIENCE_S
    finally:
        listener.kill()
        listener.wait()


@pytest.mark.django_db
def test_no_sweep_rings_again_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a broker that keeps a message twice, each of them would add messages for as long as no worker takes any."""
    asked: list[str] = []
    monkeypatch.setattr("webapp.runtime.doorbell.count_room", lambda queue: bool(asked.append(queue)) and 1)
    for sweep in (
        comparisons.sweep_comparisons,
        webhooks.sweep_deliveries,
        sweeping.ring_pending_publications,
        sweeping.ring_resolving_builds,
        sweeping.ring_waiting_jobs,
    ):
        sweep()
    assert asked == ["quick", "quick", "quick", "quick", "builds"]
