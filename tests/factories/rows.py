"""What the database and the repositories hold, as digests: two that are equal say that nothing was changed between."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pygit2
from django.db import connection

from webapp.repositories.models import Repository


def list_tables() -> list[str]:
    """Every table of the database."""
    with connection.cursor() as cursor:
        return sorted(connection.introspection.table_names(cursor))


def read_rows(table: str) -> list[str]:
    """Every row of a table as text, in an order of their own."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
        return sorted(map(repr, cursor.fetchall()))


def digest_rows() -> dict[str, str]:
    """Every table with a digest of its rows."""
    return {table: hashlib.sha256("\n".join(read_rows(table)).encode()).hexdigest() for table in list_tables()}


def list_refs() -> dict[str, dict[str, str]]:
    """Every repository with its refs and what they point to."""
    refs = {}
    for repository in Repository.objects.all():
        git = pygit2.Repository(str(repository.path))
        refs[repository.name] = {name: str(git.references[name].target) for name in git.references}
    return refs


def list_files(folder: Path) -> dict[str, int]:
    """Every file below a folder with its size."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
