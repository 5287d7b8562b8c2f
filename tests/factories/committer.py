"""A client in a process of its own that appends to a table, again and again, whatever happens to the server.

`python -m tests.factories.committer '<order as JSON>'` prints what was acknowledged. A request without an answer, or with
a 5xx, is repeated with the same Idempotency-Key; after a 409 the table is loaded again, as engines do.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import uuid4

PATIENCE_S = 120


@dataclass
class Order:
    """What to do."""

    port: int
    token: str
    table: str
    commits: int
    branch: str | None = None
    timeout_s: float = 30


@dataclass
class Report:
    """What came of it."""

    acknowledged: list[int] = field(default_factory=list)
    conflicts: int = 0
    repeats: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


class Committer:
    """One connection at a time, kept alive as clients do."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.report = Report()
        self._connection: http.client.HTTPConnection | None = None
        namespace, _, name = order.table.rpartition(".")
        self.path = f"/iceberg/v1/namespaces/{namespace.replace('.', '%1F')}/tables/{name}"

    def run(self) -> Report:
        """Append until all commits are acknowledged."""
        started = time.monotonic()
        while len(self.report.acknowledged) < self.order.commits:
            number = self.append()
            if number is None:
                self.report.conflicts += 1
            else:
                self.report.acknowledged.append(number)
        self.report.seconds = time.monotonic() - started
        return self.report

    def append(self) -> int | None:
        """One append; its snapshot, or None after a conflict."""
        view = self.send("GET", self.path + "?snapshots=refs")[1]["metadata"]
        seen = view["refs"].get("main", {}).get("snapshot-id")
        number = uuid4().int >> 65
        snapshot = {
            "snapshot-id": number,
            "sequence-number": view["last-sequence-number"] + 1,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": f"{view['location']}/metadata/{number}.avro",
            "summary": {"operation": "append"},
            "schema-id": view["current-schema-id"],
            **({} if seen is None else {"parent-snapshot-id": seen}),
        }
        body = {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": seen}],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": number, "type": "branch"},
            ],
        }
        status, answer = self.send("POST", self.path, body, key=str(uuid4()))
        assert status in (200, 409), answer
        return number if status == 200 else None

    def send(self, method: str, path: str, body: Any = None, *, key: str = "") -> tuple[int, Any]:
        """Send until somebody answers what is final."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline, f"{method} {path}: no answer in {PATIENCE_S} s"
            try:
                status, content = self._ask(method, path, body, key)
            except (OSError, http.client.HTTPException):
                self._hang_up()
                self.report.repeats += 1
                time.sleep(0.05)
                continue
            self.report.statuses[str(status)] = self.report.statuses.get(str(status), 0) + 1
            if status < 500:
                return status, json.loads(content) if content else None
            self.report.repeats += 1
            time.sleep(0.2)

    def _ask(self, method: str, path: str, body: Any, key: str) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.order.port, timeout=self.order.timeout_s)
        headers = {"Authorization": f"Bearer {self.order.token}"}
        if self.order.branch is not None:
            headers["X-PLTR-Branch"] = self.order.branch
        if key:
            headers["Idempotency-Key"] = key
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


if __name__ == "__main__":
    print(json.dumps(asdict(Committer(Order(**json.loads(sys.argv[1]))).run())))
