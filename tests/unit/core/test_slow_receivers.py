"""Receivers that answer slowly, endlessly or with too much: each exchange ends at its deadline."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from webapp.core import outgoing

HOST = "127.0.0.1"


@contextmanager
def receiver(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve connections by a function, and give the address."""
    with closing(socket.create_server((HOST, 0))) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection = listener.accept()[0]
                    with closing(connection), suppress(OSError):
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://{HOST}:{listener.getsockname()[1]}/"
        listener.shutdown(socket.SHUT_RDWR)


def post(url: str, body: bytes = b"{}") -> int:
    return outgoing.post(url, body=body, headers={}, trusted=frozenset({HOST, "slow.example"}))


def drip(connection: socket.socket) -> None:
    for byte in b"HTTP/1.1 100 Continue\r\nX-Slow: " + b"x" * 1000:
        time.sleep(0.2)
        connection.sendall(bytes([byte]))


def continue_for_ever(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.01)


def flood(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 100 Continue\r\n")
    while True:
        connection.sendall(b"X-Long: " + b"x" * 1_000 + b"\r\n")


def read_slowly(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    while connection.recv(512):
        time.sleep(0.2)


@pytest.mark.parametrize(("answer", "size"), [(drip, 2), (continue_for_ever, 2), (flood, 2), (read_slowly, 8_000_000)])
def test_an_exchange_has_one_deadline(
    answer: Callable[[socket.socket], None], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "TIMEOUT_S", 1.0)
    with receiver(answer) as url:
        began = time.monotonic()
        with pytest.raises(outgoing.Unreachable, match="did not answer"):
            post(url, body=b"x" * size)
        assert time.monotonic() - began < 2


def test_a_head_is_read_in_bounds() -> None:
    with receiver(flood) as url, pytest.raises(outgoing.Unreachable, match="its head has more than"):
        post(url)


def test_a_final_answer_behind_an_interim_one_counts() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
        )

    with receiver(answer) as url:
        assert post(url) == 201


@pytest.mark.parametrize(
    "head", [b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 99999 X\r\n\r\n", b"HTTP/1.1 2"]
)
def test_what_is_no_answer_is_none(head: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(head)

    with receiver(answer) as url, pytest.raises(outgoing.Unreachable, match="did not answer"):
        post(url)


def test_a_name_server_that_does_not_answer_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = threading.Event()

    def resolve(*_: object, **__: object) -> list[object]:
        ends.wait(20)
        raise OSError("unknown")

    monkeypatch.setattr(outgoing, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(outgoing.Unreachable, match="is not known"):
            post("http://slow.example/")
    assert time.monotonic() - began < 3
    ends.set()
