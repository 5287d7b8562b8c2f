"""A fork server for the tests of this folder, and repositories to publish in it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs.protocol import PublishRequest, PublishResult, read_message, write_message
from tests.factories.fork_server import Ended, Running, Server

SECRET = "canary-5d0c1b"


@dataclass
class Home:
    """What lies around a job: a closed home with secrets, the job's folder, the code."""

    path: Path
    job: Path
    code: Path
    server: Server
    uid: int

    def request(self, **more: object) -> dict[str, object]:
        """A request to publish the code."""
        manifest = self.job / "manifest.json"
        write_message(manifest, PublishRequest(str(self.code), str(self.job / "result.json")))
        manifest.chmod(0o644)
        return {
            "entrypoint": "publish",
            "manifest": str(manifest),
            "cwd": str(self.code),
            "env": {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"},
            "sandbox": {
                "hide": [str(self.path)],
                "layered": [str(self.code)],
                "writable": [str(self.job)],
                "uid": self.uid,
            },
            **more,
        }

    def start(self, source: str, **more: object) -> Running:
        """Start publishing one module."""
        (self.code / "pipelines" / "module.py").write_text(source)
        return self.server.start(self.request(**more))

    def run(self, source: str, **more: object) -> tuple[Ended, PublishResult | None]:
        """Publish one module and wait."""
        ended = self.start(source, **more).wait()
        found = (self.job / "result.json").exists()
        return ended, read_message(PublishResult, self.job / "result.json") if found else None


@pytest.fixture
def make_home(fork_server: Server) -> Iterator[Callable[[], Home]]:
    """Make homes with a database, a key and another dataset's folder in each."""
    made: list[Path] = []

    def make() -> Home:
        path = Path(tempfile.mkdtemp(prefix="home"))
        made.append(path)
        path.chmod(0o700)
        (path / "db.sqlite3").write_text(SECRET)
        (path / "secret_key").write_text(SECRET)
        other = path / "warehouse" / "other"
        other.mkdir(parents=True)
        (other / "rows.parquet").write_text(SECRET)
        other.chmod(0o777)
        job, code = path / "jobs" / "1", path / "code" / "abc"
        job.mkdir(parents=True)
        job.chmod(0o777)
        (code / "pipelines").mkdir(parents=True)
        return Home(path, job, code, fork_server, uid=300_000 + int.from_bytes(os.urandom(3)))

    yield make
    for path in made:
        shutil.rmtree(path)


@pytest.fixture
def home(make_home: Callable[[], Home]) -> Home:
    """One such home."""
    return make_home()
