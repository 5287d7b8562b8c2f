"""A barrier before all clients: open, everybody passes; closed, nobody begins and whoever began has ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 180


class Barrier:
    """Pass it around each act; close it to look at an installation that nobody uses."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._is_closed = False

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Wait until it is open, and be counted until the block ends."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Let nobody begin, wait for those who began; open it again when the block ends."""
        with self._changed:
            self._is_closed = True
        try:
            with self._changed:
                assert self._changed.wait_for(lambda: self._inside == 0, PATIENCE_S), "a client waits for ever"
            yield
        finally:
            with self._changed:
                self._is_closed = False
                self._changed.notify_all()
