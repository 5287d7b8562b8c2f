"""A PostgreSQL of the tests' own, from the Debian package: on a Unix socket, in a folder that goes with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
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
    head, _, query = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}?{query}"


def ask_database(home: Path, question: str) -> list[Any]:
    """The first column of what an installation's database answers."""
    found = database_of(home)
    if found:
        with psycopg.connect(found["DATABASE_URL"]) as connection:
            return [row[0] for row in connection.execute(question.encode())]
    with contextlib.closing(sqlite3.connect(home / "db.sqlite3", timeout=20)) as file:
        return [row[0] for row in file.execute(question)]


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """Start a server with an empty data folder, and stop it; the URL of its database."""
    programs = find_programs()
    assert programs is not None, "no PostgreSQL server is installed: apt-get install postgresql"
    folder = Path(tempfile.mkdtemp(prefix="tributary-postgres-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        as_owner: tuple[str, ...] = ()
        if os.geteuid() == 0:
            shutil.chown(folder, OWNER)
            as_owner = ("setpriv", f"--reuid={OWNER}", "--regid=nogroup", "--clear-groups")
        _call(*as_owner, str(programs / "initdb"), "-D", str(folder / "data"), *_INITDB, folder=folder)
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        server = subprocess.Popen(
            [*as_owner, programs / "postgres", "-D", folder / "data", "-h", "", "-k", folder, *settings],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "log").open("wb"),
            start_new_session=True,
        )
        stack.callback(_stop, server)
        url = f"postgresql://tests@/postgres?host={folder}"
        _wait(url, folder / "log")
        yield url


_INITDB = ("-U", "tests", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")


def _call(*command: str, folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def _wait(url: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        else:
            return


def _stop(server: subprocess.Popen[bytes]) -> None:
    # SIGINT is PostgreSQL's "fast" stop: sessions that a test left open do not hold it up.
    server.send_signal(2)
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
