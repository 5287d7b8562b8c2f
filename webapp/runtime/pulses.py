"""Signs of life of a part: it writes into a pipe that the supervisor reads. Standard library only."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

VARIABLE = "SUPERVISOR_PIPE"
"""Environment variable with the number of the pipe."""
PIPE_SECONDS = 2.0
"""Pause between two beats into the pipe in seconds."""


class Pulse:
    """The supervisor's end of the pipe."""

    def __init__(self) -> None:
        self._read_end: int | None = None

    def begin(self) -> int:
        """Make a pipe for a new process; return the end that the process writes."""
        if self._read_end is not None:
            os.close(self._read_end)
        # Neither end waits: a stopped supervisor must not stop its parts, nor the other way round.
        self._read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        return write_end

    def has_answered(self) -> bool:
        """Return whether the process has beaten since the last call."""
        try:
            return self._read_end is not None and bool(os.read(self._read_end, 65536))
        except BlockingIOError:
            return False


def take_pipe() -> int | None:
    """Return the pipe to the supervisor, once; None if nobody supervises this process."""
    number = os.environ.pop(VARIABLE, "")
    if not number:
        return None
    os.set_inheritable(int(number), False)
    return int(number)


def beat(pipe: int) -> None:
    """Show the supervisor that this process runs."""
    with suppress(OSError):  # the pipe is full while the supervisor is stopped
        os.write(pipe, b".")


def start_pulse() -> None:
    """Beat from a thread from now on, if this process is supervised."""
    pipe = take_pipe()
    if pipe is not None:
        threading.Thread(target=_keep_beating, args=(pipe,), name="pulse", daemon=True).start()


def _keep_beating(pipe: int) -> None:
    while True:
        beat(pipe)
        time.sleep(PIPE_SECONDS)
