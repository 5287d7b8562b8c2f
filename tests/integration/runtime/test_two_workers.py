"""Two web processes on one port are one installation: what is done at one holds at the other, and once."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
import requests

from tests.integration.repositories.live import LiveServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
PASSWORD = "ines-password-of-tests-1"
SETUP = f"""
from webapp.accounts import services
user = services.create_user(username="ines", password={PASSWORD!r}, by=None, is_admin=True)
result = services.create_token(user=user, name="tests")[1]
"""
WRITERS, COMMITS = 8, 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """An installation with two web processes."""
    server = LiveServer.start(tmp_path_factory.mktemp("home"), workers=2)
    yield server
    server.close()


@pytest.fixture(scope="module")
def token(server: LiveServer) -> str:
    """An admin's token."""
    return str(server.run(SETUP))


def list_workers(server: LiveServer) -> list[int]:
    """The processes that serve."""
    assert server.process is not None
    tasks = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    children = [int(pid) for task in tasks for pid in task.read_text().split()]
    return [pid for pid in children if "webapp.config.web" in Path(f"/proc/{pid}/cmdline").read_text()]


def find_worker(server: LiveServer, connection: http.client.HTTPConnection) -> int:
    """The process at the other end of a connection."""
    ours = connection.sock.getsockname()[1]
    ends = f":{server.port:04X} ", f":{ours:04X} "
    inodes = [
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(ends[0].strip()) and line.split()[2].endswith(ends[1].strip())
    ]
    for pid in list_workers(server):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            if descriptor.is_symlink() and str(descriptor.readlink()) == f"socket:[{inodes[0]}]":
                return pid
    msg = f"nobody holds {inodes}"
    raise AssertionError(msg)


class Door:
    """A connection that stays with one of the processes."""

    def __init__(self, server: LiveServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.ask("GET", "/healthz")
        self.worker = find_worker(server, self._connection)

    def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        """Send a request; status, body and headers."""
        sent = body if isinstance(body, str) or body is None else json.dumps(body)
        kinds = {"Content-Type": "application/json"} if not isinstance(body, str) else {}
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, sent, kinds | names)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        is_json = "json" in (answer.headers["Content-Type"] or "")
        return answer.status, json.loads(text) if is_json and text else text, answer.headers


def find_doors(server: LiveServer) -> list[Door]:
    """A connection to each of the processes."""
    doors: dict[int, Door] = {}
    for _ in range(200):
        door = Door(server)
        doors.setdefault(door.worker, door)
        if len(doors) == 2:
            return list(doors.values())
    msg = f"all connections went to {list(doors)}"
    raise AssertionError(msg)


@pytest.fixture
def doors(server: LiveServer) -> list[Door]:
    """A connection to each of the processes."""
    return find_doors(server)


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Run calls at the same moment."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_one_key_sent_to_both_at_once_has_one_effect(doors: list[Door], token: str) -> None:
    known = {"Authorization": f"Bearer {token}"}
    for round_ in range(5):
        key, name = str(uuid4()), f"once-{round_}"
        document = {"name": name}
        answers = at_once(
            [
                lambda door=door: door.ask("POST", "/api/v1/repositories", document, Idempotency_Key=key, **known)
                for door in doors
            ]
        )
        statuses = sorted(status for status, _body, _headers in answers)
        # The other one waits for nobody: it hears the answer, or that the first is still at work.
        assert statuses in ([201, 201], [201, 409]), answers
        assert all(body["code"] == "idempotency_running" for status, body, _headers in answers if status == 409)
        again = [door.ask("POST", "/api/v1/repositories", document, Idempotency_Key=key, **known) for door in doors]
        assert [status for status, _body, _headers in again] == [201, 201]
        namespace = {"namespace": [name.replace("-", "_")]}
        answers = at_once(
            [
                lambda door=door: door.ask("POST", "/iceberg/v1/namespaces", namespace, Idempotency_Key=key, **known)
                for door in doors
            ]
        )
        assert [status for status, _body, _headers in answers] == [200, 200], answers


def test_what_is_done_at_one_holds_at_the_other_at_once(doors: list[Door], token: str) -> None:
    one, other = doors
    known = {"Authorization": f"Bearer {token}"}
    assert one.ask("POST", "/iceberg/v1/namespaces", {"namespace": ["both"]}, **known)[0] == 200
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    made = one.ask("POST", "/iceberg/v1/namespaces/both/tables", {"name": "t", "schema": schema}, **known)
    assert made[0] == 200
    path = "/iceberg/v1/namespaces/both/tables/t"
    for turn in range(6):
        writer, reader = (one, other) if turn % 2 else (other, one)
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"turn": str(turn)}}]}
        committed = writer.ask("POST", path, change, **known)
        loaded = reader.ask("GET", path, **known)
        assert (committed[0], loaded[0]) == (200, 200)
        assert loaded[1]["metadata"]["properties"]["turn"] == str(turn)
        assert loaded[1]["metadata-location"] == committed[1]["metadata-location"]
        assert writer.ask("GET", path, If_None_Match=loaded[2]["etag"], **known)[0] == 304
    person = {"Authorization": f"Basic {base64.b64encode(f'ines:{PASSWORD}'.encode()).decode()}"}
    status, short, _headers = one.ask("POST", "/api/v1/tokens", {"name": "short"}, **person)
    assert status == 201
    lent = {"Authorization": f"Bearer {short['token']}"}
    assert other.ask("GET", path, **lent)[0] == 200
    assert one.ask("DELETE", f"/api/v1/tokens/{short['id']}", **known)[0] == 204
    assert other.ask("GET", path, **lent)[0] == 401


def test_a_session_of_one_is_a_session_of_the_other(doors: list[Door], server: LiveServer, token: str) -> None:
    assert token
    one, other = doors
    _status, page, headers = one.ask("GET", "/login")
    secret = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert secret is not None
    cookies = "; ".join(line.partition(";")[0] for line in headers.get_all("Set-Cookie") or [])
    form = f"username=ines&password={PASSWORD}&csrfmiddlewaretoken={secret[1]}"
    kind = {"Content_Type": "application/x-www-form-urlencoded", "Referer": f"http://127.0.0.1:{server.port}/login"}
    status, _page, headers = other.ask("POST", "/login", form, Cookie=cookies, **kind)
    assert status == 302
    session = "; ".join(line.partition(";")[0] for line in headers.get_all("Set-Cookie") or [])
    for door in doors:
        assert door.ask("GET", "/repositories", Cookie=session)[0] == 200


def test_eight_writers_of_one_table_lose_and_double_nothing(server: LiveServer, token: str) -> None:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import CommitFailedException

    def open_catalog() -> Any:
        return load_catalog("t", type="rest", uri=f"http://127.0.0.1:{server.port}/iceberg", token=token)

    catalog = open_catalog()
    catalog.create_namespace("crowd")
    catalog.create_table("crowd.t", schema=pa.schema([("id", pa.int64())]))

    def write(writer: int) -> None:
        table = open_catalog().load_table("crowd.t")
        for number in range(COMMITS):
            while True:
                try:
                    table.append(pa.table({"id": [writer * COMMITS + number]}))
                    break
                except CommitFailedException:
                    table.refresh()

    at_once([lambda writer=writer: write(writer) for writer in range(WRITERS)])
    table = catalog.load_table("crowd.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(WRITERS * COMMITS))
    assert len(table.snapshots()) == WRITERS * COMMITS


def test_a_worker_that_is_killed_is_replaced_and_the_other_answers(server: LiveServer, doors: list[Door]) -> None:

    os.kill(doors[0].worker, signal.SIGKILL)
    assert doors[1].ask("GET", "/healthz")[0] == 200
    deadline = time.monotonic() + 60
    while len(list_workers(server)) < 2:
        assert time.monotonic() < deadline, "no other worker came"
        time.sleep(0.2)
    assert requests.get(f"http://127.0.0.1:{server.port}/login", timeout=30).status_code == 200
