"""What a sandbox must reach, each as `name:port`: the parts at some addresses, and the store of tables' files."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from django.conf import settings

from webapp.runtime import object_store

PORTS = {"http": 80, "https": 443, "sc": 15002}


def find_hosts(addresses: Iterable[str]) -> tuple[str, ...]:
    """Return the hosts of the parts at these addresses and of the files' object store, each as `name:port`."""
    hosts = [name_host(address) for address in addresses]
    if object_store.is_object_location(settings.TRIBUTARY_WAREHOUSE):
        hosts += [name_host(address) for address in object_store.list_addresses()]
    return tuple(dict.fromkeys(hosts))


def name_host(address: str) -> str:
    """Return host and port of an address; the port is its scheme's own where it names none."""
    parts = urlsplit(address)
    name = parts.hostname or ""
    return f"{f'[{name}]' if ':' in name else name}:{parts.port or PORTS[parts.scheme]}"
