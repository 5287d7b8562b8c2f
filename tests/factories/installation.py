"""The whole product as a user starts it: `manage.py run` with the demo, in a home and on a port of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.factories.builds import ROOT, wait_until
from tests.factories.databases import migrate
from tests.factories.postgres import database_of, find_url
from tests.factories.spark import QUICK_JAVA
from webapp.runtime.probes import find_free_port

PASSWORD = "a-password-of-tests-1"
PATIENCE_S = 300


@dataclass
class Installation:
    """A running Tributary with its demo loaded."""

    home: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where pages are."""
        return f"http://localhost:{self.port}"

    @property
    def api(self) -> str:
        """Where the REST API is."""
        return f"{self.url}/api/v1"

    @property
    def catalog(self) -> str:
        """Where the Iceberg catalog is."""
        return f"{self.url}/iceberg"

    def password_of(self, username: str) -> str:
        """The password of one of the demo's people, which the product made, or of others, which the tests gave."""
        if username == "admin":
            return PASSWORD  # before the demo has made its people
        lines = (self.home / "demo-passwords").read_text().splitlines()
        passwords = dict(line.split(": ", 1) for line in lines)
        return passwords.get(username, PASSWORD)

    def make_token(self, username: str = "admin") -> str:
        """Make a token of one of the demo's people."""
        credentials = (username, self.password_of(username))
        answer = requests.post(f"{self.api}/tokens", json={"name": "tests"}, auth=credentials, timeout=10)
        answer.raise_for_status()
        token: str = answer.json()["token"]
        return token

    def get(self, path: str, *, token: str) -> Any:
        """Ask the REST API."""
        answer = requests.get(f"{self.api}{path}", headers={"Authorization": f"Bearer {token}"}, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: Any, *, token: str) -> Any:
        """Ask the REST API for something new."""
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.post(f"{self.api}{path}", json=body, headers=headers, timeout=60)
        assert answer.ok, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def make_user(self, username: str, *, roles: Mapping[str, str]) -> None:
        """Make somebody with roles on repositories, unless they are there."""
        token = self.make_token()
        names = {user["username"] for user in self.get("/users?limit=100", token=token)["results"]}
        if username not in names:
            self.post("/users", {"username": username, "password": PASSWORD}, token=token)
        for repository, role in roles.items():
            self.post(f"/repositories/{repository}/members", {"user": username, "role": role}, token=token)


@dataclass
class Demo:
    """The demo, loaded once: installations that start one after the other begin with what it was then.

    All have one home, in which the locations of tables begin with its path.
    """

    folder: Path

    @contextlib.contextmanager
    def running(self) -> Iterator[Installation]:
        """Start an installation whose demo nobody has changed, and stop it."""
        home, kept = self.folder / "home", self.folder / "kept"
        shutil.rmtree(home, ignore_errors=True)
        if find_url() is not None:  # the database of a server stays with its home
            home = self.folder / f"home{time.monotonic_ns()}"
        if kept.exists():
            _copy([*kept.iterdir()], home)
        else:
            home.mkdir(mode=0o700)
            migrate(home, os.environ | database_of(home))
        with running_installation(home) as installation:
            if find_url() is None and not kept.exists():
                _keep(home, kept)
            yield installation


OF_A_RUN = frozenset({"broker", "jobs", "logs", "queries", "run", "run.out", "spark", "spark.sock", "uploads"})
"""What of a home an installation makes anew."""


def _keep(home: Path, kept: Path) -> None:
    """Keep what a home holds while nobody works; the database last, which so knows all that the files say."""
    paths = [path for path in home.iterdir() if path.name not in OF_A_RUN and path.suffix != ".renewed"]
    _copy([path for path in paths if not path.name.startswith(("db.sqlite3", "train-"))], kept)
    with (
        contextlib.closing(sqlite3.connect(home / "db.sqlite3")) as source,
        contextlib.closing(sqlite3.connect(kept / "db.sqlite3")) as target,
    ):
        source.backup(target)


def _copy(paths: list[Path], folder: Path) -> None:
    folder.mkdir(mode=0o700)
    subprocess.run(["cp", "--archive", *paths, folder], check=True)


@contextlib.contextmanager
def running_installation(home: Path) -> Iterator[Installation]:
    """Start it as a user does, wait for the demo and for Spark, and stop it with Ctrl-C."""
    port = find_free_port()
    environment = {
        **os.environ,
        "TRIBUTARY_HOME": str(home),
        "TRIBUTARY_PORT": str(port),
        "TRIBUTARY_DEMO": "1",
        "TRIBUTARY_ADMIN_PASSWORD": PASSWORD,
        "TRIBUTARY_SPARK_JAVA_OPTIONS": QUICK_JAVA,
        **database_of(home),
    }
    output = (home / "run.out").open("wb")
    process = subprocess.Popen(
        [sys.executable, "manage.py", "run"],
        cwd=ROOT,
        env=environment,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        installation = Installation(home=home, port=port, process=process)
        wait_until(lambda: _is_up(installation), seconds=60, every=0.5)
        token = installation.make_token()
        wait_until(lambda: _is_loaded(installation, token), seconds=PATIENCE_S, every=1)
        yield installation
    except AssertionError as error:
        logs = "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in (home / "logs").glob("*.log"))
        raise AssertionError(f"{error}\n{(home / 'run.out').read_text()}\n{logs}") from None
    finally:
        _stop(process)
        output.close()


def _is_up(installation: Installation) -> bool:
    assert installation.process.poll() is None, "manage.py run ended"
    try:
        return requests.get(f"{installation.url}/healthz", timeout=5).status_code == 200
    except (requests.ConnectionError, requests.Timeout):
        return False


def _is_loaded(installation: Installation, token: str) -> bool:
    if requests.get(f"{installation.url}/readyz", timeout=10).status_code != 200:
        return False
    answer = requests.get(
        f"{installation.api}/repositories/nyc/pulls/1/datasets",
        headers={"Authorization": f"Bearer {token}"},
        timeout=30,
    )
    if answer.status_code != 200:
        return False
    states = [row["rows"]["state"] for row in answer.json()["results"]]
    return "ready" in states and "running" not in states


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    if process.poll() is None:
        process.kill()
        process.wait()
