"""Runs the parts of an installation as children: starts them in order, restarts what dies, stops all of it cleanly.

A part has a session of its own, so Ctrl-C reaches only the supervisor, which then stops the parts in reverse order. The
kernel kills a part when the supervisor dies, even by `kill -9`: the death signal is set in the child before it
becomes the part. That signal is bound to the thread that forked, so parts are only ever started from the main thread.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAUSE_FIRST = 1.0
PAUSE_MOST = 30.0
STEADY_AFTER = 60.0
STOP_GRACE = 10.0
TICK = 0.2
PROBE_EVERY = 5.0
MISSES_ALLOWED = 3
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _always() -> bool:
    return True


@dataclass
class Part:
    """One child: what to run, and how to tell that it works."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    is_ready: Callable[[], bool] = _always
    waits_for: tuple[str, ...] = ()
    """Parts that must be ready before, or done where they run once; unknown ones do not count."""
    once: bool = False
    """Ends by itself when its work is done, and is not started again after a success."""
    repeats_with: tuple[str, ...] = ()
    """With `once`: its work is done again when one of these has started anew."""
    probed: bool = False
    """Whether `is_ready` is asked again and again; three misses in a row end the part, and it starts anew."""
    clean: tuple[Path, ...] = ()
    """Files removed before each start, such as a ready mark."""
    on_ready: Callable[[], None] | None = None

    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    ready: bool = field(default=False, init=False)
    done: bool = field(default=False, init=False)
    started_at: float = field(default=0.0, init=False)
    start_after: float = field(default=0.0, init=False)
    pause: float = field(default=PAUSE_FIRST, init=False)
    restarts: int = field(default=0, init=False)
    misses: int = field(default=0, init=False)
    probed_at: float = field(default=0.0, init=False)

    def start(self) -> None:
        """Start the child; its output goes to its log."""
        for path in self.clean:
            path.unlink(missing_ok=True)
        parent = os.getpid()

        def die_with_parent() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.command),
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - the supervisor has one thread
            )
        self.ready = False
        self.misses = 0
        self.started_at = self.probed_at = time.monotonic()

    def signal(self, number: int) -> None:
        """Send a signal to the part's whole process group."""
        if self.process is not None and self.process.poll() is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return

    def describe(self) -> dict[str, object]:
        """What pages and `readyz` say of it."""
        state = "done" if self.done else "ready" if self.ready else "starting" if self.process else "waiting"
        return {
            "state": state,
            "pid": self.process.pid if self.process else None,
            "restarts": self.restarts,
            "for_seconds": round(time.monotonic() - self.started_at) if self.process else 0,
        }


class Supervisor:
    """Keeps parts running until told to stop."""

    def __init__(self, parts: Sequence[Part], *, status: Path, say: Callable[[str], None]) -> None:
        self.parts = list(parts)
        self._by_name = {part.name: part for part in parts}
        self._status = status
        self._say = say
        self._stopping = 0

    def run(self) -> None:
        """Start and watch until SIGINT or SIGTERM, then stop everything."""
        signal.signal(signal.SIGINT, self._ask_to_stop)
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        try:
            while not self._stopping:
                for part in self.parts:
                    self._attend(part)
                self._write_status()
                time.sleep(TICK)
        finally:
            self._stop_all()
            self._status.unlink(missing_ok=True)

    def _ask_to_stop(self, number: int, _frame: object) -> None:
        self._stopping += 1
        if self._stopping == 1:
            self._say("Stopping." if number == signal.SIGTERM else "Stopping (Ctrl-C again kills at once).")

    def _attend(self, part: Part) -> None:
        now = time.monotonic()
        if part.done or now < part.start_after:
            return
        if part.process is None:
            if all(self._is_there(self._by_name[name]) for name in part.waits_for if name in self._by_name):
                part.start()
            return
        code = part.process.poll()
        if code is not None:
            self._note_end(part, code, now)
            return
        self._probe(part, now)

    @staticmethod
    def _is_there(part: Part) -> bool:
        return part.done if part.once else part.ready

    def _probe(self, part: Part, now: float) -> None:
        if part.ready:
            if not part.probed or now - part.probed_at < PROBE_EVERY:
                return
            part.probed_at = now
            part.misses = 0 if part.is_ready() else part.misses + 1
            if part.misses >= MISSES_ALLOWED:
                self._say(f"{part.name} does not answer: killing it.")
                part.signal(signal.SIGKILL)
        elif part.is_ready():
            part.ready = True
            if part.on_ready:
                part.on_ready()

    def _note_end(self, part: Part, code: int, now: float) -> None:
        part.process = None
        part.ready = False
        if part.once and code == 0:
            part.done = True
            return
        for other in self.parts:
            if part.name in other.repeats_with:
                other.done = False
        if now - part.started_at > STEADY_AFTER:
            part.pause = PAUSE_FIRST
        part.start_after = now + part.pause
        self._say(f"{part.name} ended with {code}; starting it again in {part.pause:.0f} s. Its log: {part.log}")
        part.pause = min(PAUSE_MOST, part.pause * 2)
        part.restarts += 1

    def _write_status(self) -> None:
        status = {part.name: part.describe() for part in self.parts}
        partial = self._status.with_suffix(".part")
        partial.write_text(json.dumps(status))
        partial.replace(self._status)

    def _stop_all(self) -> None:
        for part in reversed(self.parts):
            part.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_GRACE
        while self._stopping < 2 and time.monotonic() < deadline and any(self._lives(part) for part in self.parts):
            time.sleep(0.05)
        for part in self.parts:
            part.signal(signal.SIGKILL)
            if part.process is not None:
                part.process.wait()

    @staticmethod
    def _lives(part: Part) -> bool:
        return part.process is not None and part.process.poll() is None


def python(*arguments: str) -> list[str]:
    """A command line of this Python."""
    return [sys.executable, *arguments]
