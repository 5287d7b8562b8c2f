"""A server in a sandbox sees no table but those that its callers name, and loses each of them with its last caller."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from jobs.entrypoints.opener import ServerTurns
from jobs.entrypoints.sandbox import detect_mode
from tests.factories.builds import wait_until
from webapp.runtime.supervisor import RENEWED

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(detect_mode() == "off", reason="this machine has no sandbox"),
]
MOST_BYTES = 256 * 1024**2
READONLY, MISSING = "Read-only file system", "No such file or directory"
SERVER = """
import os, sys
held = []
for line in sys.stdin:
    act, path = line.split()
    try:
        if act == "hold":
            held.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
        elif act == "take":
            held.append(bytearray(2**30))
        elif act == "list":
            print(*sorted(os.path.join(top, each) for top, _, files in os.walk(path) for each in files), flush=True)
            continue
        else:
            {"write": lambda: open(path, "w").close(), "unlink": lambda: os.unlink(path),
             "rename": lambda: os.rename(path, path + "2"), "chmod": lambda: os.chmod(path, 0o777)}[act]()
        print("did", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


class Server:
    """A process that does to files what it is told, in a sandbox with a warehouse and a folder beside it."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.home = Path(tempfile.mkdtemp(prefix="opener"))
        self.warehouse = self.home / "warehouse"
        self.table, self.secret = self.warehouse / "table", self.warehouse / "shop" / "secret"
        self.own, self.other = (self.table / "data" / name for name in ("job-1-1", "job-2-1"))
        for folder in (self.own, self.other):
            folder.mkdir(parents=True)
            folder.chmod(0o777)
        self.lake = self.home / "lake"
        self.beside = self.lake / "table" / "data" / "job-1-1"
        self.beside.mkdir(parents=True)
        self.beside.chmod(0o777)
        self.file = self.own.parent / "rows"
        self.file.touch()
        self.file.chmod(0o666)
        self.secret.mkdir(parents=True)
        (self.secret / "rows").touch()
        self.socket = self.home / "opener.sock"
        self.scratch = self.home / "scratch"
        self.start()

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        program = ["--mode", self.mode, "--openable", str(self.warehouse), "--opener", str(self.socket)]
        program += ["--openable", str(self.lake)]
        program += ["--fresh", str(self.scratch), "--renew-when", str(self.scratch / "stuck")]
        program += ["--total-memory", str(MOST_BYTES)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jobs.entrypoints.sandbox", *program, "--", sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_until(self.socket.exists, seconds=30)

    def do(self, act: str, path: Path) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{act} {path}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def ask(self, *paths: Path, group: str = "a", show: Sequence[Path] = ()) -> tuple[socket.socket, dict[str, object]]:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(30)
        # the socket has its name a moment before it listens
        wait_until(lambda: connection.connect_ex(str(self.socket)) == 0, seconds=30)
        request = {"group": group, "show": [*map(str, show)], "open": [*map(str, paths)]}
        connection.sendall(json.dumps(request).encode() + b"\n")
        return connection, json.loads(connection.makefile().readline())


@pytest.fixture(params=["full", "user"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Such a server in each mode that works here."""
    if request.param == "full" and detect_mode() != "full":
        pytest.skip("only root changes users")
    started = Server(request.param)
    yield started
    started.process.communicate(timeout=30)  # it ends with its input
    shutil.rmtree(started.home)


def test_only_what_was_opened_is_written_and_only_as_long_as_the_caller_lives(server: Server) -> None:
    attacks = [("write", server.own / "a"), ("write", server.other / "a"), ("write", server.file.parent / "a")]
    attacks += [(act, server.file) for act in ("write", "unlink", "rename", "chmod")]
    reader, _ = server.ask(show=[server.table])
    assert [server.do(*attack) for attack in attacks] == [READONLY] * 7
    connection, answer = server.ask(server.own, show=[server.table])
    assert answer == {"opened": 1}
    assert [server.do(*attack) for attack in attacks] == ["did", *[READONLY] * 6]
    assert server.do("hold", server.own) == "did"
    connection.close()
    wait_until(lambda: server.do("write", server.own / "a") == READONLY, seconds=30)
    assert server.do("unlink", server.own / "a") == READONLY
    reader.close()


def test_a_table_is_seen_as_long_as_a_caller_reads_it(server: Server) -> None:
    assert server.do("list", server.home) == ""
    first, _ = server.ask(show=[server.table])
    second, _ = server.ask(server.own, show=[server.table, server.table])
    assert server.do("write", server.own / "mine") == "did"
    assert server.do("list", server.warehouse) == f"{server.own / 'mine'} {server.file}"
    first.close()
    third, _ = server.ask(show=[server.table])
    assert server.do("list", server.warehouse) == f"{server.own / 'mine'} {server.file}"
    assert server.do("write", server.own / "more") == "did"
    second.close()
    wait_until(lambda: server.do("write", server.own / "a") == READONLY, seconds=30)
    third.close()
    wait_until(lambda: server.do("list", server.home) == "", seconds=30)
    assert server.do("write", server.file) == MISSING
    assert server.do("write", server.warehouse / "a") == READONLY


def test_a_folder_to_read_that_is_not_there_is_left_out(server: Server) -> None:
    (server.warehouse / "link").symlink_to(server.secret)
    connection, answer = server.ask(show=[Path("/root"), server.home, server.warehouse / "no", server.table])
    assert answer == {"opened": 0}
    assert server.do("list", server.home) == str(server.file)
    connection.close()
    for path in (server.warehouse / "link", server.table / ".." / "shop"):
        _, answer = server.ask(show=[path])
        assert "error" in answer
    wait_until(lambda: server.do("list", server.home) == "", seconds=30)


def test_folders_in_several_roots_are_opened_and_closed_alike(server: Server) -> None:
    assert server.do("write", server.beside / "a") == MISSING
    tables = [server.table, server.lake / "table"]
    connection, answer = server.ask(server.own, server.beside, show=tables)
    assert answer == {"opened": 2}
    assert [server.do("write", folder / "a") for folder in (server.own, server.beside)] == ["did", "did"]
    assert server.do("write", server.beside.parent / "a") == READONLY
    connection.close()
    wait_until(lambda: server.do("write", server.beside / "a") == MISSING, seconds=30)
    assert server.do("write", server.own / "a") == MISSING


def test_nothing_outside_of_the_warehouse_is_opened(server: Server) -> None:
    (server.own / "link").symlink_to("/etc")
    for path in (
        Path("/etc"),
        server.warehouse,
        server.lake,
        server.lake / ".." / "warehouse" / "table",
        Path(f"{server.lake}2"),
        server.own / "link",
        server.own / "..",
        server.file,
        server.own / "no",
    ):
        _, answer = server.ask(path)
        assert "error" in answer, path
    assert server.do("write", server.own / "a") == MISSING
    connection, answer = server.ask(server.own)
    assert answer == {"opened": 1}
    connection.close()


def test_a_server_serves_one_group_in_its_life_and_ends_for_the_next(server: Server) -> None:
    first, answer = server.ask(server.own)
    assert answer == {"opened": 1}
    _, answer = server.ask(server.other, group="b", show=[server.secret])
    assert "busy" in answer
    assert server.do("write", server.other / "b") == MISSING
    assert server.do("list", server.secret) == ""
    # who came first may go on, but nobody of theirs is let in any more
    assert server.do("write", server.own / "a") == "did"
    _, answer = server.ask(server.own)
    assert "busy" in answer
    first.close()
    assert server.process.wait(timeout=30) == RENEWED
    assert server.socket.with_name(f"{server.socket.name}.renewed").exists()

    server.start()
    _, answer = server.ask(server.own)
    assert "busy" in answer
    second, answer = server.ask(server.other, group="b")
    assert answer == {"opened": 1}
    assert server.do("write", server.other / "b") == "did"
    assert server.do("write", server.own / "b") == MISSING
    second.close()


@pytest.mark.parametrize("note", ["", "null", "7", "[1]", '{"a": 1, "b": 2}', '["a", null]'])
def test_a_note_of_who_is_next_that_cannot_be_read_is_none(tmp_path: Path, note: str) -> None:
    path = tmp_path / "spark.sock.next"
    path.write_text(note)
    ServerTurns(path).begin("a")


def test_a_server_that_nobody_uses_ends_at_once_for_another_group(server: Server) -> None:
    connection, _ = server.ask()
    connection.close()
    connection, answer = server.ask()
    assert answer == {"opened": 0}
    connection.close()
    wait_until(lambda: "busy" in server.ask(group="b")[1], seconds=30)
    assert server.process.wait(timeout=30) == RENEWED


def test_a_server_on_which_something_does_not_end_ends_with_it_and_starts_anew(server: Server) -> None:
    connection, _ = server.ask(server.own)
    assert server.do("write", server.scratch / "stuck") == "did"
    assert server.process.wait(timeout=30) == RENEWED
    assert server.socket.with_name(f"{server.socket.name}.renewed").exists()
    connection.close()

    server.start()
    assert not (server.scratch / "stuck").exists()
    connection, answer = server.ask(server.own)
    assert answer == {"opened": 1}
    connection.close()


def test_a_server_that_takes_more_memory_than_it_may_ends_and_starts_anew(server: Server) -> None:
    connection, _ = server.ask(server.own)
    assert server.do("take", server.own) == ""
    assert server.process.wait(timeout=30) == RENEWED
    assert connection.recv(1) == b""
    note = server.socket.with_name(f"{server.socket.name}.renewed")
    assert note.read_text() == f"it held more than the {MOST_BYTES:,} bytes of memory that it may"
    connection.close()

    server.start()
    connection, answer = server.ask(server.own)
    assert answer == {"opened": 1}
    connection.close()
