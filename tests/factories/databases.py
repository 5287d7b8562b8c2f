"""The tables of an installation's database: the first home of a run is migrated, the others get a copy of its database."""

from __future__ import annotations

import atexit
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAME = "db.sqlite3"


def migrate(home: Path, environment: Mapping[str, str]) -> None:
    """Make the tables of an installation that has none; a server's database is migrated, a file copied."""
    if environment.get("DATABASE_URL"):
        _migrate(environment)
        return
    home.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(_migrated() / _NAME)) as source, closing(sqlite3.connect(home / _NAME)) as target:
        source.backup(target)


@cache
def _migrated() -> Path:
    """The home whose database the others copy; it goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="tributary-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _migrate({**os.environ, "TRIBUTARY_HOME": str(folder)})
    return folder


def _migrate(environment: Mapping[str, str]) -> None:
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
