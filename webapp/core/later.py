"""What a request notes and another thread writes: a write within the request would wait for every other writer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Generic, TypeVar

from django.db import connection

from webapp.core.databases import BUSY

logger = logging.getLogger(__name__)
EVERY_SECONDS = 60.0


Key = TypeVar("Key")


class Later(Generic[Key]):
    """The newest moment for each row, in this process's memory until it is written, once a minute at most.

    Other processes do the same, so `write` must keep the later one of two moments. A process that is killed forgets a
    minute of them.
    """

    def __init__(self, write: Callable[[Mapping[Key, datetime]], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._noted: dict[Key, datetime] = {}

    def note(self, key: Key, at: datetime) -> None:
        """Remember a moment."""
        with self._lock:
            self._noted[key] = at

    def flush(self) -> None:
        """Write what was noted; what a busy database does not take is kept for the next time."""
        with self._lock:
            noted, self._noted = self._noted, {}
        if not noted:
            return
        try:
            self._write(noted)
        except BUSY as error:
            logger.warning("moments of use not written, to be tried again: %s", error)
            with self._lock:
                self._noted = noted | self._noted

    def start(self) -> None:
        """Write once a minute from now on, in a thread of its own."""
        threading.Thread(target=self._run, name="later", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(EVERY_SECONDS)
            try:
                self.flush()
            finally:
                connection.close()
