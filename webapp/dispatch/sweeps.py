"""What must be repeated for ever: each app registers its function, one loop calls them (`manage.py sweep`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

LATE_S = 10.0
"""A turn that comes so long after the one before was held up."""
HELD_UP_S = 2.0
"""A database that lets nobody write for so long is busy."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A function that looks for work that was lost or is due, and how often it is called."""

    name: str
    every_seconds: float
    run: Callable[[], object]
    """What it returns is logged where it is not empty: counts of what had to be done."""


_registered: dict[str, Sweep] = {}


def register_sweep(*, name: str, every_seconds: float, run: Callable[[], object]) -> None:
    """Add a function to the loop; call it from `AppConfig.ready`. A second one of the name takes its place."""
    _registered[name] = Sweep(name=name, every_seconds=every_seconds, run=run)


def list_sweeps() -> list[Sweep]:
    """Return what the loop calls."""
    return list(_registered.values())


class Turns:
    """The turns of a loop that takes over what the dead held.

    Where one comes late the workers were held up as well, and could not renew their leases: they do so first.
    """

    def __init__(self) -> None:
        self.began: float | None = None
        """When the last turn began, in seconds of the clock that is never set; None before the first."""

    def begin(self) -> bool:
        """Begin a turn; return whether what the dead held may be taken over in it."""
        before, self.began = self.began, time.monotonic()
        return before is None or self.began - before <= LATE_S
