"""What reads manifests is forked by a small server, or by the large one where that has ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.channel import Channel
from jobs.entrypoints import light
from tests.factories.builds import wait_until
from tests.factories.fork_server import Running, Server

pytestmark = pytest.mark.integration


@pytest.fixture
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="light") as folder:
        started = Server(Path(folder))
        yield started
        started.stop()


def start(server: Server, entrypoint: str) -> tuple[Running, Channel]:
    near, far = socket.socketpair()
    connection = server.connect()
    read, write = os.pipe()
    request = {"entrypoint": entrypoint, "manifest": "/dev/null", "sandbox": {"ports": []}}
    socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [write, far.fileno()])
    os.close(write)
    far.close()
    return Running(connection, read), Channel(near, at_most=1024, seconds=60)


def find_parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_small_server_reads_manifests_and_large_one_the_rest(server: Server) -> None:
    manifests, channel = start(server, "manifests")
    rows, _ = start(server, "read")
    small = find_parent(manifests.started["pid"])
    assert find_parent(rows.started["pid"]) == server.process.pid
    assert find_parent(small) == server.process.pid
    channel.send({"ask": "list", "location": "file:///t/metadata/a.avro"})
    assert channel.receive().body == {"open": "file:///t/metadata/a.avro"}
    channel.close()
    assert manifests.wait().code == 0
    rows.close()


def test_manifests_are_read_when_small_server_has_ended(server: Server) -> None:
    first, _ = start(server, "manifests")
    os.kill(find_parent(first.started["pid"]), signal.SIGKILL)
    assert first.wait().code == -1
    second, channel = start(server, "manifests")
    assert find_parent(second.started["pid"]) == server.process.pid
    channel.close()
    assert second.wait().code == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_end_of_large_server_ends_small_one_with_its_jobs(server: Server, number: signal.Signals) -> None:
    running, channel = start(server, "manifests")
    process = running.started["pid"]
    small = find_parent(process)
    server.process.send_signal(number)
    server.process.wait(20)
    wait_until(lambda: not Path(f"/proc/{process}").exists() and not Path(f"/proc/{small}").exists(), seconds=5)
    channel.close()
    running.close()


def test_caller_that_goes_away_takes_its_reader_along(server: Server) -> None:
    running, channel = start(server, "manifests")
    process = running.started["pid"]
    running.close()
    wait_until(lambda: not Path(f"/proc/{process}").exists(), seconds=5)
    channel.close()


def test_request_too_long_for_message_is_not_passed_on() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        assert not light.SmallServer(near, 0).pass_on(b"x" * (light.MOST_BYTES + 1), [])
        assert light.SmallServer(near, 0).pass_on(b"x", [])
