"""The only place that reads the time, so that tests can stop it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The current moment, with its zone (UTC)."""
    return datetime.now(UTC)
