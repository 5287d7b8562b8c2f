"""A client in a process of its own that appends to a table, again and again, whatever happens to the server.

`python -m tests.factories.committer '<order as JSON>'` prints what was acknowledged. A request without an answer, or with
a 5xx, is repeated with the same Idempotency-Key; after a 409 the table is loaded again, as engines do.
"""

from __future__ import annotations

import http.client
import json
import shutil
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
    client: str = "rest"
    """`rest` names files that are not there; `copying` copies what the head lists; `pyiceberg` writes a row a commit."""


@dataclass
class Report:
    """What came of it."""

    acknowledged: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    """What PyIceberg wrote with the acknowledged commits."""
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
        manifest_list = f"{view['location']}/metadata/{number}.avro"
        if self.order.client == "copying":
            self._copy_manifest_list(view, manifest_list)
        snapshot = {
            "snapshot-id": number,
            "sequence-number": view["last-sequence-number"] + 1,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": manifest_list,
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

    @staticmethod
    def _copy_manifest_list(view: dict[str, Any], target: str) -> None:
        """List the files of the head again, as an append of nothing does, so that real readers find their rows."""
        head = view["refs"]["main"]["snapshot-id"]
        [listed] = [snapshot["manifest-list"] for snapshot in view["snapshots"] if snapshot["snapshot-id"] == head]
        shutil.copyfile(listed.removeprefix("file://"), target.removeprefix("file://"))

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


def append_by_pyiceberg(order: Order) -> Report:
    """Append one row a commit with the real client until all commits are acknowledged."""
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import CommitFailedException

    header = {} if order.branch is None else {"header.X-PLTR-Branch": order.branch}
    uri = f"http://127.0.0.1:{order.port}/iceberg"
    catalog = load_catalog("t", **{"type": "rest", "uri": uri, "token": order.token, **header})
    report, started = Report(), time.monotonic()
    while len(report.acknowledged) < order.commits:
        row = uuid4().int >> 65
        table = catalog.load_table(order.table)
        try:
            table.append(pa.table({"id": pa.array([row], pa.int64())}))
        except CommitFailedException:
            report.conflicts += 1
            continue
        snapshot = table.current_snapshot()
        assert snapshot is not None
        report.acknowledged.append(snapshot.snapshot_id)
        report.rows.append(row)
    report.seconds = time.monotonic() - started
    return report


def carry_out(order: Order) -> Report:
    """Do what the order says; return what came of it."""
    return append_by_pyiceberg(order) if order.client == "pyiceberg" else Committer(order).run()


if __name__ == "__main__":
    print(json.dumps(asdict(carry_out(Order(**json.loads(sys.argv[1]))))))
