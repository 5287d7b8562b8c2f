"""A caller of the fork server, as small as the protocol allows."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Ended:
    """How a job ended and what it wrote."""

    code: int
    log: str


class Running:
    """One started job."""

    def __init__(self, connection: socket.socket, log: int) -> None:
        self.connection = connection
        self._log = log
        self._lines = connection.makefile("rb")
        self.started: dict[str, Any] = json.loads(self._lines.readline() or b"{}")

    def send(self, message: dict[str, Any]) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def has_answered(self, seconds: float) -> bool:
        """Whether it ends within that time."""
        return bool(select.select([self.connection], [], [], seconds)[0])

    def wait(self) -> Ended:
        answer = json.loads(self._lines.readline() or b'{"exit": -1}')
        log = b""
        while chunk := os.read(self._log, 65536):
            log += chunk
        self.close()
        return Ended(answer["exit"], log.decode(errors="replace"))

    def close(self) -> None:
        self._lines.close()
        self.connection.close()
        os.close(self._log)


class Server:
    """A fork server of one test session."""

    def __init__(self, folder: Path, *, mode: str = "auto", user: int | None = None) -> None:
        self.path = folder / "fork.sock"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jobs.entrypoints.forkserver", "--socket", str(self.path), "--mode", mode],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        for _ in range(600):
            if self.path.exists():
                break
            time.sleep(0.05)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(60)
        connection.connect(str(self.path))
        return connection

    def status(self) -> dict[str, Any]:
        with self.connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(b'{"op": "status"}\n')
            answer: dict[str, Any] = json.loads(lines.readline())
            return answer

    def serve(self, home: Path) -> None:
        """Be the fork server of an installation's home."""
        (home / "run").mkdir()
        (home / "run" / "fork.sock").symlink_to(self.path)

    def wait_ready(self) -> dict[str, Any]:
        while not (status := self.status())["ready"]:
            time.sleep(0.1)
        return status

    def start(self, request: dict[str, Any]) -> Running:
        connection = self.connect()
        read, write = os.pipe()
        socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [write])
        os.close(write)
        return Running(connection, read)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)
