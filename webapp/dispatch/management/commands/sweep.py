"""`manage.py sweep`: the loop that takes up what messages, workers or power cuts lost. One per installation."""

from __future__ import annotations

import logging
import signal
import threading
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand
from django.db import close_old_connections

from webapp.dispatch.sweeps import Sweep, list_sweeps
from webapp.runtime.pulses import start_pulse
from webapp.runtime.services import start_heartbeats

logger = logging.getLogger("webapp.sweep")
TICK_SECONDS = 0.5


class Command(BaseCommand):
    """Call every registered sweep when it is due, until told to stop."""

    help = "Repeat every app's sweep for ever; --once does each of them once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--once", action="store_true", help="call each sweep once and end")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run the loop."""
        if options["once"]:
            for sweep in list_sweeps():
                run_sweep(sweep)
            return
        start_pulse()
        start_heartbeats("sweep")
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        due = {sweep.name: 0.0 for sweep in list_sweeps()}
        while not stop.wait(TICK_SECONDS):
            for sweep in list_sweeps():
                if time.monotonic() >= due[sweep.name]:
                    run_sweep(sweep)
                    due[sweep.name] = time.monotonic() + sweep.every_seconds


def run_sweep(sweep: Sweep) -> None:
    """Call one sweep; a failure is logged and the next turn comes, whatever part was away or damaged."""
    close_old_connections()
    try:
        done = sweep.run()
    except Exception:  # one sweep that fails must not end all the others; each failure is in the log
        logger.exception("sweep %s failed; it is repeated", sweep.name)
        return
    if isinstance(done, Mapping):
        done = {noun: count for noun, count in done.items() if count}
    if done:
        logger.info("sweep %s: %s", sweep.name, done)
