"""The worker's application; each app's `tasks.py` is found by itself."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from celery import Celery
from celery.signals import worker_ready

BEAT_SECONDS = 5.0

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
app = Celery("tributary")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_ready.connect
def start_heartbeat(sender: Any, **_: Any) -> None:
    """Tell `readyz` every few seconds that this worker lives."""
    queues = [str(queue) for queue in sender.app.amqp.queues]
    threading.Thread(target=_beat, args=(queues,), name="heartbeat", daemon=True).start()


def _beat(queues: list[str]) -> None:
    from django.db import DatabaseError, connection

    from webapp.runtime.services import record_heartbeat

    while True:
        try:
            for queue in queues:
                record_heartbeat(part=f"worker-{queue}")
        except DatabaseError:
            # The next beat tries again; meanwhile `readyz` truthfully says that nothing is heard.
            connection.close()
        time.sleep(BEAT_SECONDS)
