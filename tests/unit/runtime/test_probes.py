"""Questions to parts: neither a stopped server nor one that answers nonsense makes anybody wait."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from webapp.runtime import probes
from webapp.runtime.probes import HTTP2_QUESTION, STATUS_QUESTION, Probe, answers_http2, is_http2, is_line

SETTINGS = b"\0\0\0\4\0\0\0\0\0"


@pytest.fixture(autouse=True)
def _asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "ASK_SECONDS", 0.05)
    monkeypatch.setattr(probes, "TIMEOUT", 0.2)


def answer(listener: socket.socket, *answers: bytes) -> list[bytes]:
    """Answer one connection after the other from a thread; return the questions as they come."""
    questions: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            for each in answers:
                connection, _ = listener.accept()
                with connection:
                    questions.append(connection.recv(1000))
                    connection.sendall(each)

    threading.Thread(target=serve, daemon=True).start()
    return questions


def ask(probe: Probe, *, seconds: float = 5) -> bool:
    """Ask until an answer comes; no call may take long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        if probe.has_answered():
            return True
        assert time.monotonic() - began < 0.5
        time.sleep(0.01)
    return False


@pytest.fixture
def unix(tmp_path: Path) -> Callable[[], socket.socket]:
    def listen() -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "part.sock"))
        listener.listen(1)
        return listener

    return listen


def test_probe_hears_answer_after_answer(unix: Callable[[], socket.socket], tmp_path: Path) -> None:
    probe = Probe(str(tmp_path / "part.sock"), STATUS_QUESTION, is_answer=is_line)
    assert not ask(probe, seconds=0.2), "nothing listens"
    with unix() as listener:
        questions = answer(listener, b"", b'{"ready": false}\n', b'{"ready": true}\n')
        assert ask(probe)
        assert probe.answer == b'{"ready": false}\n'
        assert ask(probe)
        assert probe.answer == b'{"ready": true}\n'
        assert questions == [STATUS_QUESTION] * 3
        probe.begin()
        assert probe.answer == b""


def test_probe_of_a_stopped_server_waits_for_nothing(unix: Callable[[], socket.socket], tmp_path: Path) -> None:
    """The kernel takes connections for it, and then no more of them."""
    with unix():
        assert not ask(Probe(str(tmp_path / "part.sock"), STATUS_QUESTION, is_answer=is_line), seconds=0.5)


@pytest.mark.parametrize(
    ("said", "works"),
    [(SETTINGS, True), (SETTINGS + b"more", True), (b"HTTP/1.1 400 Bad Request\r\n", False), (b"", False)],
)
def test_http2_server_answers_with_its_settings(said: bytes, works: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answer(listener, *[said] * 3)
        address = listener.getsockname()
        assert answers_http2(*address) == works
        assert ask(Probe(address, HTTP2_QUESTION, is_answer=is_http2), seconds=5 if works else 0.3) == works


def test_http2_server_that_is_stopped_does_not_work() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not answers_http2(*listener.getsockname())
        assert not ask(Probe(listener.getsockname(), HTTP2_QUESTION, is_answer=is_http2), seconds=0.3)
