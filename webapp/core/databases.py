"""The one lock that a compare-and-swap cannot replace."""

from __future__ import annotations

from django.db import connection

AUDIT_LOCK = 7_361


def take_lock(number: int) -> None:
    """Let one atomic block at a time past this point, until it ends; SQLite's blocks take turns by themselves."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])
