"""Questions to the parts of an installation, each answered within a second or two."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

TIMEOUT = 2.0
ASK_SECONDS = 3.0
"""Pause between two questions of a probe in seconds; an answer can take two such pauses."""
READ_BYTES = 65536
MOST_BYTES = 1024 * 1024
"""Maximum size of an answer."""
STATUS_QUESTION = b'{"op": "status"}\n'
HTTP2_QUESTION = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""Start of an HTTP/2 connection: the preface with empty settings, which a server answers with its own."""
_FRAME_HEAD_BYTES, _SETTINGS = 9, 4


def is_line(answer: bytes) -> bool:
    """Return whether the fork server's answer is complete."""
    return answer.endswith(b"\n")


def is_http2(answer: bytes) -> bool:
    """Return whether an HTTP/2 server answers: with the head of its settings frame."""
    return len(answer) >= _FRAME_HEAD_BYTES and answer[3] == _SETTINGS


class Probe:
    """Asks a part at its socket whether it works, without waiting for the answer."""

    def __init__(self, address: str | tuple[str, int], question: bytes, *, is_answer: Callable[[bytes], bool]) -> None:
        self._address = address
        self._question = question
        self._is_answer = is_answer
        self._connection: socket.socket | None = None
        self._unsent = self._received = b""
        self._asked_at = -ASK_SECONDS
        self.answer = b""
        """The newest answer."""

    def begin(self) -> None:
        """Forget the question to an earlier process."""
        self._hang_up()
        self.answer = b""

    def has_answered(self) -> bool:
        """Return whether an answer has come since the last call; ask again if that is due."""
        now = time.monotonic()
        if self._connection is None:
            if now - self._asked_at >= ASK_SECONDS:
                self._asked_at = now
                self._ask()
            return False
        try:
            self._send()
            data = self._connection.recv(READ_BYTES)
        except BlockingIOError:
            if now - self._asked_at > 2 * ASK_SECONDS:
                self._hang_up()
            return False
        except OSError:
            self._hang_up()
            return False
        self._received += data
        is_answered = self._is_answer(self._received)
        if is_answered:
            self.answer = self._received
        if is_answered or not data or len(self._received) > MOST_BYTES:
            self._hang_up()
        return is_answered

    def _ask(self) -> None:
        kind = socket.AF_UNIX if isinstance(self._address, str) else socket.AF_INET
        self._connection = socket.socket(kind, socket.SOCK_STREAM)
        self._connection.setblocking(False)
        self._unsent, self._received = self._question, b""
        try:
            with suppress(BlockingIOError):  # TCP goes on connecting
                self._connection.connect(self._address)
        except OSError:
            self._hang_up()

    def _send(self) -> None:
        if self._unsent and self._connection is not None:
            self._unsent = self._unsent[self._connection.send(self._unsent) :]

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def find_free_port() -> int:
    """Find a port of loopback that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers_tcp(host: str, port: int) -> bool:
    """Return whether something listens there."""
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT):
            return True
    except OSError:
        return False


def answers_http2(host: str, port: int) -> bool:
    """Return whether an HTTP/2 server works there; the kernel takes connections for a stopped one as well."""
    answer = b""
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT) as connection:
            connection.sendall(HTTP2_QUESTION)
            while len(answer) < _FRAME_HEAD_BYTES and (data := connection.recv(READ_BYTES)):
                answer += data
    except OSError:
        return False
    return is_http2(answer)


def ask_fork_server(path: Path) -> dict[str, Any] | None:
    """Ask the fork server for its status; None when it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(str(path))
            connection.sendall(STATUS_QUESTION)
            answer = connection.makefile().readline()
    except OSError:
        return None
    return read_status(answer)


def read_status(answer: str | bytes) -> dict[str, Any] | None:
    """Return the status in an answer of the fork server; None if there is none."""
    try:
        status: dict[str, Any] = json.loads(answer)
    except ValueError:
        return None
    return status
