"""Functions over hostile text, called in child processes that the kernel kills at a deadline.

A regular expression that explodes holds Python's lock: neither its thread nor any other thread of the process can end
it. A child process can be ended. It has no secrets in its environment, a limit of memory, and an alarm that needs no
cooperation of Python.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PROCESSES = 2
"""Helper processes of one process."""
MEMORY_BYTES = 1024**3
STALE_CALLS = 256
"""Calls that ran out of time and are not tried again."""
_ROOT = Path(__file__).parents[2]
_LENGTH_BYTES = 8
_READY = b"!"


class OutOfTime(Exception):
    """The call was ended, or no helper was free."""


class _Process:
    """One helper process, used by one thread at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "webapp.core.helpers"],
            cwd=_ROOT,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._is_ready = False

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def wait_until_ready(self, ends: float) -> None:
        """Wait for the start of Python, which takes long on a busy host.

        Raises:
            OutOfTime: it has not started in time; a later call can use it.

        """
        if not self._is_ready and self._process.stdout is not None:
            _read_until(self._process.stdout, len(_READY), ends)
            self._is_ready = True

    def call(self, request: bytes, *, ends: float) -> Any:
        """Send a request and wait for the answer.

        Raises:
            OutOfTime: there was none in time; the process must be ended.

        """
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise OutOfTime
        try:
            # The child reads a request before it works, so that only a dead child does not take it.
            process.stdin.write(len(request).to_bytes(_LENGTH_BYTES) + request)
            process.stdin.flush()
            head = _read_until(process.stdout, _LENGTH_BYTES, ends)
            answer = _read_until(process.stdout, int.from_bytes(head), ends)
        except OSError as error:
            raise OutOfTime from error
        return json.loads(answer)

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        with self._process:
            pass


def _read_until(stream: IO[bytes], size: int, ends: float) -> bytes:
    """Read bytes before a deadline."""
    parts: list[bytes] = []
    while size:
        ready, _, _ = select.select([stream], [], [], max(0.0, ends - time.monotonic()))
        part = os.read(stream.fileno(), size) if ready else b""
        if not part:
            raise OutOfTime
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Helpers:
    """A few helper processes, started when they are needed."""

    def __init__(self, processes: int) -> None:
        self._places = threading.BoundedSemaphore(processes)
        self._idle: list[_Process] = []
        self._owner = os.getpid()
        self._stale: OrderedDict[bytes, None] = OrderedDict()

    def call(self, module: str, function: str, *arguments: Any, seconds: float) -> Any:
        """Call a function of a module in a helper process; arguments and result are JSON.

        Raises:
            OutOfTime: it did not end in time, or did not before.

        """
        request = json.dumps([module, function, arguments, seconds]).encode()
        key = sha256(json.dumps([module, function, arguments]).encode()).digest()
        ends = time.monotonic() + seconds
        if seconds <= 0 or key in self._stale or not self._places.acquire(timeout=seconds):
            raise OutOfTime
        try:
            return self._call(request, key, ends)
        finally:
            self._places.release()

    def _call(self, request: bytes, key: bytes, ends: float) -> Any:
        if self._owner != os.getpid():
            # A fork of this process shares the pipes: their answers would be mixed up.
            self._idle, self._owner = [], os.getpid()
        process = self._take()
        try:
            process.wait_until_ready(ends)
        except OutOfTime:
            self._idle.append(process)
            raise
        try:
            answer = process.call(request, ends=ends)
        except BaseException:
            process.end()
            self._stale[key] = None
            while len(self._stale) > STALE_CALLS:
                self._stale.popitem(last=False)
            raise
        self._idle.append(process)
        return answer

    def _take(self) -> _Process:
        while self._idle:
            process = self._idle.pop()
            if not process.has_ended:
                return process
            process.end()
        try:
            return _Process()
        except OSError as error:
            raise OutOfTime from error


_helpers = Helpers(PROCESSES)


def call_helper(module: str, function: str, *arguments: Any, seconds: float) -> Any:
    """Call a function of a module in one of this process's helpers; arguments and result are JSON.

    Raises:
        OutOfTime: it did not end in time, or did not before.

    """
    return _helpers.call(module, function, *arguments, seconds=seconds)


def _serve() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(_READY)
    sink.flush()
    while head := source.read(_LENGTH_BYTES):
        module, name, arguments, seconds = json.loads(source.read(int.from_bytes(head)))
        function: Callable[..., Any] = getattr(import_module(module), name)
        # The kernel ends this process when the alarm comes, whatever Python does, and if the caller has died, too.
        signal.setitimer(signal.ITIMER_REAL, seconds + 1)
        answer = json.dumps(function(*arguments)).encode()
        signal.setitimer(signal.ITIMER_REAL, 0)
        sink.write(len(answer).to_bytes(_LENGTH_BYTES) + answer)
        sink.flush()


if __name__ == "__main__":
    _serve()
