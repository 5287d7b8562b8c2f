"""Times that a clock wrote which was ahead: set back to what a clock that is right could have written.

A machine's clock may be set back, by an operator or by its time server, or one host's clock be ahead of another's. What was
stamped before then lies in the future: a job that is "rung for in a day" waits a day, a lease of a dead worker lasts one.
Each app names the stamps that its sweeps wait for; one sweep finds those that are too far ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from webapp.core import clock

SKEW = timedelta(minutes=1)
"""How far the clocks of two hosts may differ."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A column whose time something waits for."""

    rows: Callable[[], QuerySet[Any]]
    """The rows that still wait."""
    field: str
    ahead: timedelta = timedelta()
    """How far in the future a clock that is right writes it at most."""


_registered: list[Stamp] = []


def register_stamps(*stamps: Stamp) -> None:
    """Name stamps that are watched; call it from `AppConfig.ready`."""
    _registered.extend(stamps)


def set_back_stamps() -> dict[str, int]:
    """Set back what lies too far in the future; return how many rows, by model and field, where there were any."""
    now = clock.shared_now()
    counts: dict[str, int] = {}
    for stamp in _registered:
        rows = stamp.rows()
        late = rows.filter(**{f"{stamp.field}__gt": now + stamp.ahead + SKEW})
        if count := late.update(**{stamp.field: now + stamp.ahead}):
            counts[f"{rows.model.__name__}.{stamp.field}"] = count
    return counts
