"""Signs of life of a part: it writes into a pipe that the supervisor reads. Standard library only."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

VARIABLE = "SUPERVISOR_PIPE"
"""Environment variable with the number of the pipe."""
PIPE_SECONDS = 2.0
"""Pause between two beats into the pipe in seconds."""
PROBE_SECONDS = 20.0
"""Time in seconds within which a free thread takes a probe."""
SIGN_SECONDS = 120.0
"""Time in seconds within which one of the busy threads of a pool gives a sign; no lease is longer."""


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


class PoolCheck:
    """Tells whether the threads of a pool work: a free one takes a probe, and busy ones give signs of their work."""

    def __init__(self) -> None:
        self._submit: Callable[[Callable[[], None]], object] | None = None
        self._is_busy: Callable[[], bool] = bool
        self._is_probing = False
        self._answered_at = self._signed_at = 0.0

    def begin(self, submit: Callable[[Callable[[], None]], object], *, is_busy: Callable[[], bool]) -> None:
        """Check a pool from now on.

        Args:
            submit: has a thread of the pool call a function.
            is_busy: whether all threads have work.

        """
        self._answer()
        self._submit, self._is_busy = submit, is_busy

    def note_work(self) -> None:
        """Show that a busy thread goes on."""
        self._signed_at = time.monotonic()

    def works(self) -> bool:
        """Return whether the pool works; also before there is one."""
        if self._submit is None:
            return True
        if not self._is_probing:
            self._is_probing = True
            try:
                self._submit(self._answer)
            except RuntimeError:
                return True  # the worker ends and takes no more work
        now = time.monotonic()
        if now - self._answered_at < PROBE_SECONDS:
            return True
        return self._is_busy() and now - self._signed_at < SIGN_SECONDS

    def _answer(self) -> None:
        self._answered_at = self._signed_at = time.monotonic()
        self._is_probing = False


pool_check = PoolCheck()
"""That of this process."""


def start_pulse() -> None:
    """Beat from a thread from now on, if this process is supervised, as long as its pool works."""
    pipe = take_pipe()
    if pipe is not None:
        threading.Thread(target=_keep_beating, args=(pipe,), name="pulse", daemon=True).start()


def _keep_beating(pipe: int) -> None:
    while True:
        if pool_check.works():
            beat(pipe)
        time.sleep(PIPE_SECONDS)
