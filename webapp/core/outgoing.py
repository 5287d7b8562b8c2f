"""Requests to addresses that users chose. They reach the outside only: never this machine or its private networks.

The name is looked up once and the connection goes to the address that was checked, so that a name which changes its
address in between gains nothing. Redirections are not followed.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from webapp.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = 3.0
"""Of a whole exchange."""
MOST_HEAD_BYTES = 16 * 1024
"""Of the answer's status line, with interim answers before it."""
LOOKUPS = 16
"""Names that are looked up at a time."""
INTERIM = frozenset({100, *range(102, 200)})
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)[ \r\n]")
_lookups = threading.BoundedSemaphore(LOOKUPS)
PORTS = {"http": 80, "https": 443}
EMBEDDING = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
"""NAT64 and the old IPv4-compatible addresses: an address of version 4 is at their end."""


class Unreachable(Exception):
    """The other side could not be asked; says why."""


class _Pinned(HTTPConnection):
    """A connection to an address that was checked, whatever its name leads to by now. It is cut at a deadline."""

    def __init__(self, parts: SplitResult, address: str, *, ends: float) -> None:
        super().__init__(str(parts.hostname), parts.port or PORTS[parts.scheme], timeout=TIMEOUT_S)
        self._address = address
        self._ends = ends
        self._end: socket.socket | None = None
        self._timer: threading.Timer | None = None

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), max(0.01, _left(self._ends)))
        # A timeout of a socket is for each read and write: a peer that sends a byte now and then never meets it.
        self._end = self.sock.dup()
        self._timer = threading.Timer(_left(self._ends), _cut, [self._end])
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        super().close()
        if self._timer is not None and self._end is not None:
            self._timer.cancel()
            self._timer.join()
            self._end.close()


class _PinnedSecure(_Pinned, HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


def _left(ends: float) -> float:
    return max(0.0, ends - time.monotonic())


def _cut(end: socket.socket) -> None:
    with suppress(OSError):  # the other side was faster
        end.shutdown(socket.SHUT_RDWR)


def check_url(url: str) -> SplitResult:
    """Refuse an address that is none of the web.

    Raises:
        InvalidInput: says what is wrong with it.

    """
    try:
        parts = urlsplit(url)
        is_complete = parts.scheme in PORTS and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_complete = False
    if not is_complete or parts.username or not url.isascii() or any(character <= " " for character in url):
        message = f"{url!r} is no address such as https://example.org/hook; names and passwords do not belong into it."
        raise InvalidInput(message, code="url", errors={"url": [message]})
    return parts


def post(url: str, *, body: bytes, headers: Mapping[str, str], trusted: frozenset[str]) -> int:
    """Post to an address and return the status of the answer; nothing after its first line is read.

    One deadline covers the name, the connection, the request and the answer.

    Args:
        url: checked with `check_url`.
        body: what is sent.
        headers: besides the length.
        trusted: host names that may be of this machine or its networks.

    Raises:
        Unreachable: no answer, or the address is not of the outside.

    """
    parts = urlsplit(url)
    ends = time.monotonic() + TIMEOUT_S
    address = _find_address(str(parts.hostname), parts.port or PORTS[parts.scheme], trusted, ends=ends)
    connection = (_PinnedSecure if parts.scheme == "https" else _Pinned)(parts, address, ends=ends)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body, dict(headers))
        with connection.sock.makefile("rb") as answer:
            return _read_status(answer)
    except (OSError, HTTPException) as error:
        message = f"{parts.hostname} did not answer: {error}"
        raise Unreachable(message) from error
    finally:
        connection.close()


def _read_status(answer: IO[bytes]) -> int:
    """Read the status of an answer, after interim ones such as `100 Continue`.

    Raises:
        HTTPException: it is no answer of HTTP, or its head is too long.

    """
    left = MOST_HEAD_BYTES
    is_interim = False
    while True:
        line = answer.readline(left)
        left -= len(line)
        if not line.endswith(b"\n"):
            reason = "the connection was closed" if left else f"its head has more than {MOST_HEAD_BYTES:,} bytes"
            raise HTTPException(reason)
        if is_interim:
            is_interim = bool(line.strip())
            continue
        status_line = _STATUS_LINE.match(line)
        if status_line is None:
            reason = "the answer is not HTTP"
            raise HTTPException(reason)
        status = int(status_line[1])
        if status not in INTERIM:
            return status
        is_interim = True


def _find_address(host: str, port: int, trusted: frozenset[str], *, ends: float) -> str:
    addresses = _look_up(host, port, ends=ends)
    if host.lower() not in trusted and not all(_is_outside(address) for address in addresses):
        message = f"{host} is of this machine or its private networks; TRIBUTARY_WEBHOOK_HOSTS can allow it"
        raise Unreachable(message)
    return addresses[0]


def _look_up(host: str, port: int, *, ends: float) -> list[str]:
    """Return the addresses of a name, or give up at the deadline: the name server is the user's choice, too."""
    if not _lookups.acquire(blocking=False):
        message = f"{host} was not looked up: too many name servers do not answer"
        raise Unreachable(message)
    outcome: SimpleQueue[list[str] | Exception] = SimpleQueue()

    def ask() -> None:
        try:
            outcome.put([str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)])
        except (OSError, UnicodeError) as error:
            outcome.put(error)
        finally:
            _lookups.release()

    threading.Thread(target=ask, name="name lookup", daemon=True).start()
    try:
        answer = outcome.get(timeout=_left(ends))
    except Empty:
        answer = TimeoutError("the name server does not answer")
    if isinstance(answer, Exception):
        message = f"{host} is not known: {answer}"
        raise Unreachable(message) from answer
    return answer


def _is_outside(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    inner = (_find_embedded(parsed) or parsed) if isinstance(parsed, ipaddress.IPv6Address) else parsed
    return inner.is_global and not inner.is_multicast and not getattr(inner, "is_site_local", False)


def _find_embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the address of version 4 to which a gateway or the kernel would carry this one."""
    for network in EMBEDDING:
        if address in network:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
