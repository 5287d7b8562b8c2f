"""Threads that several owners share: none takes more than its share, and none can fill the queue for the others."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

logger = logging.getLogger(__name__)


class FairThreads:
    """A bounded pool of threads with a bounded queue for each owner."""

    def __init__(self, name: str, *, threads: int, share: int, waiting: int, waiting_of_owner: int) -> None:
        """Share threads.

        Args:
            name: prefix of the threads' names.
            threads: number of threads.
            share: threads that one owner can hold.
            waiting: calls that can wait.
            waiting_of_owner: calls of one owner that can wait.

        """
        self._name = name
        self._threads = threads
        self._share = share
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
                for place, (owner, _call) in enumerate(self._waiting):
                    if self._running[owner] < self._share:
                        self._running[owner] += 1
                        return self._waiting.pop(place)
                self._changed.wait()

    def _release(self, owner: Hashable) -> None:
        with self._changed:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]
            self._changed.notify_all()
