"""An installation of before: its database, with rows in every table, is brought to what the program needs today.

The rows are those of a whole installation, taken back to the first state of the tables. From there each migration meets
rows in every table that it changes, and what it must not lose is the same afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.factories.databases import ROOT, migrate

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
OURS = ("accounts", "builds", "catalog", "core", "datasets", "pulls", "repositories")
"""The apps of the first release."""
YOUNGER = tuple(
    sorted(
        path.parent.parent.name
        for path in (ROOT / "webapp").glob("*/migrations/0001_initial.py")
        if path.parent.parent.name not in OURS
    )
)
"""Those that came later: whatever else has tables."""
SCRIPT = f"""
import json, logging
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from tests.factories.everything import make_world
from tests.factories.rows import list_tables, read_rows

OURS = {OURS!r}
YOUNGER = {YOUNGER!r}
logging.disable(logging.CRITICAL)


def count():
    return {{table: len(read_rows(table)) for table in list_tables()}}


def read_all():
    # Every column of every model as the program reads it; what a default filled in is read, too.
    models = [model for name in (*OURS, *YOUNGER) for model in apps.get_app_config(name).get_models()]
    return {{model._meta.db_table: sorted(repr(sorted(row.items())) for row in model.objects.values()) for model in models}}


def migrate(targets):
    executor = MigrationExecutor(connection)
    executor.migrate(targets)
    executor.loader.build_graph()


make_world()
for name in OURS:
    model_names = [model._meta.db_table for model in apps.get_app_config(name).get_models()]
newest = count()
old = [(name, "0001_initial") for name in OURS]
migrate(old)
at_first = count()
executor = MigrationExecutor(connection)
leaves = executor.loader.graph.leaf_nodes()
steps = [migration for migration, _ in executor.migration_plan(leaves)]
migrate(leaves)
call_command("check", database=["default"], verbosity=0)
with connection.cursor() as cursor:
    broken = []
    if connection.vendor == "sqlite":
        broken = cursor.execute("PRAGMA foreign_key_check").fetchall() + [
            line for line in cursor.execute("PRAGMA integrity_check").fetchall() if line != ("ok",)
        ]
rows = read_all()
print(json.dumps({{
    "newest": newest, "at_first": at_first, "now": count(), "steps": [f"{{step.app_label}}.{{step.name}}" for step in steps],
    "broken": broken, "read": {{table: len(found) for table, found in rows.items()}},
    "missing": MigrationExecutor(connection).migration_plan(leaves) and "migrations are left",
    "recorded": len(MigrationRecorder(connection).applied_migrations()),
}}))
"""


def test_rows_of_the_first_tables_come_through_every_migration(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    environment = {
        **os.environ,
        "TRIBUTARY_HOME": str(home),
        "TRIBUTARY_DEMO": "0",
        "DJANGO_SETTINGS_MODULE": "webapp.config.settings",
        "PYTHONPATH": str(ROOT),
    }
    environment.pop("DATABASE_URL", None)
    migrate(home, environment)
    command = [sys.executable, "manage.py", "shell", "-v", "0", "-c", SCRIPT]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    migrations = [path for app in (*OURS, *YOUNGER) for path in (ROOT / "webapp" / app / "migrations").glob("0*.py")]
    assert len(report["steps"]) == len(migrations) - len(OURS)
    assert report["broken"] == []
    assert not report["missing"]
    kept = {table for table in report["at_first"] if table.startswith(OURS)}
    assert {table: report["now"][table] for table in kept} == {table: report["at_first"][table] for table in kept}
    filled = {table for table in kept if report["at_first"][table]}
    assert len(filled) > 20, sorted(kept - filled)
    assert all(report["read"][table] == report["now"][table] for table in filled if table in report["read"])
