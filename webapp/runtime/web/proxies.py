"""Who is asking, and how, where proxies stand in between: told by those that are trusted, and by nobody else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from django.conf import settings
from django.http.request import split_domain_port, validate_host

Scope = MutableMapping[str, Any]
Network = IPv4Network | IPv6Network
_TOLD = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port"})


class Proxies:
    """The proxies that an installation trusts."""

    def __init__(self, names: Iterable[str]) -> None:
        """Trust addresses or networks, such as `127.0.0.1` and `10.0.0.0/8`."""
        self._networks: list[Network] = [ip_network(name, strict=False) for name in names]

    def unwrap(self, scope: Scope) -> Scope:
        """Return the request as its first sender made it.

        What a trusted proxy says of address and scheme is kept: the last of each header's values, which is its own. What
        anybody else says of them is dropped.
        """
        forwarded = [header for header in scope["headers"] if header[0] in _TOLD]
        if not forwarded:
            return scope
        client = scope.get("client") or ("", 0)
        headers = [header for header in scope["headers"] if header[0] not in _TOLD]
        if self.trusts(client[0]):
            client = (self._find_sender(forwarded) or client[0], client[1])
            headers += _own(forwarded, b"x-forwarded-proto")
        return {**scope, "headers": headers, "client": client}

    def trusts(self, address: str) -> bool:
        """Return whether an address is a trusted proxy's."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in network for network in self._networks)

    def _find_sender(self, headers: list[tuple[bytes, bytes]]) -> str | None:
        """Find the nearest address that is no trusted proxy; what stands before it is only claimed."""
        chain = ",".join(value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for")
        sender = None
        for part in reversed(chain.split(",")):
            address = part.strip()
            try:
                ip_address(address)
            except ValueError:
                break
            sender = address
            if not self.trusts(address):
                break
        return sender


def drop_underscores(scope: Scope) -> Scope:
    """Return the request without headers whose names have an underscore, which WSGI cannot tell from a hyphen."""
    headers = [header for header in scope["headers"] if b"_" not in header[0]]
    return scope if len(headers) == len(scope["headers"]) else {**scope, "headers": headers}


def _own(headers: list[tuple[bytes, bytes]], name: bytes) -> list[tuple[bytes, bytes]]:
    values = [value for key, value in headers if key == name]
    return [(name, values[-1].rpartition(b",")[2].strip())] if values else []


def read_base(headers: Mapping[str, str]) -> str:
    """Return the address that a request came to, as its sender wrote it; the installation's own if that is not ours."""
    host = headers.get("host", "")
    domain, _port = split_domain_port(host)
    if not validate_host(domain, settings.ALLOWED_HOSTS):
        return str(settings.TRIBUTARY_URL)
    return f"{headers.get('x-forwarded-proto', 'http')}://{host}"
