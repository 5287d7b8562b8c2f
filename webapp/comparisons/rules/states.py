"""States and kinds of comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache

from webapp.core.states import State


class ComparisonState(State):
    """Where a comparison stands."""

    QUEUED = "queued", "Queued", "wait", "Waits for a worker."
    RUNNING = "running", "Running", "run", "Files that differ are being read."
    READY = "ready", "Ready", "ok", "Stored, and will not change."
    FAILED = "failed", "Failed", "bad", "The reason is on the page; it can be run again."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[ComparisonState, AbstractSet[ComparisonState]]:
        """Return for each state those that may follow it."""
        return {
            cls.QUEUED: {cls.RUNNING, cls.FAILED},
            # Back to QUEUED: its worker died under it, or there was no room.
            cls.RUNNING: {cls.READY, cls.FAILED, cls.QUEUED},
            # What was stored is lost.
            cls.READY: {cls.QUEUED},
            cls.FAILED: {cls.QUEUED},
        }


ROW_CHANGES = ("inserted", "deleted", "updated")
"""What can have become of a row."""


def show_state(state: str) -> str:
    """Return the state that callers see: it runs until it has failed or is ready; that it waits is no state to them."""
    ended = (ComparisonState.READY, ComparisonState.FAILED)
    return state if state in ended else ComparisonState.RUNNING


ROWS, CHANGELOG, BLAME = "rows", "changelog", "blame"
KIND_CHOICES = [
    (ROWS, "The row diff of two transactions"),
    (CHANGELOG, "The changelog of a range of history"),
    (BLAME, "Who changed one row"),
]

NOT_COMPARED, UNCHANGED, CHANGED, BREAKING = "not_compared", "unchanged", "changed", "breaking"
"""What a comparison says of the schema."""
