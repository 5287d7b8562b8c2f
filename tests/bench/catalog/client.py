"""One raw HTTP client for every server: what is measured is the server, not a catalog library in front of it."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

NAMESPACE = "bench"
BRANCH_HEADER = "x-pltr-branch"
COLUMNS = 10
_SUMMARY = {
    "operation": "append",
    "added-data-files": "1",
    "added-records": "1000",
    "added-files-size": "123456",
    "changed-partition-count": "1",
    "total-records": "1000000",
    "total-files-size": "99999999",
    "total-data-files": "1000",
    "total-delete-files": "0",
    "total-position-deletes": "0",
    "total-equality-deletes": "0",
    "engine-name": "spark",
    "engine-version": "4.1.4",
}
_SCHEMA = {
    "type": "struct",
    "fields": [{"id": n, "name": f"c{n}", "required": False, "type": "long"} for n in range(1, COLUMNS + 1)],
}
_PAUSE_S = 5
_ids = itertools.count(time.time_ns())


@dataclass(frozen=True)
class Contender:
    """A running server, and how it is spoken to."""

    name: str
    port: int
    base: str
    """The path before `namespaces`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    keeps_snapshots: bool = True
    """Whether it shows the snapshots before the current one."""

    def connect(self) -> Client:
        """A client with a connection of its own."""
        return Client(self)


@dataclass(frozen=True)
class Answer:
    """A response, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, of an answer that must be a good one."""
        assert self.status == 200, f"{self.status} {self.body[:500]!r}"
        return json.loads(self.body)


class Client:
    """A connection that is kept open while it is used: after a pause a server may have closed it."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self._used = time.monotonic()
        self._connection = HTTPConnection("127.0.0.1", contender.port, timeout=60)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request and read the whole answer."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        typed = {} if data is None else {"content-type": "application/json"}
        if time.monotonic() - self._used > _PAUSE_S:
            self._connection.close()  # the next request opens it again
        self._connection.request(
            method,
            f"{self.contender.base}{path}",
            data,
            {"accept-encoding": "identity", **typed, **self.contender.headers, **(headers or {})},
        )
        response = self._connection.getresponse()
        found = response.read()
        self._used = time.monotonic()
        return Answer(response.status, {key.lower(): value for key, value in response.getheaders()}, found)

    def create_namespace(self, name: str) -> None:
        """Make a namespace."""
        self.call("POST", "namespaces", {"namespace": [name]}).json()

    def create_table(self, name: str, namespace: str = NAMESPACE, *, spec: Mapping[str, Any] | None = None) -> None:
        """Make an empty table, partitioned where a spec is given."""
        made: dict[str, Any] = {"name": name, "schema": _SCHEMA, "stage-create": False, "properties": {}}
        if spec is not None:
            made["partition-spec"] = spec
        self.call("POST", f"namespaces/{namespace}/tables", made).json()

    def load(self, name: str, namespace: str = NAMESPACE, **headers: str) -> Answer:
        """Load a table."""
        return self.call("GET", f"namespaces/{namespace}/tables/{name}", headers=headers)


class Reader:
    """Sends the same request again and again over a bare socket, so that the server and not the client is at work."""

    def __init__(self, contender: Contender, path: str) -> None:
        headers = {"host": f"127.0.0.1:{contender.port}", "accept-encoding": "identity", **contender.headers}
        lines = [f"GET {contender.base}{path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
        self._request = "\r\n".join([*lines, "", ""]).encode()
        self._socket = socket.create_connection(("127.0.0.1", contender.port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")

    def read(self) -> Any:
        """The body of the next answer, which must be a good one."""
        self._socket.sendall(self._request)
        status = self._stream.readline()
        assert status.split()[1] == b"200", status
        length = 0
        while (line := self._stream.readline()) != b"\r\n":
            name, _, text = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(text)
            assert name.lower() != b"transfer-encoding", "only bodies of a known length are read"
        return json.loads(self._stream.read(length))


class Writer:
    """Appends to a table as an engine does: adds a snapshot to the one it knows, and starts again where it lost."""

    def __init__(self, client: Client, table: str, namespace: str = NAMESPACE, *, reads_answers: bool = False) -> None:
        self.client = client
        self._reads_answers = reads_answers
        self.table = table
        self.namespace = namespace
        self.parents: dict[int, int | None] = {}
        """What was acknowledged: each snapshot and the one it was put upon."""
        self.lost_races = 0
        self.refresh()

    def refresh(self) -> None:
        """Learn the table's state."""
        metadata = self.client.load(self.table, self.namespace).json()["metadata"]
        self.uuid = metadata["table-uuid"]
        self.location = metadata["location"]
        self.sequence = metadata["last-sequence-number"]
        # Nessie says -1 of a table without a snapshot.
        head = (metadata.get("refs") or {}).get("main", {}).get("snapshot-id", -1)
        self.head: int | None = None if head == -1 else head

    def append(self) -> None:
        """Commit one more snapshot, whatever others do meanwhile."""
        while not self._try():
            self.lost_races += 1
            self.refresh()

    def commit(self, updates: list[dict[str, Any]]) -> Answer:
        """Send updates, required to meet the state that is known."""
        requirements = [
            {"type": "assert-table-uuid", "uuid": self.uuid},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": self.head},
        ]
        path = f"namespaces/{self.namespace}/tables/{self.table}"
        return self.client.call("POST", path, {"requirements": requirements, "updates": updates})

    def _try(self) -> bool:
        snapshot = self._make_snapshot()
        made: int = snapshot["snapshot-id"]
        answer = self.commit(
            [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": made},
            ]
        )
        if answer.status == 409:
            return False
        assert answer.status == 200, f"{answer.status} {answer.body[:500]!r}"
        if self._reads_answers:
            assert any(each["snapshot-id"] == made for each in answer.json()["metadata"]["snapshots"])
        self.parents[made] = self.head
        self.head = made
        self.sequence += 1
        return True

    def _make_snapshot(self) -> dict[str, Any]:
        made = next(_ids)
        parent = {} if self.head is None else {"parent-snapshot-id": self.head}
        return {
            "snapshot-id": made,
            **parent,
            "sequence-number": self.sequence + 1,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "manifest-list": f"{self.location}/metadata/snap-{made}-1-0b5f1f8e-41d9-4a4c-8d95-0d1ed1c6e0c1.avro",
            "summary": _SUMMARY,
            "schema-id": 0,
        }


def count_lost(writers: list[Writer]) -> int:
    """How many acknowledged appends to one table are not in the history of its head."""
    parents = {child: parent for writer in writers for child, parent in writer.parents.items()}
    last = writers[0]
    last.refresh()
    at, found = last.head, 0
    while at in parents:
        found += 1
        at = parents[at]
    return len(parents) - found
