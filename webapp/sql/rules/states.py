"""States of queries."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache

from webapp.core.states import State


class QueryState(State):
    """Where a query stands."""

    QUEUED = "queued", "Queued", "wait", "Waits for a worker."
    RUNNING = "running", "Running", "run", "The tables are being read."
    READY = "ready", "Ready", "ok", "Its result is stored."
    FAILED = "failed", "Failed", "bad", "The reason is on the page; mend the query and run it again."
    CANCELLED = "cancelled", "Cancelled", "abort", "Somebody stopped it."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[QueryState, AbstractSet[QueryState]]:
        """Return for each state those that may follow it."""
        return {
            cls.QUEUED: {cls.RUNNING, cls.FAILED, cls.CANCELLED},
            # Back to QUEUED: its worker died under it, or there was no room.
            cls.RUNNING: {cls.READY, cls.FAILED, cls.CANCELLED, cls.QUEUED},
            cls.READY: set(),
            cls.FAILED: set(),
            cls.CANCELLED: set(),
        }
