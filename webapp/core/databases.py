"""The two locks that a compare-and-swap cannot replace, and patience with a database that is busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

_Value = TypeVar("_Value")
BUSY = (OperationalError, InterfaceError)
"""What a database raises that is busy, away, or must have one of two transactions again: nothing was changed."""
PAUSE_S = 0.5

AUDIT_LOCK = 7_361
LOCATION_LOCK = 7_362


def take_lock(number: int) -> None:
    """Let one atomic block at a time past this point, until it ends; SQLite's blocks take turns by themselves."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])


def keep_trying(act: Callable[[], _Value], *, seconds: float) -> _Value:
    """Repeat what meets a busy database, for so long; `act` is one statement or one atomic block of its own."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return act()
        except BUSY:
            # Within somebody's block nothing can be repeated: the block is lost with all that it did.
            if connection.in_atomic_block or time.monotonic() > deadline:
                raise
            connection.close_if_unusable_or_obsolete()
            time.sleep(PAUSE_S)
