"""One supervisor for each role on a home, on whatever host it runs."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from webapp.core.errors import Conflict

LOCKS = {"all": ("web", "worker"), "worker": ("worker",)}
"""What each role of `manage.py run` holds: web and workers on two hosts share a home, two of a kind do not."""
_WIDTH = 80


def hold_home(folder: Path, *, role: str) -> Sequence[int]:
    """Lock a home for a role until this process ends, however it ends.

    Args:
        folder: where the lock files are kept.
        role: a key of `LOCKS`.

    Raises:
        Conflict: another process holds it; the message says which.

    """
    return [_lock(folder, name) for name in LOCKS[role]]


def _lock(folder: Path, name: str) -> int:
    path = folder / f"{name}.lock"
    # Opened to be read, too, and never cut: on a full disk the line is written over the one that was there.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, _WIDTH, 0).decode("utf-8", "replace").strip()
        os.close(descriptor)
        raise Conflict(
            f"The {name} part of {folder.parent} runs already: {holder or 'another process'}. "
            "Stop that one, or set TRIBUTARY_HOME to another folder.",
            code="home_in_use",
        ) from None
    with suppress(OSError):  # only the other one's message would miss it
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}"[:_WIDTH].ljust(_WIDTH).encode(), 0)
    return descriptor
