"""The worker's application; each app's `tasks.py` is found by itself."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_ready
from celery.worker.state import active_requests

from webapp.runtime import pulses

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
app = Celery("tributary")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_init.connect
def start_pulse(**_: Any) -> None:
    """Show the supervisor that this worker runs, from its start: it waits for a broker that is away."""
    pulses.start_pulse()


@worker_ready.connect
def start_heartbeat(sender: Any, **_: Any) -> None:
    """Tell `readyz` every few seconds that this worker lives, and the supervisor that its threads work."""
    from webapp.runtime.services import start_heartbeats

    pool = sender.pool
    pulses.pool_check.begin(pool.executor.submit, is_busy=lambda: len(active_requests) >= pool.limit)
    start_heartbeats(*(f"worker-{queue}" for queue in sender.app.amqp.queues))
