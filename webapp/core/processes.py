"""Names of processes that tell whether the process lives still."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def name_process() -> str:
    """Return the name of this process: host, number and start, so that a later one of its number has another."""
    return f"{socket.gethostname()} {os.getpid()} {_read_start(os.getpid())}"


def is_dead(name: str) -> bool:
    """Return whether the process of a name is known to have ended: that of another host is not, and without a name it is."""
    if not name:
        return True
    _host, pid, start = name.split(" ")
    return is_of_this_host(name) and _read_start(int(pid)) != start


def is_of_this_host(name: str) -> bool:
    """Return whether the process of a name runs, or ran, where this one does."""
    return name.partition(" ")[0] == socket.gethostname()


def _read_start(pid: int) -> str:
    """Return when a process started, in ticks since the machine did; empty where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
