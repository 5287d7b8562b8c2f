"""What a database's refusal means for the one who asked; and the one lock that a compare-and-swap cannot replace."""

from __future__ import annotations

from django.db import DataError, InterfaceError, OperationalError, connection

from webapp.core.errors import AppError, BadRequest, Unavailable

BUSY_OR_AWAY = "The database is busy or away: try again."
AUDIT_LOCK = 7_361


def explain_database_error(error: BaseException | None) -> AppError | None:
    """The refusal that a database error amounts to; None for one that is our own mistake."""
    if isinstance(error, DataError):
        # SQLite takes any text of any length; PostgreSQL takes neither NUL nor more than a column holds.
        return BadRequest("The request holds a value that cannot be stored: too long, too large, or with a NUL in it.")
    if isinstance(error, UnicodeEncodeError):
        return BadRequest("The request holds text that is no Unicode: half of a surrogate pair.")
    if isinstance(error, OperationalError | InterfaceError):
        return Unavailable(BUSY_OR_AWAY, code="database_unavailable")
    return None


def take_lock(number: int) -> None:
    """Let one atomic block at a time past this point, until it ends; SQLite's blocks take turns by themselves."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])
