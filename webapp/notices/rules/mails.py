"""When a mail that was not taken is tried again."""

from __future__ import annotations

from datetime import timedelta

MOST_TRIES = 6
FIRST_PAUSE = timedelta(seconds=20)


def pause_after(tries: int) -> timedelta | None:
    """Return how long to wait after so many tries that failed; None where it is given up."""
    return None if tries >= MOST_TRIES else FIRST_PAUSE * 4 ** (tries - 1)
