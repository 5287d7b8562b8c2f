"""A real server in a process of its own, and real Git clients."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.factories.databases import migrate

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 60
SHELL = """
import json, os, sys, traceback
sys.path.insert(0, os.getcwd())
import django
django.setup()
for line in sys.stdin:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    scope = {"__name__": "__main__"}
    try:
        exec(json.loads(line), scope)
        answer = {"result": scope["result"]}
    except Exception:
        answer = {"error": traceback.format_exc()}
    answers.write(json.dumps(answer) + "\\n")
    answers.flush()
    os._exit(0)
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class LiveServer:
    """The whole web process with a home of its own."""

    home: Path
    port: int
    environment: dict[str, str]
    workers: int = 1
    process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, home: Path, *, workers: int = 1, **more: str) -> LiveServer:
        """Migrate an empty home and serve it."""
        port = _free_port()
        environment = {
            **os.environ,
            "TRIBUTARY_HOME": str(home),
            "TRIBUTARY_PORT": str(port),
            "TRIBUTARY_DEMO": "0",
            "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", "webapp.config.settings"),
            **more,
        }
        server = cls(home=home, port=port, environment=environment, workers=workers)
        migrate(home, environment)
        server.boot()
        return server

    def boot(self) -> None:
        """Start the web process and wait until it answers."""
        log = (self.home / "web.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "webapp.config.web", "--port", str(self.port), "--workers", str(self.workers)],
            cwd=ROOT,
            env=self.environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                self.fetch("/git/none.git/info/refs?service=git-upload-pack")
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.1)
        msg = (self.home / "web.log").read_text()
        raise AssertionError(msg)

    @property
    def pid(self) -> int:
        """The number of the web process, the parent of its workers."""
        assert self.process is not None
        return self.process.pid

    def stop(self, sig: int = signal.SIGTERM) -> None:
        """End the web process with all its workers."""
        if self.process is not None:
            os.killpg(self.process.pid, sig)
            self.process.wait(20)
            self.process = None

    def close(self) -> None:
        """End it and what ran code for it."""
        self.stop()
        if "_shell" in vars(self):
            self._shell.communicate()

    def manage(self, *arguments: str) -> str:
        """Run a management command against the same home."""
        result = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    def run(self, code: str) -> Any:
        """Run code against the same database; it leaves its answer in `result`."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(json.dumps(code) + "\n")
        self._shell.stdin.flush()
        answer = json.loads(self._shell.stdout.readline() or '{"error": "the shell has ended"}')
        assert "error" not in answer, answer["error"]
        return answer["result"]

    @cached_property
    def _shell(self) -> subprocess.Popen[str]:
        """A process that runs each code in a fork of its own, since starting one costs more than most of it."""
        return subprocess.Popen(
            [sys.executable, "-c", SHELL],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fetch(
        self, path: str, *, user: str = "", token: str = "", headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Get a URL."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=dict(headers or {}))
        if user:
            credentials = base64.b64encode(f"{user}:{token}".encode()).decode()
            request.add_header("Authorization", f"Basic {credentials}")
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.read()

    def url(self, repository: str, *, user: str = "", token: str = "") -> str:
        """Return the address to clone."""
        credentials = f"{user}:{token}@" if user else ""
        return f"http://{credentials}127.0.0.1:{self.port}/git/{repository}.git"


@dataclass
class Clone:
    """A working copy, driven by the git program."""

    folder: Path

    def git(self, *arguments: str, fails: bool | None = False) -> str:
        """Run git and return what it said, on both streams; `fails` None: it may fail or not."""
        done = subprocess.run(
            ["git", "-c", "user.name=Olek", "-c", "user.email=olek@example.org", *arguments],
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "GIT_TERMINAL_PROMPT": "0",
                "LC_ALL": "C",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert fails is None or (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def write(self, path: str, text: str) -> None:
        """Write a file and commit it."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.git("add", "--", path)
        self.git("commit", "-m", f"Write {path}")

    def head(self, ref: str = "HEAD") -> str:
        """Return the commit of a ref."""
        return self.git("rev-parse", ref).strip()
