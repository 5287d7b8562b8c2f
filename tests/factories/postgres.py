"""A PostgreSQL of the tests' own, from the Debian package: on a Unix socket, in a folder that goes with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

OWNER = "nobody"
"""The server refuses to run as root."""
PATIENCE_S = 20
_SETTINGS = ("fsync=off", "max_connections=200", "timezone=UTC", "deadlock_timeout=200ms")


def find_programs() -> Path | None:
    """The folder of the newest installed server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


def find_url() -> str | None:
    """The PostgreSQL that this run of the tests uses, None where it uses SQLite."""
    url = os.environ.get("DATABASE_URL", "")
    return url if url.startswith("postgres") else None


_made: dict[Path, str] = {}


def database_of(home: Path) -> Mapping[str, str]:
    """What the processes of an installation get: a database of its own where the run uses PostgreSQL, else nothing."""
    url = find_url()
    if url is None:
        return {}
    if home not in _made:
        _made[home] = make_database(url, f"home_{uuid4().hex[:12]}")
    return {"DATABASE_URL": _made[home]}


def make_database(url: str, name: str) -> str:
    """Make one more database on a server; its URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return beside(url, name)


def beside(url: str, name: str) -> str:
    """The URL of another database of the same server."""
    head, _, query = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}?{query}"


def is_empty(url: str) -> bool:
    """Whether a database has no tables."""
    with psycopg.connect(url) as connection:
        return not connection.execute("SELECT FROM pg_tables WHERE schemaname = 'public' LIMIT 1").fetchall()


def fill_database(url: str, template: str) -> None:
    """Make an empty database anew, as a copy of another one of its server that nobody uses."""
    name = url.partition("?")[0].rpartition("/")[2]
    names = sql.Identifier(name), sql.Identifier(template)
    with psycopg.connect(beside(url, "postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {}").format(names[0]))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))


def ask_database(home: Path, question: str) -> list[Any]:
    """The first column of what an installation's database answers."""
    found = database_of(home)
    if found:
        with psycopg.connect(found["DATABASE_URL"]) as connection:
            return [row[0] for row in connection.execute(question.encode())]
    with contextlib.closing(sqlite3.connect(home / "db.sqlite3", timeout=20)) as file:
        return [row[0] for row in file.execute(question)]


def list_deletions(
    operations: Any, style: object, tables: Sequence[str], *, reset_sequences: bool = False, allow_cascade: bool = False
) -> list[str]:
    """What empties tables of few rows, as Django asks for it; TRUNCATE makes new files for each of them and its indexes.

    Any order will do: Django's foreign keys are looked at when the transaction ends.
    """
    assert not reset_sequences, "a test that needs numbers from 1 needs TRUNCATE"
    return ["; ".join(f"DELETE FROM {operations.quote_name(table)}" for table in tables)]


@dataclass
class Postgres:
    """A running server."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its first database."""
        return f"postgresql://tests@/postgres?host={self.folder}"

    def prepare(self) -> None:
        """Make the data folder."""
        if os.geteuid() == 0:
            shutil.chown(self.folder, OWNER)
        # its socket lies here, and parts of an installation that is started as root give up root's rights to files
        self.folder.chmod(0o755)
        command = [*_as_owner(), _programs() / "initdb", "-D", self.folder / "data", *_INITDB]
        subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *_as_owner(),
                    _programs() / "postgres",
                    "-D",
                    self.folder / "data",
                    "-h",
                    "",
                    "-k",
                    self.folder,
                    *settings,
                ],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT is PostgreSQL's "fast", SIGQUIT its "immediate", which needs a recovery at the next start."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


@contextlib.contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Start a server with an empty data folder, and stop it."""
    server = Postgres(Path(tempfile.mkdtemp(prefix="tributary-postgres-")))
    try:
        server.prepare()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


def _programs() -> Path:
    found = find_programs()
    assert found is not None, "no PostgreSQL server is installed: apt-get install postgresql"
    return found


def _as_owner() -> tuple[str, ...]:
    is_root = os.geteuid() == 0
    return ("setpriv", f"--reuid={OWNER}", "--regid=nogroup", "--clear-groups") if is_root else ()


_INITDB = ("-U", "tests", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
