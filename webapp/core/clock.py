"""The only place that reads the time, so that tests can stop it."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """Return the current moment, with its zone (UTC)."""
    return datetime.now(UTC)


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
