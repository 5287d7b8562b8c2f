"""The server is killed in the middle of commits and started again; clients repeat with the same Idempotency-Key."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.contract.catalog.conftest import Server, serve, start_server
from tests.factories.catalog import set_ref, snapshot

pytestmark = [pytest.mark.contract, pytest.mark.timeout(240)]
KILLS = 3
COMMITS = 12


class Client:
    """Repeats a request until somebody answers."""

    def __init__(self, server: Server, branch: str | None) -> None:
        self.server = server
        self.headers = {"Authorization": f"Bearer {server.token}"}
        if branch is not None:
            self.headers["X-PLTR-Branch"] = branch

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
                text = None if body is None else json.dumps(body)
                connection.request(method, f"/iceberg/v1/{path}", text, {**self.headers, **headers})
                answer = connection.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
                continue
            if answer.status not in (500, 503):
                return answer.status, json.loads(content) if content else None

    def append(self, table: str) -> int | None:
        """One append; its snapshot when it was acknowledged, None after a conflict."""
        path = f"namespaces/kill/tables/{table}"
        view = self.send("GET", path)[1]["metadata"]
        seen = view["refs"].get("main", {}).get("snapshot-id")
        number = uuid4().int >> 65
        extra = {"snapshot-id": number, "timestamp-ms": int(time.time() * 1000), "parent-snapshot-id": seen}
        made = snapshot(view, **extra) | {"manifest-list": f"{view['location']}/metadata/{number}.avro"}
        body = {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": seen}],
            "updates": [{"action": "add-snapshot", "snapshot": made}, set_ref("main", number)],
        }
        status, answer = self.send("POST", path, body, **{"Idempotency-Key": str(uuid4())})
        assert status in (200, 409), answer
        return number if status == 200 else None


@pytest.fixture
def victim(tmp_path: Path) -> Any:
    """A server of this test alone."""
    running = start_server(tmp_path)
    yield running
    kill_children_too(running.process)


def kill_children_too(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for granian and its worker."""
    listed = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout
    process.kill()
    for child in listed.split():
        subprocess.run(["kill", f"-{signal.SIGKILL:d}", child], check=False)
    process.wait(20)


def test_every_acknowledged_commit_is_there_once(victim: Server) -> None:
    plain = Client(victim, None)
    plain.send("POST", "namespaces", {"namespace": ["kill"]})
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    plain.send("POST", "namespaces/kill/tables", {"name": "t", "schema": schema})
    acknowledged: dict[str | None, list[int]] = {None: [], "b": []}

    def write(branch: str | None) -> None:
        client = Client(victim, branch)
        while len(acknowledged[branch]) < COMMITS:
            number = client.append("t")
            if number is not None:
                acknowledged[branch].append(number)

    threads = [threading.Thread(target=write, args=(branch,)) for branch in acknowledged]
    for thread in threads:
        thread.start()
    for _ in range(KILLS):
        time.sleep(1.5)
        kill_children_too(victim.process)
        victim.process = serve(victim.home, victim.port)
    for thread in threads:
        thread.join(120)
    for branch, expected in acknowledged.items():
        view = Client(victim, branch).send("GET", "namespaces/kill/tables/t")[1]["metadata"]
        parents = {item["snapshot-id"]: item.get("parent-snapshot-id") for item in view["snapshots"]}
        chain, head = [], view["current-snapshot-id"]
        while head is not None:
            chain.append(head)
            head = parents[head]
        assert len(expected) == COMMITS
        assert [number for number in reversed(chain) if number in set(expected)] == expected
    everything = plain.send("GET", "namespaces/kill/tables/t")[1]["metadata"]["snapshots"]
    assert len(everything) == 2 * COMMITS
