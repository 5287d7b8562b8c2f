"""Moments as people and programs write them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from django.utils.dateparse import parse_datetime


def read_moment(text: str) -> datetime | None:
    """Return a time in ISO 8601 with its zone, as one of UTC; None for any other text."""
    with suppress(ValueError, OverflowError):  # well formed, and no day of the calendar, or none of UTC's
        moment = parse_datetime(text)
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC)
    return None
