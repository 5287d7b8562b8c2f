"""Ends a web process whose event loop has stopped: another takes its place, and the rest go on answering meanwhile.

The supervisor asks one process for its health, any of them. That tells whether the web part lives, not each process of it.

A loop may stop because a library never comes back and lets no thread of Python go on meanwhile, the one that watches
neither: then a timer of the interpreter ends the process, which needs no such thread.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import threading
import time

logger = logging.getLogger(__name__)

TICK_S = 1.0
STOPPED_S = 30.0
"""A busy loop ticks late by milliseconds, on a machine that is far too small by a second or two."""
EXIT_CODE = 70


class Watchdog:
    """Watches one event loop from a thread."""

    def __init__(self, *, stopped_s: float = STOPPED_S) -> None:
        self._stopped_s = stopped_s
        self._ticked_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch a loop from now on; called from within it."""
        self._loop = loop
        self._tick()
        threading.Thread(target=self._look, args=(loop,), name="watchdog", daemon=True).start()

    def _tick(self) -> None:
        self._ticked_at = time.monotonic()
        if self._loop is not None:
            self._loop.call_later(TICK_S, self._tick)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        while not loop.is_closed():
            faulthandler.dump_traceback_later(2 * self._stopped_s, exit=True)
            # Found twice: a process that was itself stopped for a while has not ticked either.
            if self._is_late() and self._is_late():
                logger.critical("the event loop has stopped for %.0f s: this web process ends", self._stopped_s)
                faulthandler.dump_traceback()
                os._exit(EXIT_CODE)
        faulthandler.cancel_dump_traceback_later()

    def _is_late(self) -> bool:
        time.sleep(self._stopped_s / 3)
        return time.monotonic() - self._ticked_at > self._stopped_s
