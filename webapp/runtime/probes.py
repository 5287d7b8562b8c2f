"""Questions to the parts of an installation, each answered within a second or two."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from webapp.runtime.web.pulse import ALIVE

TIMEOUT = 2.0


def find_free_port() -> int:
    """Find a port of loopback that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers_tcp(host: str, port: int) -> bool:
    """Return whether something listens there."""
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT):
            return True
    except OSError:
        return False


def has_pulse(path: Path) -> bool:
    """Return whether the event loop of a web process answers at its socket."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(str(path))
            return connection.recv(len(ALIVE)) == ALIVE
    except OSError:
        return False


def ask_fork_server(path: Path) -> dict[str, Any] | None:
    """Ask the fork server for its status; None when it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(str(path))
            connection.sendall(b'{"op": "status"}\n')
            answer = connection.makefile().readline()
    except OSError:
        return None
    try:
        status: dict[str, Any] = json.loads(answer)
    except ValueError:
        return None
    return status


def is_fork_server_ready(path: Path) -> bool:
    """Return whether it answers and has its libraries imported."""
    status = ask_fork_server(path)
    return bool(status and status.get("ready"))
