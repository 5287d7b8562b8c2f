"""The only place that reads the time, so that tests can stop it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from django.db import connection
from django.db.models.functions import Now

SETTLES_S = 90.0
"""Time in seconds after which a clock that was set ahead is believed; no lease is longer."""
STEP_S = 30.0
"""A clock that differs by so many seconds was set; Iceberg's clients accept up to a minute."""


def now() -> datetime:
    """Return the current moment, with its zone (UTC)."""
    return datetime.now(UTC)


def shared_now() -> datetime:
    """Return the current moment by the database's clock, which is one for all hosts.

    SQLite has no clock but that of its host.
    """
    if connection.vendor == "sqlite":
        return now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


def statement_now() -> datetime | Now:
    """Return the same moment for a filter or an update: PostgreSQL reads its clock in that statement, without one more."""
    return shared_now() if connection.vendor == "sqlite" else Now()


class _Cautious:
    """The lowest that the wall's clock was, beside one that nobody sets."""

    def __init__(self) -> None:
        self._lowest = self._read_offset()

    def now(self) -> datetime:
        self._lowest = min(self._lowest, self._read_offset())
        return datetime.fromtimestamp(_since_boot() + self._lowest, UTC)

    @staticmethod
    def _read_offset() -> float:
        return now().timestamp() - _since_boot()


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_cautious = _Cautious()


def cautious_now() -> datetime:
    """Return the moment by which something is called old enough to be removed or forgotten.

    That is the current one, unless the clock was set ahead since this process began: what was written before then, or by a
    clock that was behind, only looks old. Until the process is started again it is as young as its clock knew it.
    """
    return _cautious.now()


class _SettledClock:
    """The database's clock, set ahead only after a while and set back at once."""

    def __init__(self) -> None:
        self._offset: float | None = None
        self._ahead_since = 0.0

    def now(self) -> datetime:
        since_boot = _since_boot()
        offset = shared_now().timestamp() - since_boot
        if self._offset is None or offset <= self._offset + 1:
            self._offset, self._ahead_since = offset, 0.0
        elif not self._ahead_since:
            self._ahead_since = since_boot
        elif since_boot - self._ahead_since > SETTLES_S:
            self._offset, self._ahead_since = offset, 0.0
        return datetime.fromtimestamp(since_boot + self._offset, UTC)


_settled = _SettledClock()


def settled_now() -> datetime:
    """Return the moment by which the holder of a lease counts as dead.

    A clock that is set ahead ends no lease: the holder renews it by the new clock before this function follows.
    """
    return _settled.now()


class StepWatch:
    """Tells whether the clock of this host was set while something ran."""

    def __init__(self) -> None:
        self._offset = self._read_offset()
        self._largest = 0.0

    def look(self) -> None:
        """Compare the clock with the one that nobody sets."""
        self._largest = max(self._largest, abs(self._read_offset() - self._offset))

    @property
    def saw_step(self) -> bool:
        """Whether one of the looks found the clock changed."""
        return self._largest > STEP_S

    @staticmethod
    def _read_offset() -> float:
        return now().timestamp() - _since_boot()
