"""Addresses of this machine and its networks in every spelling: none of them gets a connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from webapp.core import outgoing

THIS = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "0",
    "0.0.0.0",
]
THIS += ["127.255.255.254", "localhost", "LOCALHOST", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]"]
THIS += ["[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"]
NETWORKS = [
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
]
NETWORKS += ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1"]
NETWORKS += ["203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "[fe80::1]", "[fc00::1]"]
NETWORKS += ["[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[2001::1]", "[100::1]"]
NETWORKS += ["[::ffff:10.0.0.1]", "[::ffff:169.254.169.254]", "[64:ff9b::10.0.0.1]", "[64:ff9b::a9fe:a9fe]"]
NETWORKS += ["[2002:a00:1::1]", "[2002:c0a8:1::1]", "[2002:a9fe:a9fe::]", "[::10.0.0.1]", "[::ffff:100.64.0.1]"]


@pytest.fixture
def canary() -> Iterator[tuple[int, list[object]]]:
    """A port on every address of this machine, and who came to it."""
    callers: list[object] = []
    with closing(socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)) as listener:

        def listen() -> None:
            with suppress(OSError):
                while True:
                    callers.append(listener.accept()[1])

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield listener.getsockname()[1], callers
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_no_spelling_of_this_machine_or_its_networks_gets_a_connection(canary: tuple[int, list[object]]) -> None:
    port, callers = canary
    for host in (*THIS, *NETWORKS):
        with pytest.raises(outgoing.Unreachable, match="private networks|is not known"):
            outgoing.post(f"http://{host}:{port}/", body=b"", headers={}, trusted=frozenset())
    assert callers == []


def test_a_name_that_changes_its_address_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second answer would be this machine's."""
    answers = ["1.2.3.4", "127.0.0.1"]
    connected: list[str] = []

    def resolve(_host: str, port: int, **_more: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), port))]

    def connect(address: tuple[str, int], _timeout: float) -> socket.socket:
        connected.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(outgoing.Unreachable, match="did not answer"):
        outgoing.post("http://rebind.example/", body=b"", headers={}, trusted=frozenset())
    assert connected == ["1.2.3.4"]
