"""Threads that several owners share: none takes more than its share, and none can fill the queue for the others.

As `FairSlots`, with a queue in memory instead of rows.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING

from webapp.dispatch.fair_slots import may_start

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

logger = logging.getLogger(__name__)


class FairThreads:
    """A bounded pool of threads with a bounded queue for each owner."""

    def __init__(self, name: str, *, threads: int, waiting: int, waiting_of_owner: int) -> None:
        """Share threads.

        Args:
            name: prefix of the threads' names.
            threads: number of threads.
            waiting: calls that can wait.
            waiting_of_owner: calls of one owner that can wait.

        """
        self._name = name
        self._threads = threads
        self._most_waiting = waiting
        self._most_of_owner = waiting_of_owner
        self._changed = threading.Condition()
        self._running: Counter[Hashable] = Counter()
        self._waiting: list[tuple[Hashable, Callable[[], object]]] = []
        self._started = 0

    def submit(self, owner: Hashable, call: Callable[[], object]) -> bool:
        """Run a call in a thread; returns False, and drops the call, if too many wait."""
        with self._changed:
            ahead = sum(other == owner for other, _call in self._waiting)
            if ahead >= self._most_of_owner or len(self._waiting) >= self._most_waiting:
                return False
            self._waiting.append((owner, call))
            if self._started < self._threads:
                # Not at import: a fork has no threads.
                self._started += 1
                threading.Thread(target=self._serve, name=f"{self._name}-{self._started}", daemon=True).start()
            self._changed.notify()
        return True

    def _serve(self) -> None:
        while True:
            owner, call = self._take()
            try:
                call()
            except Exception:
                logger.exception("%s failed", self._name)
            finally:
                self._release(owner)

    def _take(self) -> tuple[Hashable, Callable[[], object]]:
        with self._changed:
            while True:
                # Owners who hold no thread come first.
                for call in sorted(self._waiting, key=lambda waiting: waiting[0] in self._running):
                    if may_start(call[0], self._running, slots=self._threads):
                        self._running[call[0]] += 1
                        self._waiting.remove(call)
                        return call
                self._changed.wait()

    def _release(self, owner: Hashable) -> None:
        with self._changed:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]
            self._changed.notify_all()
