"""A gate in front of a catalog: it lets everything through, but holds one commit of a snapshot when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Literal

Moment = Literal["before", "after"]
_OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}
PATIENCE_S = 120


class Gate:
    """Where clients find the catalog; where that is stands in `target` before the first of them comes."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Passage)
        self._server.daemon_threads = True
        self._server.gate = self  # type: ignore[attr-defined]
        self.target = 0
        self.port: int = self._server.server_address[1]
        self.held, self.released, self.answered = Event(), Event(), Event()
        self.status = 0
        """What the catalog answered to the commit that was held."""
        self.callers: set[str] = set()
        """The programs that came through, by the names that they give themselves."""
        self._moment: Moment | None = None

    def hold(self, moment: Moment) -> None:
        """Hold the next commit: before the catalog has it, or when it has answered."""
        for event in (self.held, self.released, self.answered):
            event.clear()
        self._moment = moment

    def release(self) -> None:
        """Let the commit that is held go on."""
        self.released.set()

    def take(self, method: str, body: bytes) -> Moment | None:
        """When to hold this request; a moment is taken once."""
        if method != "POST" or b'"add-snapshot"' not in body:
            return None
        found, self._moment = self._moment, None
        return found

    def wait(self, status: int | None) -> None:
        """Stand still: the commit has not arrived yet, or was answered with a status."""
        self.held.set()
        assert self.released.wait(PATIENCE_S), "a commit that is held was forgotten"
        if status is not None:
            self.status = status
            self.answered.set()

    @contextmanager
    def open(self) -> Iterator[Gate]:
        """Listen, and end."""
        thread = Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.release()
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class _Passage(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass(self) -> None:
        gate: Gate = self.server.gate  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        gate.callers.add(self.headers["User-Agent"].partition("/")[0])
        moment = gate.take(self.command, body)
        if moment == "before":
            gate.wait(None)
        status, headers, content = self._forward(gate.target, body)
        if moment == "after":
            gate.wait(status)
        elif moment == "before":
            gate.status = status
            gate.answered.set()
        # who asked may be gone
        with suppress(OSError):
            self._answer(status, headers, content)

    def _forward(self, port: int, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OF_ONE_CONNECTION:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_HEAD = do_DELETE = _pass  # noqa: N815 - the names that the server looks for

    def log_message(self, *_words: object) -> None:
        """Say nothing."""
