"""Requests to addresses that users chose. They reach the outside only: never this machine or its private networks.

The name is looked up once and the connection goes to the address that was checked, so that a name which changes its
address in between gains nothing. Redirections are not followed.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from webapp.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = 3.0
PORTS = {"http": 80, "https": 443}
EMBEDDING = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
"""NAT64 and the old IPv4-compatible addresses: an address of version 4 is at their end."""


class Unreachable(Exception):
    """The other side could not be asked; says why."""


class _Pinned(HTTPConnection):
    """A connection to an address that was checked, whatever its name leads to by now."""

    def __init__(self, parts: SplitResult, address: str) -> None:
        super().__init__(str(parts.hostname), parts.port or PORTS[parts.scheme], timeout=TIMEOUT_S)
        self._address = address

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), TIMEOUT_S)


class _PinnedSecure(_Pinned, HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


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
    """Post to an address and return the status of the answer, whose content is not read.

    Args:
        url: checked with `check_url`.
        body: what is sent.
        headers: besides the length.
        trusted: host names that may be of this machine or its networks.

    Raises:
        Unreachable: no answer, or the address is not of the outside.

    """
    parts = urlsplit(url)
    address = _find_address(str(parts.hostname), parts.port or PORTS[parts.scheme], trusted)
    connection = (_PinnedSecure if parts.scheme == "https" else _Pinned)(parts, address)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body, dict(headers))
        return connection.getresponse().status
    except (OSError, HTTPException) as error:
        message = f"{parts.hostname} did not answer: {error}"
        raise Unreachable(message) from error
    finally:
        connection.close()


def _find_address(host: str, port: int, trusted: frozenset[str]) -> str:
    try:
        addresses = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except OSError as error:
        message = f"{host} is not known: {error}"
        raise Unreachable(message) from error
    if host.lower() not in trusted and not all(_is_outside(address) for address in addresses):
        message = f"{host} is of this machine or its private networks; TRIBUTARY_WEBHOOK_HOSTS can allow it"
        raise Unreachable(message)
    return addresses[0]


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
