"""Writes that belong to no domain."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from django.db import DatabaseError, connection

from webapp.core import clock
from webapp.core.models import Heartbeat

BEAT_SECONDS = 5.0


def record_heartbeat(*, part: str) -> None:
    """Note that a part lives."""
    Heartbeat.objects.update_or_create(part=part, defaults={"at": clock.shared_now()})


def start_heartbeats(*parts: str) -> None:
    """Tell `readyz` every few seconds that these parts live, from a thread of this process."""
    threading.Thread(target=_keep_recording, args=(parts,), name="heartbeat", daemon=True).start()


def _keep_recording(parts: Sequence[str]) -> None:
    while True:
        try:
            for part in parts:
                record_heartbeat(part=part)
        except DatabaseError:
            # The next beat tries again; meanwhile `readyz` truthfully says that nothing is heard.
            connection.close()
        time.sleep(BEAT_SECONDS)
