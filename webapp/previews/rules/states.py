"""States and steps of previews."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache

from webapp.core.states import State

IMPORTING, SAMPLING, RUNNING_NEW, RUNNING_OLD, DESCRIBING = (
    "Importing the modules",
    "Reading the first rows of the inputs",
    "Running the transforms",
    "Running the committed code over the same rows",
    "Comparing",
)
"""What a preview is doing, in this order."""


class PreviewState(State):
    """Where a preview stands."""

    QUEUED = "queued", "Queued", "wait", "Waits for a worker."
    RUNNING = "running", "Running", "run", "The transforms run over samples of their inputs."
    READY = "ready", "Ready", "ok", "What the transforms have written is shown."
    FAILED = "failed", "Failed", "bad", "The reason is on the page; mend the code and preview it again."
    CANCELLED = "cancelled", "Cancelled", "abort", "Somebody stopped it."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[PreviewState, AbstractSet[PreviewState]]:
        """Return for each state those that may follow it."""
        return {
            cls.QUEUED: {cls.RUNNING, cls.FAILED, cls.CANCELLED},
            # Back to QUEUED: its worker died under it, or there was no room.
            cls.RUNNING: {cls.READY, cls.FAILED, cls.CANCELLED, cls.QUEUED},
            cls.READY: set(),
            cls.FAILED: set(),
            cls.CANCELLED: set(),
        }
