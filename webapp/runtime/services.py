"""Writes that belong to no domain."""

from __future__ import annotations

from webapp.core import clock
from webapp.core.models import Heartbeat


def record_heartbeat(*, part: str) -> None:
    """Note that a part lives."""
    Heartbeat.objects.update_or_create(part=part, defaults={"at": clock.now()})
