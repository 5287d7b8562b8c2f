"""What must be repeated for ever: each app registers its function, one loop calls them (`manage.py sweep`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from webapp.core.databases import BUSY
from webapp.core.errors import AppError

logger = logging.getLogger(__name__)
Row = TypeVar("Row")

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


def take_each(rows: Iterable[Row], act: Callable[[Row], object], *, what: str) -> int:
    """Do something with each of several rows, and return with how many something was done.

    One that cannot be done, since its table or repository is damaged above all, is logged, holds up none of the others, and
    is tried again in the next turn.

    Args:
        rows: what is due.
        act: what to do with one of them, in an atomic block of its own; a false value counts as nothing.
        what: what it comes to, as a sentence begins that ends with the row.

    """
    count = 0
    for row in rows:
        try:
            count += bool(act(row))
        except BUSY:
            raise  # the others would meet it, too
        except AppError as error:
            logger.warning("%s %s: %s", what, row, error.detail)
        except Exception:  # whatever damage makes of it
            logger.exception("%s %s", what, row)
    return count


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
