"""Two releases on one home: the last one's web process beside this one's, as while an installation is upgraded."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import requests

from tests.factories.api_document import OF_OTHER_RELEASES
from tests.factories.builds import PASSWORD, PREPARE, Stack, wait_until
from tests.factories.released import read_release
from webapp.runtime.probes import find_free_port

WORKERS = ("fork", "quick", "builds", "sweep")


@dataclass
class Upgrade:
    """An installation of the last release, step by step brought to this one."""

    old: Stack
    new: Stack
    refused: list[str] = field(default_factory=list)
    """What the old web process answered with a server error while the tables were changed."""

    @classmethod
    def prepare(cls, folder: Path) -> Upgrade:
        """Write the last release's code and make its home; both releases get processes of their own on it."""
        code, home = folder / "code", folder / "home"
        code.mkdir()
        read_release().export(code)
        (home / "run").mkdir(parents=True)
        more = {"TRIBUTARY_WEB_WORKERS": "1"}
        upgrade = cls(
            old=Stack(home=home, port=find_free_port(), more=more, root=code),
            new=Stack(home=home, port=find_free_port(), more=more),
        )
        upgrade.manage(upgrade.old, "migrate", "-v0")
        upgrade.manage(upgrade.old, "shell", "-v0", "-c", PREPARE)
        return upgrade

    def start_old_web(self) -> None:
        """Start the last release's web process, and sign in."""
        self.old.start_part("web")
        wait_until(lambda: is_up(self.old), seconds=60)
        answer = requests.post(f"{self.old.url}/tokens", json={"name": "tests"}, auth=("admin", PASSWORD), timeout=30)
        answer.raise_for_status()
        self.old.token = self.new.token = answer.json()["token"]

    def migrate(self) -> None:
        """Change the tables while the old web process is used."""
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(self._ask, over)
            try:
                self.manage(self.new, "migrate", "-v0")
            finally:
                over.set()
            asking.result()

    def _ask(self, over: threading.Event) -> None:
        self.old.make_repository("notes")
        number = 0
        while not over.wait(0.05):
            number += 1
            change = {"path": f"notes/{number}.md", "content": "x"}
            body = {"branch": "master", "message": "Note", "changes": [change]}
            for method, path, sent in (
                ("POST", "/repositories/notes/commits", body),
                ("POST", "/datasets", {"path": f"/notes/d{number}"}),
                ("GET", "/builds", None),
            ):
                answer = self.old.request(method, path, json=sent)
                if answer.status_code >= 500:
                    self.refused.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")

    def start_workers(self, side: Stack) -> None:
        """Start the workers, fork server and sweep of a release."""
        for name in WORKERS:
            side.start_part(name)
        wait_until(lambda: (side.home / "run" / "fork.sock").exists() and side.is_warm(), seconds=60)

    def stop_workers(self, side: Stack) -> None:
        """End them in order, as an operator does."""
        parts = {name: side.parts.pop(name) for name in WORKERS}
        for part in parts.values():
            part.terminate()
        for part in parts.values():
            part.wait(timeout=30)

    def start_new_web(self) -> None:
        """Start this release's web process beside the other one."""
        self.new.start_part("web")
        wait_until(lambda: is_up(self.new), seconds=60)

    def manage(self, side: Stack, *arguments: str) -> str:
        """Run a command of a release that must pass, and return what it says."""
        status, said = self.run(side, *arguments)
        assert status == 0, f"{arguments} of {side.root}: {said[-4000:]}"
        return said

    def run(self, side: Stack, *arguments: str) -> tuple[int, str]:
        """Run a command of a release, and return its exit status and what it says."""
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(command, cwd=side.root, env=side.environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def list_errors(self) -> list[str]:
        """Return what any process of either release calls an error in its log."""
        logs = self.old.home.glob("*.log")
        return [f"{log.name}: {line}" for log in logs for line in log.read_text().splitlines() if " ERROR " in line]

    def stop(self) -> None:
        """End every process."""
        self.new.stop()
        self.old.stop()


def is_up(side: Stack) -> bool:
    """Whether the web process answers."""
    try:
        return requests.get(f"http://127.0.0.1:{side.port}/healthz", timeout=5).status_code == 200
    except requests.RequestException:
        return False


@contextlib.contextmanager
def upgrading(folder: Path) -> Iterator[Upgrade]:
    """Prepare an upgrade; end all of its processes at the end."""
    upgrade = Upgrade.prepare(folder)
    old = f"127.0.0.1:{upgrade.old.port}"
    OF_OTHER_RELEASES.add(old)
    try:
        yield upgrade
    finally:
        upgrade.stop()
        OF_OTHER_RELEASES.discard(old)
