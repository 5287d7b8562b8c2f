"""Branch headers that are doubled, empty or no name, as bytes on a socket: each is refused, and none is taken for master."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from typing import Any

import pytest

from tests.contract.catalog.conftest import Server

pytestmark = pytest.mark.contract
HEADER = b"X-PLTR-Branch: "
LINES = {
    "empty": HEADER,
    "blank": HEADER + b" \t ",
    "twice": HEADER + b"b\r\n" + HEADER + b"b",
    "twice, one empty": HEADER + b"b\r\n" + HEADER,
    "twice, in two cases": HEADER + b"b\r\nx-pltr-branch: c",
    "folded": HEADER + b"b\r\n c",
    "folded by a tab": HEADER + b"b\r\n\tc",
    "bare carriage return": HEADER + b"b\rc",
    "space before the colon": b"X-PLTR-Branch : b",
    "underscores": b"X_PLTR_Branch: b",
    "underscores beside hyphens": HEADER + b"b\r\nx_pltr_branch: b",
    "9 kB": HEADER + b"b" * 9000,
    "300 characters": HEADER + b"b" * 300,
    **{
        f"value {value!r}": HEADER + value
        for value in (
            "é".encode(),
            "ﬁx".encode(),
            "a\u0301".encode(),
            "mа\u0455ter".encode(),
            b"\xff",
            b"\x00",
            b"b\x00",
            b"b\x7f",
            b"b\x1b[0m",
            b"%2F",
            b"a%2Fb",
            b"a,b",
            b"a, b",
            b"a b",
            b"..",
            b"a/../b",
            b"/a",
            b"a/",
            b"a//b",
            b".a",
            b"a.lock",
            b"a@{1}",
            b"-a",
            b"a\\b",
            b"a:b",
            b"a?b",
            b"a*b",
            b"a[b",
            b"a~1",
            b"a^",
            b'"b"',
            b"_job/1",
            b"_deleted/1",
            b"MASTER",
        )
    },
}


def send(server: Server, method: str, path: str, line: bytes = b"", body: Any = None) -> tuple[int, bytes]:
    """Send one request as it is; the status, 0 where the server hung up, and what came after the head."""
    content = b"" if body is None else json.dumps(body).encode()
    head = [
        f"{method} /iceberg/v1/{path} HTTP/1.1".encode(),
        b"Host: 127.0.0.1",
        f"Authorization: Bearer {server.token}".encode(),
        *([line] if line else []),
        f"Content-Length: {len(content)}".encode(),
        b"Connection: close",
    ]
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=60)) as connection:
        try:
            connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + content)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        except (ConnectionResetError, BrokenPipeError):
            return 0, b""
    status, _, rest = answer.partition(b"\r\n\r\n")
    return (int(status.split()[1]) if status else 0), rest


def test_what_servers_before_ours_may_read_otherwise_is_not_master(server: Server, namespace: str) -> None:
    """A bare line feed ends a line here, HEAD is a name like others, and no branch is made by the path of a ref."""
    catalog = server.pyiceberg()
    catalog.create_table(f"{namespace}.t", _schema())
    path = f"namespaces/{namespace}/tables/t"
    before = catalog.load_table(f"{namespace}.t").schema()
    for name, status in ((b"b\nX-Other: c", 200), (b"HEAD", 200), (b"refs/heads/master", 400)):
        schema = {"type": "struct", "fields": [{"id": 2, "name": "other", "required": False, "type": "long"}]}
        updates = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
        assert send(server, "POST", path, HEADER + name, {"requirements": [], "updates": updates})[0] == status
        assert catalog.load_table(f"{namespace}.t").schema() == before


def test_no_malformed_branch_is_written_or_read(server: Server, namespace: str) -> None:
    catalog = server.pyiceberg()
    catalog.create_table(f"{namespace}.t", _schema())
    path = f"namespaces/{namespace}/tables/t"
    before = catalog.load_table(f"{namespace}.t").metadata_location
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
    statuses = {
        case: (send(server, "POST", path, line, commit)[0], send(server, "GET", path, line)[0])
        for case, line in LINES.items()
    }
    refused = {0, 400, 403, 431}
    assert {case: pair for case, pair in statuses.items() if not set(pair) <= refused} == {}
    assert catalog.load_table(f"{namespace}.t").metadata_location == before
    assert send(server, "GET", path, HEADER + b"b")[0] == 200


def _schema() -> Any:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    return Schema(NestedField(1, "id", LongType(), required=False))
