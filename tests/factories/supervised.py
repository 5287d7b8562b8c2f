"""An installation under its supervisor, `manage.py run`, with the tools to kill its processes one by one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.factories.builds import PASSWORD, ROOT, Stack, wait_until
from tests.factories.databases import migrate
from tests.factories.spark import QUICK_JAVA
from webapp.runtime.probes import ask_fork_server, find_free_port

NO_SPARK = "sc://localhost:1/;token=none"


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one of its number."""

    pid: int
    started: int
    command: str

    @property
    def lives(self) -> bool:
        """Whether it runs still."""
        return find_process(self.pid) == self

    def kill(self) -> None:
        """kill -9."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def find_process(pid: int) -> Process | None:
    """Return a process that is no zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None
    return None if fields[0] == "Z" else Process(pid=pid, started=int(fields[19]), command=command)


def list_descendants(pid: int) -> list[Process]:
    """Return the living processes below one, the nearest first."""
    found: list[Process] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                process = find_process(int(child))
                found += [*([process] if process else []), *list_descendants(int(child))]
    return found


class SupervisedStack(Stack):
    """A stack whose parts are the supervisor's children; `parts` holds the supervisor alone."""

    def start(self) -> None:
        """Run the supervisor, and wait until the parts answer."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self.home / "db.sqlite3").exists():
            migrate(self.home, self.environment)
        self.run()
        answer = requests.post(f"{self.url}/tokens", json={"name": "tests"}, auth=("admin", PASSWORD), timeout=10)
        answer.raise_for_status()
        self.token = answer.json()["token"]

    def run(self) -> None:
        """Start `manage.py run` and wait until web, workers and fork server work, and no part is still to start."""
        self.parts["supervisor"] = self.spawn()
        wait_until(
            lambda: self.is_up() and self.works("worker") and self.is_warm() and self.has_started(),
            seconds=90,
            every=0.2,
        )

    def spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one more `manage.py run`, whatever comes of it."""
        quick = {"TRIBUTARY_SPARK_JAVA_OPTIONS": QUICK_JAVA}
        environment = {**self.environment, **quick, "SPARK_REMOTE": NO_SPARK, **self.more}
        if not environment["SPARK_REMOTE"]:
            del environment["SPARK_REMOTE"]
        with (self.home / "supervisor.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "manage.py", "run", *arguments],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def readiness(self) -> dict[str, Any]:
        """Return what `readyz` says."""
        answer = requests.get(f"http://127.0.0.1:{self.port}/readyz", timeout=20)
        body: dict[str, Any] = answer.json()
        return body

    def works(self, part: str) -> bool:
        """Whether `readyz` calls a part ok."""
        try:
            return self.readiness().get(part) == "ok"
        except (requests.RequestException, ValueError):
            return False

    def status(self) -> dict[str, dict[str, Any]]:
        """Return what the supervisor says of its parts."""
        status: dict[str, dict[str, Any]] = json.loads((self.home / "run" / "parts.json").read_text())
        return status

    def processes(self) -> list[Process]:
        """Return every process of the installation but the supervisor."""
        return list_descendants(self.parts["supervisor"].pid)

    def has_started(self) -> bool:
        """Whether every part has a process, or had what it was for."""
        return all(part["state"] != "waiting" for part in self.status().values())

    def process_of(self, part: str) -> Process:
        """Return the process that a part is."""
        pid = self.status()[part]["pid"]
        process = find_process(pid) if pid else None
        assert process is not None, f"{part} does not run: {self.status()[part]}"
        return process

    def runs_again(self, part: str, *, since: Process) -> bool:
        """Whether the part is ready, as another process."""
        state = self.status()[part]
        return state["state"] == "ready" and state["pid"] not in (None, since.pid)

    def is_warm(self) -> bool:
        """Whether the fork server has imported its libraries."""
        return bool((ask_fork_server(self.home / "run" / "fork.sock") or {}).get("ready"))


@contextlib.contextmanager
def supervised_stack(home: Path, **more: str) -> Iterator[SupervisedStack]:
    """Start an installation under its supervisor, without Spark unless `SPARK_REMOTE` is given empty; stop it."""
    stack = SupervisedStack(home=home, port=find_free_port(), more=more)
    try:
        stack.start()
        yield stack
    except AssertionError as error:
        logs = [home / "supervisor.log", *(home / "logs").glob("*.log")]
        shown = "\n".join(f"--- {path.name}\n{path.read_text()[-1500:]}" for path in logs if path.exists())
        raise AssertionError(f"{error}\n{shown}") from error
    finally:
        stack.stop()
