"""A broker of a test's own, from which it takes any message, and commits whose consequences are seen at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from django.test import TestCase

from webapp.runtime.doorbell import ROOM, name_message


class Messages:
    """A broker of one message for a thing."""

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[str, dict[str, Any]]] = {}
        self.rung = 0
        self._patches = [
            mock.patch("webapp.runtime.doorbell.ring", self.ring),
            mock.patch("webapp.runtime.doorbell.count_room", self.count_room),
        ]

    def start(self) -> None:
        """Take what is rung from now on."""
        for patch in self._patches:
            patch.start()

    def stop(self) -> None:
        """Leave the doorbell as it was."""
        for patch in self._patches:
            patch.stop()

    def ring(self, task: str, *, queue: str, **kwargs: Any) -> bool:  # noqa: ARG002
        """Keep a message; a second one of its name is the same."""
        self.rung += 1
        self.waiting.setdefault(name_message(task, kwargs), (task, kwargs))
        return True

    def take(self, at: int) -> tuple[str, dict[str, Any]]:
        """Take a message out of the middle."""
        return self.waiting.pop(list(self.waiting)[at % len(self.waiting)])

    def count_room(self, queue: str) -> int:
        """Return how many rings may be repeated."""
        waiting = [task for task, _ in self.waiting.values() if task.endswith("run_job") == (queue == "builds")]
        return max(0, ROOM - len(waiting))


@contextmanager
def committing() -> Iterator[None]:
    """What is to happen after the commit happens at the end of the block."""
    with TestCase.captureOnCommitCallbacks(execute=True):
        yield
