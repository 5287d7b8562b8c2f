"""Runs the parts of an installation as children: starts them in order, restarts what dies or hangs, stops all of it cleanly.

A part has a session of its own, so Ctrl-C reaches only the supervisor, which then stops the parts in reverse order. The
kernel kills a part when the supervisor dies, even by `kill -9`: the death signal is set in the child before it
becomes the part. That signal is bound to the thread that forked, so parts are only ever started from the main thread.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jobs.whole_files import write_whole
from webapp.runtime.lifelines import die_with
from webapp.runtime.privileges import keep_only
from webapp.runtime.probes import Probe
from webapp.runtime.process_groups import STOPPED, ProcessState, read_groups
from webapp.runtime.pulses import VARIABLE as PIPE_VARIABLE
from webapp.runtime.pulses import Pulse

PAUSE_SECOND = 1.0
"""Pause in seconds after the second failed start in a row; it doubles with each further one."""
PAUSE_MOST = 30.0
STOP_GRACE = 10.0
TICK = 0.2
LOOK_SECONDS = 2.0
"""Pause between two looks at the processes of all parts in seconds."""
SILENT_SECONDS = 12.0
"""Time in seconds after which an idle part without a sign of life hangs."""
BUSY_SECONDS = 120.0
"""The same for a part that uses the processor."""
START_SECONDS = 300.0
"""The same for a part that is starting."""
IDLE_SHARE = 0.02
"""Share of one processor that an idle part uses at most."""
LATE_SECONDS = 5.0
"""A turn of the loop that is so late was stopped itself, and the parts perhaps with it."""
RENEWED = 75
"""How Spark's server ends to start anew for others (jobs/entrypoints/opener.py)."""


def _always() -> bool:
    return True


@dataclass
class Part:
    """One child: what to run, and how to tell that it works."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    probe: Probe | Pulse | None = None
    """How it gives signs of life; None: it is not asked."""
    is_ready: Callable[[], bool] = _always
    """Whether its last sign of life was that of a part that is ready."""
    waits_for: tuple[str, ...] = ()
    """Parts that must be ready before, or done where they run once; unknown ones do not count."""
    once: bool = False
    """Ends by itself when its work is done, and is not started again after a success."""
    repeats_with: tuple[str, ...] = ()
    """With `once`: its work is done again when one of these has started anew."""
    clean: tuple[Path, ...] = ()
    """Files removed before each start, such as a ready mark."""
    on_ready: Callable[[], None] | None = None
    capabilities: Collection[int] | None = None
    """The rights of root that it keeps; None: all of them, as who makes sandboxes needs."""
    descriptors: tuple[int, ...] = ()
    """Open files that the child gets under the same numbers, such as a listening socket."""
    most_pause: float = PAUSE_MOST
    """Longest pause between failed starts in seconds."""

    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    ready: bool = field(default=False, init=False)
    done: bool = field(default=False, init=False)
    started_at: float = field(default=0.0, init=False)
    start_after: float = field(default=0.0, init=False)
    pause: float = field(default=0.0, init=False)
    restarts: int = field(default=0, init=False)
    heard_at: float = field(default=0.0, init=False)
    """Time of its last sign of life."""
    worked_at: float = field(default=0.0, init=False)
    """Time when it was last seen using the processor."""
    processor_s: float = field(default=0.0, init=False)
    stopped_since: dict[int, float] = field(default_factory=dict, init=False)
    """Processes of it that are stopped."""

    def start(self) -> None:
        """Start the child; its output goes to its log."""
        for path in self.clean:
            path.unlink(missing_ok=True)
        parent = os.getpid()
        pipe = None if self.probe is None else self.probe.begin()
        try:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    list(self.command),
                    env={**self.environment, **({} if pipe is None else {PIPE_VARIABLE: str(pipe)})},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(*self.descriptors, *([] if pipe is None else [pipe])),
                    preexec_fn=lambda: self._prepare(parent),  # noqa: PLW1509 - the supervisor has one thread
                )
        finally:
            if pipe is not None:
                os.close(pipe)
        self.ready = False
        self.started_at = time.monotonic()
        self.forgive(self.started_at)

    def forgive(self, now: float) -> None:
        """Begin to listen and to look again: what was before says nothing about the part."""
        self.heard_at = self.worked_at = now
        self.stopped_since = {}

    def look_at(self, processes: Sequence[ProcessState], *, now: float, seconds: float) -> None:
        """Note which of its processes are stopped, and whether they worked in the last so many seconds."""
        stopped = [process.pid for process in processes if process.state == STOPPED]
        self.stopped_since = {pid: self.stopped_since.get(pid, now) for pid in stopped}
        used = sum(process.processor_s for process in processes)
        # Less than before: one of them has ended.
        if abs(used - self.processor_s) > IDLE_SHARE * seconds or any(process.is_working for process in processes):
            self.worked_at = now
        self.processor_s = used

    def is_hung(self, now: float) -> bool:
        """Return whether it gives no signs of life and does nothing else either."""
        if self.probe is None:
            return False
        if not self.ready:
            return now - self.heard_at > START_SECONDS
        is_busy = now - self.worked_at < SILENT_SECONDS
        return now - self.heard_at > (BUSY_SECONDS if is_busy else SILENT_SECONDS)

    def _prepare(self, parent: int) -> None:
        """Prepare the child, in which this is called, to become the part."""
        die_with(parent)
        if self.capabilities is not None:
            keep_only(self.capabilities)

    def signal(self, number: int) -> None:
        """Send a signal to the part's whole process group."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def find_end(self) -> int | None:
        """Return the exit code of a child that has ended, after killing the rest of its group; None while it runs."""
        if self.process is None or self.process.returncode is not None:
            return None if self.process is None else self.process.returncode
        if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        # Until it is reaped, the number of its group is its own.
        self.signal(signal.SIGKILL)
        return self.process.wait()

    def describe(self) -> dict[str, object]:
        """Return what pages and `readyz` say of it."""
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
        self._report = say
        self._stopping = 0
        self._status_is_kept = True
        self._written: dict[str, dict[str, object]] = {}
        self._turned_at = self._looked_at = time.monotonic()

    def run(self) -> None:
        """Start and watch until SIGINT or SIGTERM, then stop everything."""
        signal.signal(signal.SIGINT, self._ask_to_stop)
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        try:
            while not self._stopping:
                self._turn()
                self._write_status()
                time.sleep(TICK)
        finally:
            self._stop_all()
            with suppress(OSError):
                self._status.unlink(missing_ok=True)

    def _say(self, line: str) -> None:
        with suppress(OSError):  # its output may lie on the disk that is full, or its terminal be closed
            self._report(line)

    def _ask_to_stop(self, number: int, _frame: object) -> None:
        self._stopping += 1
        if self._stopping == 1:
            self._say("Stopping." if number == signal.SIGTERM else "Stopping (Ctrl-C again kills at once).")

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._turned_at > LATE_SECONDS:
            for part in self.parts:
                part.forgive(now)
        self._turned_at = now
        if now - self._looked_at >= LOOK_SECONDS:
            self._look(now)
        for part in self.parts:
            self._attend(part)

    def _look(self, now: float) -> None:
        """Look at the processes of all parts, and end those that have been stopped for long; others replace them."""
        seconds, self._looked_at = now - self._looked_at, now
        groups = read_groups({part.process.pid for part in self.parts if part.process is not None})
        for part in self.parts:
            if part.process is None:
                continue
            part.look_at(groups.get(part.process.pid, ()), now=now, seconds=seconds)
            for pid in [pid for pid, since in part.stopped_since.items() if now - since >= SILENT_SECONDS]:
                self._say(f"Process {pid} of {part.name} is stopped: killing it.")
                del part.stopped_since[pid]  # killed again after the same time if it lives on
                with suppress(OSError):  # it has ended, or is another user's and this process may not
                    os.kill(pid, signal.SIGKILL)

    def _attend(self, part: Part) -> None:
        now = time.monotonic()
        if part.done or now < part.start_after:
            return
        if part.process is None:
            if all(self._is_there(self._by_name[name]) for name in part.waits_for if name in self._by_name):
                self._start(part, now)
            return
        code = part.find_end()
        if code is not None:
            self._note_end(part, code, now)
            return
        self._listen(part, now)

    def _start(self, part: Part, now: float) -> None:
        """Start a part; what the machine lacks for it now (room, processes, memory) may be there later."""
        try:
            part.start()
        except OSError as error:
            self._put_off(part, now)
            self._say(f"{part.name} cannot be started: {error}. It is tried again in {part.start_after - now:.0f} s.")

    @staticmethod
    def _put_off(part: Part, now: float) -> None:
        part.start_after = now + part.pause
        part.pause = min(part.most_pause, max(PAUSE_SECOND, part.pause * 2))

    @staticmethod
    def _is_there(part: Part) -> bool:
        return part.done if part.once else part.ready

    def _listen(self, part: Part, now: float) -> None:
        if part.probe is None or part.probe.has_answered():
            part.heard_at = now
            if not part.ready and part.is_ready():
                part.ready = True
                if part.on_ready:
                    part.on_ready()
        if part.is_hung(now):
            self._say(f"{part.name} does not answer: killing it.")
            part.signal(signal.SIGKILL)
            part.forgive(now)

    def _note_end(self, part: Part, code: int, now: float) -> None:
        was_ready, part.process, part.ready = part.ready, None, False
        if part.once and code == 0:
            part.done = True
            return
        for other in self.parts:
            if part.name in other.repeats_with:
                other.done = False
        if code == RENEWED:  # on purpose: at once, however often
            return
        if was_ready and not part.once:
            # Only starts that fail are repeated after pauses.
            part.pause, part.start_after = 0.0, now
        else:
            self._put_off(part, now)
        when = f"in {part.start_after - now:.0f} s" if part.start_after > now else "at once"
        self._say(f"{part.name} ended with {code}; starting it again {when}. Its log: {part.log}")
        part.restarts += 1

    def _write_status(self) -> None:
        status = {part.name: part.describe() for part in self.parts}
        if status == self._written:
            return
        try:
            write_whole(self._status, json.dumps(status))
        except OSError as error:
            # A full disk, above all: the parts run on, and so must what watches them.
            if self._status_is_kept:
                self._say(f"The state of the parts cannot be written: {error}. Everything goes on without it.")
            self._status_is_kept = False
            return
        self._status_is_kept = True
        self._written = status

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
        return part.process is not None and part.find_end() is None


def python(*arguments: str) -> list[str]:
    """Return a command line of this Python."""
    return [sys.executable, *arguments]
