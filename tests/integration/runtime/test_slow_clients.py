"""A real server against who sends slowly, much, or without end, and nobody knows them; and against a crowd."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import requests

from tests.factories.builds import wait_until
from tests.factories.crowds import count_threads, measure_processor, silent_connections, slow_clients
from tests.integration.repositories.live import LiveServer
from tests.integration.runtime import little_memory
from webapp.config.web import HEAD_MS
from webapp.runtime.web import bodies

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
SETUP = """
from tests.factories import repositories as make
ines = make.a_person("ines")
make.a_repository("nyc", by=ines)
result = make.a_token(ines)
"""
MASTER = """
from webapp.repositories import queries
repository = queries.repository_by_name("nyc")
result = queries.get_head(repository, "master")
"""
DATASET = """
from webapp.accounts.queries import principal_for_user
from webapp.accounts.models import User
from webapp.datasets import services
ines = principal_for_user(User.objects.get(username="ines"))
result = services.create_dataset(path="/nyc/uploaded", by=ines).pk
"""
LANDED = """
from webapp.builds.models import Build
from webapp.repositories.models import Branch, Repository
result = {
    "branches": sorted(Branch.objects.values_list("name", flat=True).filter(repository__name="nyc")),
    "repositories": sorted(Repository.objects.values_list("name", flat=True).filter(name__in=["cut", "whole"])),
    "builds": Build.objects.filter(kind="upload").count(),
}
"""
SLOW = 40
"""Clients of each kind: two hundred in all."""
LATER_S = 30
"""So much later than its deadline a head may be cut off on a machine that is busy with other things."""
ENDLESS = b"10000\r\n" + b"x" * 65536 + b"\r\n"
GIT = "/git/nyc.git/git-receive-pack"
WRITES = ("/login", "/api/v1/tokens", "/iceberg/v1/namespaces", GIT, "/events/builds/1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """One web process with a home of its own."""
    server = LiveServer.start(tmp_path_factory.mktemp("home"), DJANGO_SETTINGS_MODULE=little_memory.__name__)
    yield server
    server.close()


@pytest.fixture(scope="module")
def token(server: LiveServer) -> str:
    """A person's token."""
    return str(server.run(SETUP))


def bearer(token: str) -> str:
    """The header that shows a token."""
    return f"Authorization: Bearer {token}\r\n"


def basic(token: str) -> str:
    """The header that shows a token to Git."""
    return f"Authorization: Basic {base64.b64encode(f'ines:{token}'.encode()).decode()}\r\n"


def connect(server: LiveServer, sent: str, *, more: bytes = b"") -> socket.socket:
    """Open a connection and send the start of a request."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(sent.encode() + more)
    return connection


def head(method: str, path: str, *lines: str) -> str:
    """A request's head."""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{''.join(lines)}\r\n"


def read_answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer, where its connection ends behind it."""
    with connection, connection.makefile("rb") as file:
        status = int(file.readline().split()[1])
        headers = {}
        while line := file.readline().strip().decode():
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        return status, headers, file.read(int(headers.get("content-length", 0)))


def read_end(connection: socket.socket) -> bytes:
    """The start of what is said at the end of a connection, if anything is."""
    with connection.makefile("rb") as file, suppress(ConnectionResetError):
        return file.read()[:12]
    return b""


def resident(server: LiveServer) -> int:
    """The memory of the web process and its workers, in bytes."""
    assert server.process is not None
    pids = [server.process.pid]
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            pids += [int(child) for child in task.read_text().split()]
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_slow_senders_hold_no_thread_and_are_cut_off(server: LiveServer, token: str) -> None:
    form = ("Content-Type: application/x-www-form-urlencoded\r\n", "Content-Length: 200\r\n")
    kinds = {
        "head": ("GET /login HTTP/1.1\r\nHost: loc", b""),
        "login": (head("POST", "/login", *form), b"username=i"),
        "api": (head("POST", "/api/v1/tokens", "Content-Length: 100\r\n"), b"{"),
        "catalog": (head("POST", "/iceberg/v1/namespaces", "Content-Length: 9000\r\n", bearer(token)), b"{"),
        "git": (head("POST", GIT, "Transfer-Encoding: chunked\r\n", basic(token)), b"4\r\n0000\r\n"),
    }
    opened = time.monotonic()
    with ExitStack() as stack:
        slow = {
            kind: [stack.enter_context(connect(server, sent, more=more)) for _ in range(SLOW)]
            for kind, (sent, more) in kinds.items()
        }
        known = {"Authorization": f"Bearer {token}"}
        for path in ("/healthz", "/login", "/api/v1/repositories", "/iceberg/v1/namespaces"):
            for _ in range(5):
                answer = requests.get(f"http://127.0.0.1:{server.port}{path}", headers=known, timeout=8)
                assert answer.status_code == 200, path
        statuses = {kind: {read_answer(c)[0] for c in slow[kind]} for kind in ("login", "api", "catalog", "git")}
        assert all(read_end(connection) in (b"", b"HTTP/1.1 408") for connection in slow["head"])
        assert time.monotonic() - opened < HEAD_MS / 1000 + LATER_S
    # One person's share of Git's processes answers the last of them before their time is over.
    assert statuses == {"login": {408}, "api": {408}, "catalog": {408}, "git": {408, 429}}
    assert requests.get(f"http://127.0.0.1:{server.port}/login", timeout=8).status_code == 200


def test_two_hundred_slow_clients_take_no_thread_and_no_more_of_the_processor(server: LiveServer) -> None:
    def ask() -> None:
        for _ in range(100):
            assert requests.get(f"http://127.0.0.1:{server.port}/login", timeout=30).status_code == 200

    ask()
    threads, quiet_s = count_threads(server.pid), measure_processor(server.pid, ask)
    with slow_clients(server.port, 200):
        beside_s = measure_processor(server.pid, ask)
        assert count_threads(server.pid) <= threads + 4
    print(f"{beside_s:.2f} s of the processor beside slow clients, {quiet_s:.2f} s without")
    assert beside_s < 2 * quiet_s


def test_thousands_of_silent_connections_keep_nobody_out(server: LiveServer) -> None:
    form = ("Content-Type: application/x-www-form-urlencoded\r\n", "Content-Length: 20\r\n")
    with (
        connect(server, head("POST", "/login", *form), more=b"username=i") as under_way,
        silent_connections(server.port, 5000),
    ):
        time.sleep(2)
        under_way.sendall(b"nesxxxxxxx")
        assert under_way.recv(12).startswith(b"HTTP/1.1 "), "a request is under way, however little moves"
        for path in ("/healthz", "/login"):
            assert requests.get(f"http://127.0.0.1:{server.port}{path}", timeout=30).status_code == 200


@pytest.mark.parametrize("path", WRITES)
def test_long_bodies_of_nobody_are_refused_unread(server: LiveServer, path: str) -> None:
    before = resident(server)
    with ExitStack() as stack:
        announced = head("POST", path, "Content-Length: 64000000\r\n")
        waiting = [stack.enter_context(connect(server, announced)) for _ in range(16)]
        statuses = {read_answer(connection)[0] for connection in waiting}
    assert statuses <= {400, 401, 413}, statuses
    with connect(server, head("POST", path, "Transfer-Encoding: chunked\r\n"), more=ENDLESS) as endless:
        assert read_answer(endless)[0] in (400, 401, 413)
    assert list((server.home / "uploads").iterdir()) == []
    assert resident(server) < before + 64_000_000


def test_short_bodies_of_nobody_have_a_limit_together(server: LiveServer, token: str) -> None:
    """Each might be let in, and none is whole: no more are held than there is memory for, and all of it comes back."""
    size, paths = bodies.UNKNOWN_BYTES, ("/login", "/api/v1/tokens", "/iceberg/v1/oauth/tokens")
    with ExitStack() as stack:
        waiting = []
        for place in range(little_memory.LIMIT // size + 50):
            announced = head("POST", paths[place % len(paths)], f"Content-Length: {size}\r\n")
            waiting.append(stack.enter_context(connect(server, announced, more=b"x" * (size - 1))))
        refused = [read_answer(connection) for connection in select.select(waiting, [], [], 30)[0]]
        assert {(status, bool(headers["retry-after"])) for status, headers, _body in refused} == {(503, True)}
        assert requests.get(f"http://127.0.0.1:{server.port}/login", timeout=30).status_code == 200
    document = b'{"namespace": ["spacious"]' + b" " * (little_memory.LIMIT - 100_000) + b"}"

    def has_all_memory() -> bool:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{server.port}/iceberg/v1/namespaces"
        return requests.post(url, data=document, headers=headers, timeout=30).status_code == 200

    wait_until(has_all_memory, seconds=30)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    "path",
    ["/repositories", "/api/v1/repositories", "/iceberg/v1/config", "/git/nyc.git/info/refs", "/events/jobs/1/log"],
)
def test_a_body_where_there_is_none_is_refused(server: LiveServer, method: str, path: str) -> None:
    for line in ("Content-Length: 5000000\r\n", "Transfer-Encoding: chunked\r\n"):
        with connect(server, head(method, path, line)) as connection:
            status = read_answer(connection)[0]
        assert status == 400, path


def test_a_body_without_a_length_arrives_whole(server: LiveServer, token: str) -> None:
    document = json.dumps({"name": "chunked", "description": "x" * 300}).encode()

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(document), 100):
            yield document[start : start + 100]

    known = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{server.port}/api/v1/repositories"
    answer = requests.post(url, data=pieces(), headers=known, timeout=30)
    assert answer.status_code == 201, answer.text
    assert answer.json()["name"] == "chunked"


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("columns", [10, 1_000, 10_000])
def test_a_table_of_many_columns_arrives_whole_at_the_catalog(
    server: LiveServer, token: str, columns: int, is_chunked: bool
) -> None:
    names = [f"a_rather_long_name_{number}" for number in range(columns)]
    fields = [
        {"id": number, "name": name, "type": "long", "required": False} for number, name in enumerate(names, start=1)
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    body = json.dumps({"name": f"wide_{columns}_{is_chunked}", "schema": schema}).encode()
    server.run(DATASET.replace("/nyc/uploaded", f"/nyc/beside_{columns}_{is_chunked}"))
    answer = requests.post(
        f"http://127.0.0.1:{server.port}/iceberg/v1/namespaces/nyc/tables",
        data=iter([body[:100], body[100:]]) if is_chunked else body,
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    assert [field["name"] for field in answer.json()["metadata"]["schemas"][0]["fields"]] == names


OTHER = """
from tests.factories import repositories as make
result = make.a_token(make.a_person("olek"))
"""


def test_one_person_leaves_places_for_long_requests_to_others(server: LiveServer, token: str) -> None:
    other = str(server.run(OTHER))
    announced = ("Content-Length: 3000000\r\n", "Content-Type: application/json\r\n")
    rest = b"{" + b" " * 2_999_998 + b"}"
    with ExitStack() as stack:
        taken = [connect(server, head("POST", "/api/v1/repositories", bearer(token), *announced)) for _ in range(12)]
        for connection in taken:
            stack.callback(connection.close)
        refused = [read_answer(connection) for connection in select.select(taken, [], [], 5)[0]]
        more = head("POST", "/api/v1/repositories", bearer(token), *announced)
        status, headers, body = read_answer(connect(server, more))
        assert (status, json.loads(body)["code"]) == (429, "too_many_at_once")
        assert "of ines" in json.loads(body)["detail"] and int(headers["retry-after"]) > 0
        assert {answer[0] for answer in refused} <= {429}
        with connect(server, head("POST", "/api/v1/repositories", bearer(other), *announced), more=rest) as theirs:
            assert int(theirs.recv(12).split()[1]) == 422, "read to its end"
    time.sleep(1)
    with connect(server, more, more=rest) as mine:
        assert int(mine.recv(12).split()[1]) == 422, "the places are free again"


WAITING_BUILD = """
from webapp.accounts.models import User
from webapp.builds.models import Build
from webapp.repositories import queries
repository = queries.repository_by_name("nyc")
ines = User.objects.get(username="ines")
build = Build.objects.create(repository=repository, branch="master", chain=["master"], targets=["/nyc/x"], by=ines)
result = build.pk
"""


def test_one_person_leaves_event_streams_to_others_and_gets_them_back(server: LiveServer, token: str) -> None:
    follow = head("GET", f"/events/builds/{server.run(WAITING_BUILD)}", bearer(token))
    with ExitStack() as stack:
        followed = [stack.enter_context(connect(server, follow)) for _ in range(50)]
        assert {int(connection.recv(12).split()[1]) for connection in followed} == {200}
        status, headers, body = read_answer(connect(server, follow))
        assert (status, json.loads(body)["code"]) == (429, "too_many_at_once")
        assert int(headers["retry-after"]) > 0
    deadline = time.monotonic() + 60
    status = 429
    while status == 429 and time.monotonic() < deadline:
        time.sleep(0.5)
        with connect(server, follow) as again:
            status = int(again.recv(12).split()[1])
    assert status == 200, "streams that have ended count no more"


def push_of(branch: str, head: str) -> bytes:
    """The whole body of a push that makes a branch of commits that are there."""
    command = f"{'0' * 40} {head} refs/heads/{branch}\0 report-status".encode()
    pack = b"PACK" + (2).to_bytes(4, "big") + (0).to_bytes(4, "big")
    return f"{len(command) + 4:04x}".encode() + command + b"0000" + pack + hashlib.sha1(pack).digest()


def in_chunks(body: bytes, *, is_whole: bool) -> bytes:
    """A chunked body, with or without the piece that says that it is whole."""
    return f"{len(body):x}\r\n".encode() + body + b"\r\n" + (b"0\r\n\r\n" if is_whole else b"")


def send_in_chunks(server: LiveServer, *, to: str, body: bytes, is_whole: bool, lines: tuple[str, ...]) -> int:
    """The status of the answer to a chunked body; none, or 0, where the connection is cut off instead of its end."""
    chunked = in_chunks(body, is_whole=is_whole)
    with connect(server, head("POST", to, "Transfer-Encoding: chunked\r\n", *lines), more=chunked) as connection:
        if not is_whole:
            connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as file:
            return int((file.readline() or b"- 0").split()[1])


def test_a_body_that_is_cut_off_is_not_taken_for_a_whole_one(server: LiveServer, token: str) -> None:
    commit = str(server.run(MASTER))
    dataset = int(server.run(DATASET))
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\na\n1\n\r\n--x--\r\n'
    pushing = (basic(token), "Content-Type: application/x-git-receive-pack-request\r\n")
    uploading = (bearer(token), "Content-Type: multipart/form-data; boundary=x\r\n")
    creating = (bearer(token), "Content-Type: application/json\r\n")
    upload = send_in_chunks(server, to=f"/api/v1/datasets/{dataset}/upload", body=form, is_whole=False, lines=uploading)
    assert upload in (0, 400)
    for kind, expected in (("cut", {0, 400}), ("whole", {200, 201})):
        for to, body, lines in (
            ("/api/v1/repositories", json.dumps({"name": kind}).encode(), creating),
            (GIT, push_of(kind, commit), pushing),
        ):
            status = send_in_chunks(server, to=to, body=body, is_whole=kind == "whole", lines=lines)
            assert status in expected, (kind, to)
    # The answer to a push begins before what was pushed is announced.
    wait_until(lambda: "whole" in server.run(LANDED)["branches"], seconds=30)
    assert server.run(LANDED) == {"branches": ["master", "whole"], "repositories": ["whole"], "builds": 0}


def test_a_long_body_of_somebody_known_has_the_limit_of_its_address(server: LiveServer, token: str) -> None:
    url = f"http://127.0.0.1:{server.port}"
    known = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    spaces = b'{"name": "long"' + b" " * 3_000_000 + b"}"
    assert requests.post(f"{url}/api/v1/repositories", data=spaces, headers=known, timeout=30).status_code == 201
    refused = requests.post(f"{url}/api/v1/repositories", data=b" " * 10_000_001, headers=known, timeout=30)
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    nowhere = requests.post(f"{url}/api/v1/nowhere", data=b" " * 100_000, headers=known, timeout=30)
    assert (nowhere.status_code, nowhere.headers["Content-Type"]) == (404, "application/problem+json")


def test_a_crowd_is_told_to_come_back_and_health_answers(server: LiveServer) -> None:
    answers: list[tuple[int, dict[str, str], bytes]] = []
    over = threading.Event()
    health: list[int] = []

    def look() -> None:
        while not over.is_set():
            health.append(requests.get(f"http://127.0.0.1:{server.port}/healthz", timeout=8).status_code)
            time.sleep(0.05)

    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        looking = pool.submit(look)
        crowd = [connect(server, head("GET", "/login")) for _ in range(600)]
        for connection in crowd:
            stack.callback(connection.close)
        answers = [read_answer(connection) for connection in crowd]
        over.set()
        looking.result()
    assert {status for status, _headers, _body in answers} == {200, 503}
    refused = [(headers, body) for status, headers, body in answers if status == 503]
    assert all(headers["retry-after"] for headers, _body in refused)
    assert b"try again" in refused[0][1]
    assert set(health) == {200}
    assert requests.get(f"http://127.0.0.1:{server.port}/login", timeout=8).status_code == 200
