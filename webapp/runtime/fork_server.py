"""How this installation's processes ask the fork server to start one of its own (jobs/entrypoints/forkserver.py)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from webapp.core.errors import Unavailable
from webapp.runtime.lifelines import die_with
from webapp.runtime.probes import ask_fork_server

LOST = -1
"""Exit code of a process whose fork server died, and the process with it."""
SETUP_FAILED = 125
CONNECT_SECONDS = 5
START_SECONDS = 12
"""The fork server answers at once, but right after its own start it first imports the libraries."""
READ_BYTES = 65536
_own: list[Path] = []
"""The socket of the server that this process has for itself, where it has one."""


def connect() -> socket.socket:
    """Return a connection to the fork server.

    Raises:
        Unavailable: it is not there.

    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_SECONDS)
    try:
        connection.connect(str(_path()))
    except OSError as error:
        connection.close()
        message = "The job runner is not there yet; the work starts when it is."
        raise Unavailable(message, code="runner_down") from error
    return connection


@contextmanager
def at_hand() -> Iterator[None]:
    """Have a fork server during the block: the installation's, or one of its own where that is stopped.

    For commands that an operator runs whether or not the parts are up; it ends with the command, even by `kill -9`.
    """
    if ask_fork_server(_path()) is not None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tributary-fork-") as folder:
        path = Path(folder) / "fork.sock"
        command = [sys.executable, "-m", "jobs.entrypoints.forkserver", "--socket", str(path)]
        environment = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
        parent = os.getpid()
        with subprocess.Popen(
            command,
            cwd=settings.BASE_DIR,
            env=environment,
            preexec_fn=lambda: die_with(parent),  # noqa: PLW1509 - a command has one thread
        ) as server:
            _own.append(path)
            try:
                _wait_for(path, server)
                yield
            finally:
                _own.remove(path)
                server.terminate()


def _wait_for(path: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not path.exists() and server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def _path() -> Path:
    return _own[-1] if _own else Path(settings.TRIBUTARY_HOME) / "run" / "fork.sock"


def start(
    request: Mapping[str, Any], *, descriptors: Sequence[int], env: Mapping[str, str] | None = None
) -> tuple[socket.socket, int, bytes]:
    """Start a process; return the connection that keeps it alive, its number, and what was received beyond.

    Args:
        request: what to start, in the words of the fork server's protocol.
        descriptors: what it writes to, and its channel where it has one; they stay open here.
        env: more of its environment.

    Raises:
        Unavailable: nothing has started.

    """
    whole = {"cwd": "/", "env": {**_base_environment(), **(env or {})}, **request}
    connection = connect()
    try:
        socket.send_fds(connection, [json.dumps(whole).encode() + b"\n"], list(descriptors))
        pid, rest = _read_start(connection)
    except OSError as error:
        connection.close()
        raise Unavailable(
            f"The job runner ended while it started a job: {error}.",
            code="runner_down",
        ) from error
    except Unavailable:
        connection.close()
        raise
    return connection, pid, rest


def _base_environment() -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "HOME": "/tmp",  # noqa: S108 - in the sandbox a memory file system of the job's own
        "PYTHONUNBUFFERED": "1",
    }


def _read_start(connection: socket.socket) -> tuple[int, bytes]:
    """Return the process id and the bytes after it: a short job's exit may be there already."""
    connection.settimeout(START_SECONDS)
    received = b""
    while b"\n" not in received:
        data = connection.recv(READ_BYTES)
        if not data:
            raise Unavailable("The job runner ended while it started a job.", code="runner_down")
        received += data
    line, rest = received.split(b"\n", 1)
    answer = json.loads(line)
    if "pid" not in answer:
        raise Unavailable(
            f"The job runner refused the job: {answer.get('error', 'no reason given')}",
            code="runner",
        )
    connection.settimeout(None)
    return int(answer["pid"]), rest


def wait_for_exit(connection: socket.socket, received: bytes, *, seconds: float) -> int | None:
    """Return the exit code of a started process, `LOST`, or None where it still runs after that long."""
    connection.settimeout(seconds)
    while b"\n" not in received:
        try:
            data = connection.recv(READ_BYTES)
        except TimeoutError:
            return None
        except OSError:
            data = b""
        if not data:
            return LOST
        received += data
    return int(json.loads(received).get("exit", LOST))
