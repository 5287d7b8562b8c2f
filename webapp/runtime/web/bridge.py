"""The WSGI application under the event loop: it gets a body that is complete and leaves answers that the loop sends.

No thread waits for a client: neither for a slow sender, nor for a slow reader.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import Any, BinaryIO

from webapp.runtime.web.bodies import Draining
from webapp.runtime.web.gates import Gate

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
PART_BYTES = 256 * 1024
"""So much of an answer is made at a time."""
READ_S = 60.0
"""So long a client may take for one part of an answer."""


class WsgiBridge:
    """Answers requests by a WSGI application."""

    def __init__(self, application: Callable[..., Iterable[bytes]], find_gate: Callable[[str], Gate]) -> None:
        """Run the application in the threads of the gate that a path has."""
        self._application = application
        self._find_gate = find_gate

    async def answer(
        self, scope: Scope, body: BinaryIO | Draining, length: int, send: Send, *, owner: str = ""
    ) -> None:
        """Answer one request of an owner; nothing has been sent where this raises `Overloaded`."""
        environ = build_environ(scope, body, length)
        answer = await self._find_gate(scope["path"]).run(_Answer, self._application, environ, owner=owner)
        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
            while not answer.is_over:
                async with asyncio.timeout(READ_S):
                    await send({"type": "http.response.body", "body": answer.take(), "more_body": True})
                # Not behind those who wait for their first part: this answer has had its turn, and is cut off if it waits.
                await asyncio.to_thread(answer.fill)
            await send({"type": "http.response.body", "body": answer.take()})
        except TimeoutError:
            logger.info("%s %s: the client stopped reading", scope["method"], scope["path"])
        finally:
            answer.close()


class _Answer:
    """An answer of a WSGI application, made part by part."""

    def __init__(self, application: Callable[..., Iterable[bytes]], environ: dict[str, Any]) -> None:
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_over = False
        self._ready: list[bytes] = []
        self._parts = application(environ, self._start)
        self._rest: Iterator[bytes] = iter(self._parts)
        self.fill()

    def _start(self, status: str, headers: list[tuple[str, str]], _exc_info: object = None) -> None:
        self.status = int(status.partition(" ")[0])
        self.headers = [
            (name.strip().lower().encode("latin-1"), value.strip().encode("latin-1")) for name, value in headers
        ]

    def fill(self) -> None:
        """Make the next part; in a thread."""
        size = 0
        try:
            for piece in self._rest:
                self._ready.append(piece)
                size += len(piece)
                if size >= PART_BYTES:
                    return
        except BaseException:
            self.close()
            raise
        self.close()
        self.is_over = True

    def take(self) -> bytes:
        """Take the part that is made."""
        part = b"".join(self._ready)
        self._ready.clear()
        return part

    def close(self) -> None:
        """Tell the application that its answer is no longer needed; a second time does nothing."""
        close, self._parts = getattr(self._parts, "close", None), ()
        if close is not None:
            close()


def build_environ(scope: Scope, body: BinaryIO | Draining, length: int) -> dict[str, Any]:
    """Return the WSGI environment of a request whose body is complete."""
    server, port = scope.get("server") or ("localhost", 80)
    client = scope.get("client") or ("", 0)
    environ: dict[str, Any] = {
        "asgi.scope": scope,
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server,
        "SERVER_PORT": str(port or 0),
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": str(client[1]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        key = name.decode("latin-1").upper().replace("-", "_")
        if key != "CONTENT_TYPE":
            key = f"HTTP_{key}"
        text = value.decode("latin-1")
        # As RFC 9110 joins lists; cookies alone have another sign.
        environ[key] = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{text}" if key in environ else text
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    environ["CONTENT_LENGTH"] = str(length) if length or "HTTP_CONTENT_LENGTH" in environ else ""
    environ.pop("HTTP_CONTENT_LENGTH", None)
    return environ
