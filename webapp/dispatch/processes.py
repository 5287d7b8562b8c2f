"""Processes in the sandbox, started through the warm fork server (jobs/entrypoints/forkserver.py), and how they ended."""

from __future__ import annotations

import json
import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path
from threading import Thread
from typing import Any, Self

from django.db import connection

from webapp.core.databases import BUSY
from webapp.core.errors import Unavailable
from webapp.dispatch.logs import LogWriter
from webapp.runtime import fork_server
from webapp.runtime.fork_server import CONNECT_SECONDS, LOST, READ_BYTES, SETUP_FAILED
from webapp.runtime.pulses import pool_check
from webapp.runtime.spark_folders import Loan

OVER_QUOTA = 122
"""Exit code of a job that wrote more than its limit `disk_bytes`, and was ended."""
MOST_FILES = 200_000
"""So many files and folders may a process add; it is ended as over its quota with more (see jobs/entrypoints/disk_quota.py)."""
OVER_MEMORY = 123
"""Exit code of a job that held more than its limit `total_memory_bytes` with all its processes, and was ended."""
GRACE_SECONDS = 2
LOOK_SECONDS = 0.5
"""So often it is looked whether a process that runs may go on."""
BEAT_SECONDS = 3.0
"""So often the lease of who started it is renewed meanwhile."""


class Ending(Enum):
    """In which way a process came to its end."""

    EXITED = auto()
    """By itself, or by what it runs on: its exit code says how."""
    LOST = auto()
    """The fork server died, and the process with it."""
    SPARK_LOST = auto()
    """It failed, and the Spark server that was lent to it had ended."""
    NO_SANDBOX = auto()
    OVER_DISK = auto()
    OVER_MEMORY = auto()
    OVER_TIME = auto()
    """It was ended because it took too long."""
    WITHDRAWN = auto()
    """It was ended because who started it may not go on with it."""


OF_CODES = {
    LOST: Ending.LOST,
    SETUP_FAILED: Ending.NO_SANDBOX,
    OVER_QUOTA: Ending.OVER_DISK,
    OVER_MEMORY: Ending.OVER_MEMORY,
}


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended."""

    ending: Ending
    code: int
    """Its exit code, or what stands for one."""

    @classmethod
    def of_code(cls, code: int) -> Self:
        """Return the end that a code of the fork server says."""
        return cls(OF_CODES.get(code, Ending.EXITED), code)

    @property
    def is_success(self) -> bool:
        """Whether the process says that it has done all that it was to do."""
        return self.ending is Ending.EXITED and self.code == 0

    def with_spark(self, loan: Loan) -> ProcessEnd:
        """Return how a process ended to which a Spark server was lent: one that has ended explains what failed."""
        has_failed = self.ending in {Ending.EXITED, Ending.LOST, Ending.NO_SANDBOX} and self.code != 0
        return replace(self, ending=Ending.SPARK_LOST) if has_failed and loan.is_lost else self


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What the process may see: folders to read, folders to write, hosts to reach, each as `name:port`."""

    readonly: Sequence[str] = ()
    layered: Sequence[str] = ()
    """Folders to read whose use by this process, and no other, it can watch."""
    writable: Sequence[str] = ()
    hosts: Sequence[str] = ()
    sealed: Sequence[str] = ()
    """Folders to write whose files stay; they are frozen and checked when the process has ended."""
    seal: str = ""
    """Where it is then written what they hold; see jobs/entrypoints/sealing.py."""
    is_shared: bool = False
    """Whether a Spark server writes there, too."""

    def as_request(self) -> dict[str, Any]:
        """Return the sandbox as the fork server takes it: always with a network of its own, in which only the hosts are."""
        return {
            "readonly": list(self.readonly),
            "writable": list(self.writable),
            "layered": list(self.layered),
            "ports": [],
            "hosts": list(self.hosts),
            "sealed": list(self.sealed),
            "seal": self.seal,
            "is_shared": self.is_shared,
        }


@dataclass
class Handle:
    """A started job. Closing it, or the death of this process, kills the job."""

    pid: int
    _socket: socket.socket
    _pump: Thread
    _received: bytes = b""
    _exit: int | None = field(default=None)

    def wait(self, seconds: float) -> int | None:
        """Wait that long for the end; return the exit code, `LOST`, or None while it runs."""
        deadline = time.monotonic() + seconds
        while self._exit is None:
            left = deadline - time.monotonic()
            if left < 0 or not select.select([self._socket], [], [], left)[0]:
                return None
            self._read_answer()
        return self._exit

    def stop(self, *, at_once: bool = False) -> int:
        """End it: TERM, two seconds, KILL for all it started; at once by KILL alone. Return the exit code."""
        for name in ("KILL",) if at_once else ("TERM", "KILL"):
            self._send({"kill": name})
            code = self.wait(GRACE_SECONDS if name == "TERM" else 30)
            if code is not None:
                return code
        return LOST

    def close(self) -> None:
        """Kill what is left and wait for the last log line."""
        self._socket.close()
        self._pump.join(timeout=10)

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._exit = LOST if self._exit is None else self._exit

    def _read_answer(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except OSError:
            data = b""
        self._received += data
        line, newline, _ = self._received.partition(b"\n")
        if newline:
            self._exit = int(json.loads(line).get("exit", LOST))
        elif not data:
            self._exit = LOST


def launch(
    entrypoint: str,
    manifest: Path,
    *,
    sandbox: Sandbox,
    limits: Mapping[str, int],
    log_path: Path,
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    channel: socket.socket | None = None,
) -> Handle:
    """Start `jobs.entrypoints.<entrypoint>` on a manifest; its output is appended to the log, line by line.

    The process gets `channel` as its descriptor 3 (jobs/channel.py). Raises Unavailable when the fork server is not there: nothing has started then.
    """
    request = {
        "entrypoint": entrypoint,
        "manifest": str(manifest),
        "cwd": cwd,
        "limits": dict(limits),
        "sandbox": sandbox.as_request(),
    }
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    descriptors = [write_end] if channel is None else [write_end, channel.fileno()]
    try:
        process, pid, rest = fork_server.start(request, descriptors=descriptors, env=env)
    except Unavailable:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    pump = Thread(
        target=_pump,
        args=(read_end, log_path, on_line),
        name=f"log of {pid}",
        daemon=True,
    )
    pump.start()
    return Handle(pid=pid, _socket=process, _pump=pump, _received=rest)


def watch(
    handle: Handle,
    *,
    seconds: float,
    look: Callable[[], bool] = lambda: True,
    beat: Callable[[], object] = lambda: None,
    is_cut_off: Callable[[], bool] = lambda: False,
) -> ProcessEnd:
    """Wait for the end of a process, and see to it that there is one.

    Args:
        handle: the process.
        seconds: it is ended after so long.
        look: says every moment whether it may go on; else it is ended.
        beat: renews the lease of who started it.
        is_cut_off: says whether what was lent to it has ended; then it is killed.

    """
    began = beaten = time.monotonic()
    while (code := handle.wait(LOOK_SECONDS)) is None:
        now = time.monotonic()
        pool_check.note_work()
        if is_cut_off():
            return ProcessEnd.of_code(handle.stop(at_once=True))
        try:
            if not look():
                return ProcessEnd(Ending.WITHDRAWN, handle.stop())
            if now - beaten > BEAT_SECONDS:
                beat()
                beaten = now
        except BUSY:
            # The process goes on, and a lease lasts a while: what is missed now is seen at the next look.
            connection.close_if_unusable_or_obsolete()
        if now - began > seconds:
            return ProcessEnd(Ending.OVER_TIME, handle.stop())
    return ProcessEnd.of_code(code)


def read_status() -> dict[str, Any]:
    """Return what the fork server says about itself: `sandbox`, `ready`, `jobs`."""
    with fork_server.connect() as channel:
        channel.settimeout(CONNECT_SECONDS)
        try:
            channel.sendall(b'{"op": "status"}\n')
            status: dict[str, Any] = json.loads(channel.makefile("rb").readline() or b"{}")
        except (OSError, ValueError) as error:
            raise Unavailable("The job runner does not answer.", code="runner_down") from error
    return status


def _pump(read_end: int, log_path: Path, on_line: Callable[[str], None] | None) -> None:
    """Copy lines from the job to its log until the last of its processes has closed its end."""
    log = LogWriter(log_path)
    with closing(log), os.fdopen(read_end, "rb", buffering=0) as source:
        pending = b""
        while data := source.read(READ_BYTES):
            *lines, pending = (pending + data).split(b"\n")
            if len(pending) > READ_BYTES:
                lines.append(pending)
                pending = b""
            for line in lines:
                _write_line(line, log, on_line)
        if pending:
            _write_line(pending, log, on_line)


def _write_line(line: bytes, log: LogWriter, on_line: Callable[[str], None] | None) -> None:
    text = line.decode("utf-8", "replace").rstrip("\r")
    log.write(text)
    if on_line is not None:
        on_line(text)
