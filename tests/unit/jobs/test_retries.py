"""A catalog that goes away for a moment, as a socket that does what it is told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread

import pytest
import requests

from jobs.engine.read import retries
from jobs.engine.read.retries import PatientAdapter

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
CUT_OFF = b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\nConnection: close\r\n\r\n{"
UNKNOWN_BODY = b'{"error": {"type": "CommitStateUnknownException"}}'
UNKNOWN = b"HTTP/1.1 500 X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(UNKNOWN_BODY) + UNKNOWN_BODY
BROKEN = b"HTTP/1.1 500 X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


class Catalog:
    """Answers each connection with the next of the given bytes; nothing closes it without an answer."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1/x"
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        for answer in self.answers:
            connection, _ = self._listener.accept()
            with connection:
                self.requests.append(connection.recv(65536))
                connection.sendall(answer)

    def keys(self) -> set[str]:
        lines = [line.decode() for request in self.requests for line in request.split(b"\r\n")]
        return {line for line in lines if line.lower().startswith("idempotency-key:")}

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[requests.Session]:
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.01)
    with requests.Session() as made:
        made.mount("http://", PatientAdapter())
        yield made


@pytest.mark.parametrize("first", [b"", BUSY, CUT_OFF, UNKNOWN], ids=["silence", "busy", "cut off", "unknown"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_request_is_sent_again_with_its_key_until_it_is_answered(
    session: requests.Session, method: str, first: bytes
) -> None:
    catalog = Catalog([first, b"", OK])
    answer = session.request(method, catalog.url, data=None if method == "GET" else b"{}")
    catalog.close()

    assert answer.json() == {}
    assert len(catalog.requests) == 3
    assert len(catalog.keys()) == (0 if method == "GET" else 1)


def test_key_of_the_caller_is_kept_and_others_differ(session: requests.Session) -> None:
    catalog = Catalog([OK, OK, OK])
    session.post(catalog.url, data=b"{}", headers={"Idempotency-Key": "mine"})
    session.post(catalog.url, data=b"{}")
    session.post(catalog.url, data=b"{}")
    catalog.close()

    assert len(catalog.keys()) == 3
    assert any("mine" in key for key in catalog.keys())


def test_answers_that_say_something_are_not_asked_for_again(session: requests.Session) -> None:
    catalog = Catalog([BROKEN])

    assert session.post(catalog.url, data=b"{}").status_code == 500
    catalog.close()


def test_catalog_that_stays_away_is_an_error_in_the_end(
    session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "PATIENCE_S", 0.3)
    catalog = Catalog([])
    catalog.close()

    with pytest.raises(requests.ConnectionError):
        session.get(catalog.url)
