"""Whether anybody has committed anything to the database since it was last asked.

SQLite counts it in memory that its processes share: `data_version` has changed as soon as another connection's commit can be
read, and reading it takes microseconds. PostgreSQL has nothing that is as strict and as cheap.
"""

from __future__ import annotations

import sqlite3
import time
from typing import NamedTuple
from urllib.parse import quote

from django.db import connection


class Version(NamedTuple):
    """A state of the database: two that are equal are the same state."""

    opened: int
    """Which connection says so: the numbers of two have nothing to do with each other."""
    number: int


class ChangeCounter:
    """Reads the database's version over a connection of its own, for one thread: an event loop's."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._opened = 0
        self._renew_at = 0.0

    def read(self) -> Version | None:
        """Read the version of what can be read now; None where the database does not tell, or not at once."""
        if connection.vendor != "sqlite":
            return None
        try:
            opened = self._connect()
            ((number,),) = opened.execute("PRAGMA data_version")
        except sqlite3.Error:
            self.close()
            return None
        return Version(self._opened, number)

    def close(self) -> None:
        """Give the connection back; the next question opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        now = time.monotonic()
        if self._connection is not None and now < self._renew_at:
            return self._connection
        self.close()
        # As long as requests keep theirs: a file that was put in its place is seen as late as they see it.
        self._renew_at = now + connection.settings_dict["CONN_MAX_AGE"]
        self._opened += 1
        # Neither made where it is missing, nor waited for: an event loop asks.
        path = f"file:{quote(str(connection.settings_dict['NAME']))}?mode=rw"
        self._connection = sqlite3.connect(path, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        return self._connection
