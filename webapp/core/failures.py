"""What a failure of a part below means for the one who asked: the database, the disk, and what apps have added."""

from __future__ import annotations

import errno
from collections.abc import Callable

from django.db import DataError, InterfaceError, OperationalError

from webapp.core.errors import AppError, BadRequest, StorageFull, Unavailable

BUSY_OR_AWAY = "The database is busy or away: try again."
FULL = (errno.ENOSPC, errno.EDQUOT)


def register_failure(explain: Callable[[BaseException], AppError | None]) -> None:
    """Add who explains failures of another part, and returns None for all others; call it from `AppConfig.ready`."""
    if explain not in _registered:
        _registered.append(explain)


_registered: list[Callable[[BaseException], AppError | None]] = []


def explain_failure(error: BaseException | None) -> AppError | None:
    """Return the refusal that a failure amounts to; None for one that is our own mistake."""
    if isinstance(error, DataError):
        # SQLite takes any text of any length; PostgreSQL takes neither NUL nor more than a column holds.
        return BadRequest("The request holds a value that cannot be stored: too long, too large, or with a NUL in it.")
    if isinstance(error, UnicodeEncodeError):
        return BadRequest("The request holds text that is no Unicode: half of a surrogate pair.")
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return BadRequest("The request holds a name or path that is longer than the file system allows.")
    if isinstance(error, OSError) and error.errno in FULL:
        return StorageFull(
            f"The disk of {error.filename or 'the installation'} is full: free some space and try again."
        )
    if isinstance(error, OperationalError) and "disk is full" in str(error):
        return StorageFull("The disk of the database is full: free some space and try again.")
    if isinstance(error, OperationalError | InterfaceError):
        return Unavailable(BUSY_OR_AWAY, code="database_unavailable")
    return None if error is None else next(filter(None, (explain(error) for explain in _registered)), None)
