"""Whether the database itself is whole: its file, its references, the constraints that guard our promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import apps
from django.db import IntegrityError, connection
from django.db.migrations.executor import MigrationExecutor

from webapp.core.fsck import RESTORE_DATABASE, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_database() -> Iterator[Finding]:
    """Find pending migrations, a damaged file, references to absent rows, and constraints that somebody dropped."""
    executor = MigrationExecutor(connection)
    for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes()):
        yield Finding(
            code="migration_pending",
            object=f"{migration.app_label}.{migration.name}",
            problem="The database is older than the program.",
            way_out="Run `manage.py migrate`.",
            is_blocking=True,
        )
        return
    if connection.vendor == "sqlite":
        yield from _check_file()
    yield from _check_constraints()


def _check_file() -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA integrity_check(20)")
        lines = [row[0] for row in cursor.fetchall()]
    for line in lines:
        if line != "ok":
            yield Finding(
                code="database_damaged", object=line[:200], problem="SQLite finds damage.", way_out=RESTORE_DATABASE
            )
    try:
        connection.check_constraints()
    except IntegrityError as error:
        yield Finding(code="row_missing", object="database", problem=str(error), way_out=RESTORE_DATABASE)


def _check_constraints() -> Iterator[Finding]:
    for model in apps.get_models():
        declared = {constraint.name for constraint in model._meta.constraints}
        if not declared:
            continue
        table = model._meta.db_table
        with connection.cursor() as cursor:
            present = connection.introspection.get_constraints(cursor, table)
        for name in sorted(declared - set(present)):
            yield Finding(
                code="constraint_missing",
                object=f"{table}.{name}",
                problem="A constraint that guards a promise is not in the database.",
                way_out="Restore the database from a backup, or make the constraint again by hand.",
            )
