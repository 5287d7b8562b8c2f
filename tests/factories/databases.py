"""The tables of an installation's database: the first of a run is migrated, the others are copies of it."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from uuid import uuid4

from tests.factories.postgres import beside, fill_database, is_empty, make_database

ROOT = Path(__file__).parents[2]
SHARED = "TEST_DATABASES"
"""What the environment calls the folder that the workers of one run share."""
_NAME = "db.sqlite3"


def migrate(home: Path, environment: Mapping[str, str]) -> None:
    """Make the tables of an installation that has none; what a server's database has already is migrated."""
    url = environment.get("DATABASE_URL")
    if not url:
        home.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(_migrated())) as source, closing(sqlite3.connect(home / _NAME)) as target:
            source.backup(target)
    elif is_empty(url):
        fill_database(url, _migrated_on(beside(url, "postgres")))
    else:
        _migrate(environment)


def prepare(home: Path, environment: Mapping[str, str], command: Sequence[str]) -> str:
    """Make the tables of a new installation and let a command fill them; return what it prints.

    On SQLite only the first of a run does so: the others are copies of it, with its keys and its tokens.
    """
    if environment.get("DATABASE_URL"):
        migrate(home, environment)
        return _run(command, environment)
    name = f"prepared-{hashlib.sha256(repr([*command]).encode()).hexdigest()[:12]}"
    first, printed = _folder() / name, _folder() / f"{name}.txt"
    with first.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not printed.exists():
            first.mkdir(mode=0o700, exist_ok=True)
            migrate(first, environment)
            printed.write_text(_run(command, {**environment, "TRIBUTARY_HOME": str(first)}))
    shutil.copytree(first, home, dirs_exist_ok=True)
    return printed.read_text()


def fill_memory(name: str) -> sqlite3.Connection:
    """Fill the database in memory of this name, which is there for as long as a connection to it is open."""
    target = sqlite3.connect(name, uri=True)
    with closing(sqlite3.connect(_migrated())) as source:
        source.backup(target)
    return target


@cache
def _folder() -> Path:
    """Where that is which the others copy; it goes with the run."""
    folder = Path(os.environ.get(SHARED) or tempfile.mkdtemp(prefix="tributary-template-"))
    if SHARED not in os.environ:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _migrated() -> Path:
    """The database that the others copy."""
    folder = _folder()
    with (folder / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        template = folder / "template"
        if not template.exists():
            with tempfile.TemporaryDirectory(dir=folder) as home:
                _migrate({**os.environ, "TRIBUTARY_HOME": home, "DATABASE_URL": ""})
                Path(home, _NAME).rename(template)
    return template


@cache
def _migrated_on(url: str) -> str:
    """The name of the database of a server that the others copy."""
    name = f"template_{uuid4().hex[:12]}"
    _migrate({**os.environ, "DATABASE_URL": make_database(url, name)})
    return name


def _migrate(environment: Mapping[str, str]) -> None:
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> str:
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
