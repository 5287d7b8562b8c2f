"""What a real Spark sends to the catalog: recorded once, kept beside this file, and mutated by the fuzz run.

`python -m tests.fuzz.spark_traffic` records it again, after an update of Spark or Iceberg. Kept is one request of each
shape, without tokens and without paths of the machine.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl

from tests.contract.catalog.conftest import Server, start_server
from tests.factories.fork_server import Server as ForkServer
from tests.factories.spark import QUICK, new_session, rest_catalog
from webapp.catalog.api.http import CatalogRequest
from webapp.catalog.rules.endpoints import match

RECORDING = Path(__file__).with_name("spark_traffic.jsonl")
WAREHOUSE, UUID = "file:///warehouse", "00000000-0000-4000-8000-000000000000"
KEPT_HEADERS = ("content-type", "x-pltr-branch", "if-none-match", "x-iceberg-access-delegation", "idempotency-key")
WORDS = ("action", "type", "report-type")
OPEN = ("metadata", "metrics", "properties", "removals", "summary")
"""Objects whose names are data."""
STATEMENTS = (
    "create namespace if not exists {catalog}.shop",
    "show namespaces in {catalog}",
    "describe namespace extended {catalog}.shop",
    "create table {catalog}.shop.raw (id bigint not null, name string, at timestamp) using iceberg partitioned by (days(at)) "
    "tblproperties ('format-version' = '{version}')",
    "insert into {catalog}.shop.raw values (1, 'a', timestamp '2026-01-01 00:00:00'), (2, null, null)",
    "insert overwrite {catalog}.shop.raw values (1, 'a', timestamp '2026-01-01 00:00:00'), (2, 'b', null)",
    "update {catalog}.shop.raw set name = 'c' where id = 1",
    "delete from {catalog}.shop.raw where id = 2",
    "merge into {catalog}.shop.raw t using (select 3 as id, 'd' as name) s on t.id = s.id "
    "when matched then update set name = s.name when not matched then insert (id, name) values (s.id, s.name)",
    "alter table {catalog}.shop.raw add columns (more struct<a: int, b: array<string>>)",
    "alter table {catalog}.shop.raw rename column name to title",
    "alter table {catalog}.shop.raw drop column more",
    "alter table {catalog}.shop.raw add partition field bucket(4, id)",
    "alter table {catalog}.shop.raw write ordered by id desc",
    "alter table {catalog}.shop.raw set identifier fields id",
    "alter table {catalog}.shop.raw set tblproperties ('team' = 'shop')",
    "alter table {catalog}.shop.raw unset tblproperties ('team')",
    "alter table {catalog}.shop.raw create tag kept",
    "alter table {catalog}.shop.raw create branch audit",
    "select * from {catalog}.shop.raw where id > 0",
    "select * from {catalog}.shop.raw.snapshots",
    "select * from {catalog}.shop.raw version as of 'kept'",
    "call {catalog}.system.rewrite_data_files('shop.raw', options => map('rewrite-all', 'true'))",
    "call {catalog}.system.rewrite_manifests('shop.raw')",
    "create table {catalog}.shop.made using iceberg as select id from {catalog}.shop.raw",
    "create or replace table {catalog}.shop.made using iceberg as select id, 1 as one from {catalog}.shop.raw",
    "show tables in {catalog}.shop",
    "create view {catalog}.shop.seen as select id from {catalog}.shop.raw",
    "select * from {catalog}.shop.seen",
    "alter view {catalog}.shop.seen set tblproperties ('team' = 'shop')",
    "show views in {catalog}.shop",
    "drop view {catalog}.shop.seen",
    "alter table {catalog}.shop.made rename to shop.sold",
    "drop table {catalog}.shop.sold",
    "alter namespace {catalog}.shop set properties ('team' = 'shop')",
)
"""What a session does on master; on a branch, and with scans that the server plans, it does the same as far as it may."""
CATALOGS = {"plain": (None, 2), "branch": ("fix", 2), "planned": (None, 3)}


@contextmanager
def listening(port: int) -> Iterator[tuple[int, list[CatalogRequest]]]:
    """Pass what comes to a port on to the server at another, and keep it."""
    requests: list[CatalogRequest] = []

    class Passing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path, _, query = self.path.removeprefix("/iceberg").partition("?")
            headers = [(name.lower(), value) for name, value in self.headers.items()]
            requests.append(CatalogRequest(self.command, path, query, headers, body))
            server = HTTPConnection("127.0.0.1", port, timeout=60)
            server.request(self.command, self.path, body or None, dict(self.headers.items()))
            answer = server.getresponse()
            content = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)
            server.close()

        do_GET = do_POST = do_DELETE = do_HEAD = _pass

        def log_message(self, *_: Any) -> None:
            """Nothing is to be said."""

    passing = ThreadingHTTPServer(("127.0.0.1", 0), Passing)
    Thread(target=passing.serve_forever, daemon=True).start()
    try:
        yield passing.server_port, requests
    finally:
        passing.shutdown()
        passing.server_close()


def record(server: Server) -> list[CatalogRequest]:
    """What Spark sends for all statements, one request of each shape, without what differs from run to run."""
    with listening(server.port) as (port, requests):
        uri = f"http://127.0.0.1:{port}/iceberg"
        for name, (branch, version) in CATALOGS.items():
            options = {**QUICK, **rest_catalog(name, uri, server.token, branch)}
            options[f"spark.sql.catalog.{name}.cache-enabled"] = "false"
            if name == "planned":
                options[f"spark.sql.catalog.{name}.scan-planning-mode"] = "server"
            session = new_session(options)
            for statement in STATEMENTS:
                _run(session, statement.format(catalog=name, version=version), is_refused=branch is not None)
            for table in server.pyiceberg().list_tables("shop"):
                server.pyiceberg().drop_table(table)
    neutral = [neutralize(request, server.home) for request in requests]
    return list({shape_of(request): request for request in reversed(neutral)}.values())[::-1]


def _run(session: Any, statement: str, *, is_refused: bool) -> None:
    """Run a statement; from a branch some are refused, after Spark has sent what it sends."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        session.sql(statement).collect()
    except (PySparkException, Py4JJavaError):
        if not is_refused:
            raise


def neutralize(request: CatalogRequest, home: Path) -> CatalogRequest:
    """A request without token, path of the machine, and the names that a run makes up."""

    def clean(text: str) -> str:
        text = re.sub(rf"(file:(?://)?)?{re.escape(str(home))}/warehouse", WAREHOUSE, text)
        text = re.sub(r'"owner":"[^"]*"', '"owner":"spark"', text)
        return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", UUID, text)

    headers = [(name, clean(value)) for name, value in request.headers if name in KEPT_HEADERS]
    body = clean(request.body.decode()).encode()
    return CatalogRequest(request.method, clean(request.raw_path), clean(request.raw_query), headers, body)


def shape_of(request: CatalogRequest) -> str:
    """Operation, names of parameters and headers, and how the body is built."""
    endpoint, _ = match(request.method, tuple(request.raw_path.strip("/").split("/")))
    body = json.loads(request.body) if request.body.startswith((b"{", b"[")) else ""
    names = sorted(name for name, _ in parse_qsl(request.raw_query, keep_blank_values=True))
    headers = sorted(name for name, _ in request.headers)
    return json.dumps([endpoint.operation, names, headers, _shape(body)])


def _shape(value: Any, name: str = "") -> Any:
    if name in WORDS:
        return value
    if isinstance(value, Mapping) and name not in OPEN:
        return {key: _shape(item, key) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return sorted({json.dumps(_shape(item)) for item in value})
    return type(value).__name__


def write(requests: list[CatalogRequest]) -> None:
    """Keep what was recorded, a request a line."""
    lines = (
        json.dumps([request.method, request.raw_path, request.raw_query, list(request.headers), request.body.decode()])
        for request in requests
    )
    RECORDING.write_text("".join(f"{line}\n" for line in lines))


def read() -> list[CatalogRequest]:
    """What was recorded."""
    rows = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    return [
        CatalogRequest(method, path, query, [(name, value) for name, value in headers], body.encode())
        for method, path, query, headers, body in rows
    ]


def adapt(requests: list[CatalogRequest], table: Mapping[str, Any]) -> list[CatalogRequest]:
    """The same requests about a table that there is, so that they get behind what they require of it."""
    head = table["current-snapshot-id"]

    def suit(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: suit(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [suit(item) for item in value]
        if name == "uuid":
            return table["table-uuid"]
        if name == "parent-snapshot-id":
            return head
        if name == "sequence-number":
            return table["last-sequence-number"] + 1
        if isinstance(value, str):
            return re.sub(rf"^{WAREHOUSE}/shop/raw-[0-9a-f]+", table["location"], value)
        return value

    def about_table(body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        suited = suit(body)
        for requirement in suited.get("requirements", ()):
            if requirement["type"] == "assert-ref-snapshot-id" and requirement["ref"] == "main":
                requirement["snapshot-id"] = head
        return suited

    return [
        replace(request, body=json.dumps(about_table(json.loads(request.body))).encode()) if request.body else request
        for request in requests
    ]


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """A catalog of its own to record against."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    fork = ForkServer(folder / "fork")
    fork.wait_ready()
    fork.serve(home)
    server = start_server(home)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait(20)
        fork.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        write(record(server))
