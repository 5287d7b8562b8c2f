"""A limit on what this process maps beyond its libraries, which alone take gigabytes of addresses."""

from __future__ import annotations

import resource
from pathlib import Path


def leave_room(size: int) -> None:
    """Let this process map so many bytes more than it has, after which its libraries raise MemoryError."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except FileNotFoundError:  # a container may allow no /proc inside: what the caller has set holds
        return
    most = pages * resource.getpagesize() + size
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
