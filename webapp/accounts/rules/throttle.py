"""How long somebody who gave wrong passwords waits before the next one is looked at. Nobody is ever locked out."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import timedelta

WINDOW = timedelta(hours=1)
"""Older failures are forgotten."""


@dataclass(frozen=True)
class Limit:
    """So many failures cost nothing; each one beyond doubles the wait, up to so many seconds."""

    free: int
    most_seconds: int

    def wait_after(self, failures: int) -> timedelta:
        """Return the time from the last failure to the next try."""
        if failures < self.free:
            return timedelta()
        # Beyond 2¹⁶ seconds no limit goes; a shift by thousands would be a number of thousands of bits.
        return timedelta(seconds=min(self.most_seconds, 1 << min(failures - self.free, 16)))


BY_NAME_AND_ADDRESS = Limit(free=5, most_seconds=60)
BY_ADDRESS = Limit(free=50, most_seconds=30)
"""Over all names: many people may share an address."""
BY_NAME = Limit(free=100, most_seconds=5)
"""From all addresses, for those whose own tries are used up: whoever fails elsewhere may not be whoever waits here."""
BY_DEVICE = Limit(free=100, most_seconds=60)
"""On a device on which the person has signed in before, which waits for its own failures alone."""


def read_network(address: str) -> str:
    """Return what counts as one address: IPv6 users have 2⁶⁴ of them."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
