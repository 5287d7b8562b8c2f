"""The tables of an installation's database: the first home of a run is migrated, the others get a copy of its database."""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAME = "db.sqlite3"


def migrate(home: Path, environment: Mapping[str, str]) -> None:
    """Make the tables of an installation that has none; a server's database is migrated, a file copied."""
    if environment.get("DATABASE_URL"):
        _migrate(environment)
        return
    if not (_template() / _NAME).exists():
        _migrate({**environment, "TRIBUTARY_HOME": str(_template())})
    home.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(_template() / _NAME) as source, sqlite3.connect(home / _NAME) as target:
        source.backup(target)
    for connection in (source, target):
        connection.close()


@cache
def _template() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tributary-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _migrate(environment: Mapping[str, str]) -> None:
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
