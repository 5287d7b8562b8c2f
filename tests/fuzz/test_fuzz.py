"""No request is answered with a server error: schema-driven, mutated, and below HTTP. `TRIBUTARY_FUZZ_SEED` repeats a run."""

from __future__ import annotations

import logging
import os
import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.factories import datasets
from tests.factories.everything import World, make_world
from tests.fuzz import spark_traffic
from tests.fuzz.requests import Fuzz, record_pyiceberg
from tests.fuzz.values import mutate_bytes
from tests.integration.repositories.live import LiveServer

pytestmark = [pytest.mark.contract]
SEED = int(os.environ.get("TRIBUTARY_FUZZ_SEED") or random.SystemRandom().randrange(10**6))
SOAK = 100_000


@pytest.fixture
def world(readers: Path, db: None, caplog: pytest.LogCaptureFixture) -> World:
    """One of everything; what is refused over and over fills no log, until the test is over."""
    caplog.set_level(logging.CRITICAL, "webapp")
    return make_world()


def fuzz(world: World, monkeypatch: pytest.MonkeyPatch, *, count: int, seed: int) -> None:
    # An upload that is accepted would be waited for, and there is no worker.
    monkeypatch.setattr("webapp.builds.api.UPLOAD_SECONDS", 0)
    pyiceberg = record_pyiceberg(world)
    table = datasets.a_client(world.users["admin"]).load("shop.raw")
    run = Fuzz(world, random.Random(seed), pyiceberg, spark_traffic.adapt(spark_traffic.read(), table.metadata))
    run.run(count)
    for name, statuses in run.statuses.items():
        print(f"seed {seed}, {name}: {statuses.total()} requests, {dict(sorted(statuses.items()))}")
    assert run.wrong == [], f"seed {seed}: {len(run.wrong)} of {count}\n" + "\n".join(run.wrong[:40])
    for name, statuses in run.statuses.items():
        fine = sum(number for status, number in statuses.items() if status < 400)
        assert fine > statuses.total() / 20, f"{name}: hardly any got through"


@pytest.mark.timeout(600)
def test_no_request_is_answered_with_a_server_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz(world, monkeypatch, count=int(os.environ.get("TRIBUTARY_FUZZ_COUNT") or 600), seed=SEED)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(10))
def test_none_of_a_hundred_thousand_either(world: World, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    fuzz(world, monkeypatch, count=SOAK // 10, seed=SEED + 1 + part)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_spark_still_sends_what_was_recorded(tmp_path: Path) -> None:
    with spark_traffic.running_server(tmp_path) as server:
        sent = {spark_traffic.shape_of(request) for request in spark_traffic.record(server)}
    recorded = {spark_traffic.shape_of(request) for request in spark_traffic.read()}
    assert sent - recorded == set(), "record again: python -m tests.fuzz.spark_traffic"
    assert recorded - sent == set(), "record again: python -m tests.fuzz.spark_traffic"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    home = tmp_path_factory.mktemp("fuzz") / "home"
    home.mkdir(mode=0o700)
    running = LiveServer.start(home, DJANGO_SETTINGS_MODULE="tests.fuzz.settings")
    try:
        yield running
    finally:
        running.close()


HEAD = b"Host: 127.0.0.1\r\nConnection: close\r\n"
MESSAGES = (
    b"GET /login HTTP/1.1\r\n" + HEAD + b"\r\n",
    b"GET /healthz HTTP/1.1\r\n" + HEAD + b"\r\n",
    b"POST /api/v1/tokens HTTP/1.1\r\n" + HEAD + b"Authorization: Basic \xff\xfe\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /login HTTP/1.1\r\n"
    + HEAD
    + b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b",
    b"GET /git/x.git/info/refs?service=git-upload-pack HTTP/1.1\r\n" + HEAD + b"Authorization: Basic \xff\r\n\r\n",
    b"POST /git/x.git/git-receive-pack HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n4\r\n0000\r\n0\r\n\r\n",
    b"POST /iceberg/v1/oauth/tokens HTTP/1.1\r\n" + HEAD + b"Content-Length: 29\r\n\r\ngrant_type=client_credentials&",
    b"GET /iceberg/v1/namespaces/%ff%00/tables?pageToken=%ff HTTP/1.1\r\n"
    + HEAD
    + b"Authorization: Bearer \xff\r\n\r\n",
    b"GET /events/builds/1 HTTP/1.1\r\n" + HEAD + b"Last-Event-ID: " + b"9" * 5000 + b"\r\nCookie: \xff=\xfe\r\n\r\n",
    b"GET /search?q=%ed%a0%80&%ff=%ff HTTP/1.1\r\n" + HEAD + b"Accept-Language: \xff\r\n\r\n",
)


def speak(port: int, message: bytes, *, patience: float) -> bytes:
    """Send bytes and read what comes back; after a while say that there are no more, which ends what is not complete."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(message)
            connection.settimeout(patience)
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(20)
            while chunk := connection.recv(65536):
                answer += chunk
        except OSError:
            pass  # cut off, as one may with whoever speaks no HTTP
    return answer


@pytest.mark.parametrize("count", [200, pytest.param(20_000, marks=pytest.mark.soak)])
@pytest.mark.timeout(1800)
def test_no_bytes_on_a_socket_are_answered_with_a_server_error(server: LiveServer, count: int) -> None:
    dice = random.Random(SEED)
    messages = [*MESSAGES, *(mutate_bytes(dice.choice(MESSAGES), dice) for _ in range(count - len(MESSAGES)))]
    with ThreadPoolExecutor(max_workers=32) as pool:
        answers = list(pool.map(lambda message: speak(server.port, message, patience=1), messages))
    wrong = [
        (message[:300], answer[:200])
        for message, answer in zip(messages, answers, strict=True)
        # A crowd is told to come back, which is no error of the server.
        if answer.startswith(b"HTTP/1.1 5") and not answer.startswith(b"HTTP/1.1 503")
    ]
    assert wrong == [], f"seed {SEED}: {len(wrong)} of {count}: {wrong[:10]}"
    assert sum(answer.startswith(b"HTTP/1.1 ") for answer in answers) > count / 10, f"seed {SEED}: hardly any answers"
    assert speak(server.port, MESSAGES[1], patience=20).startswith(b"HTTP/1.1 200")
    log = (server.home / "web.log").read_text(errors="replace")
    assert "Traceback" not in log, f"seed {SEED}: {log[-3000:]}"
