"""The broker of a machine by itself: a folder in which every message is whole from the moment it can be seen.

Kombu's own folder transport opens a message's file in the queue and then writes it: a worker that takes the file in
between reads nothing, and ends. Here a message is written aside and renamed into the queue, and belongs to the worker
whose removal of the file succeeds.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from queue import Empty
from typing import Any, ClassVar

from kombu.transport import virtual

ENDING = ".message"


class Channel(virtual.Channel):  # type: ignore[misc]
    """Keeps a queue as files named ``<time>-<random>.<queue>.message``; queues without a file are empty."""

    do_restore = False  # a message that a worker took and lost is rung again by the sweep

    @property
    def _folder(self) -> Path:
        return Path(self.connection.client.transport_options["folder"])

    def _messages(self, queue: str) -> list[Path]:
        """Return the messages of a queue, oldest first."""
        ending = f".{queue}{ENDING}"
        return [self._folder / name for name in sorted(os.listdir(self._folder)) if name.endswith(ending)]

    def _put(self, queue: str, payload: dict[str, Any], **_: Any) -> None:
        name = f"{time.monotonic_ns():020}-{uuid.uuid4().hex}.{queue}"
        aside = self._folder / name
        aside.write_text(json.dumps(payload), encoding="utf-8")
        aside.rename(self._folder / f"{name}{ENDING}")

    def _get(self, queue: str) -> dict[str, Any]:
        for message in self._messages(queue):
            try:
                text = message.read_text(encoding="utf-8")
                message.unlink()
            except FileNotFoundError:
                continue  # another worker was faster
            payload: dict[str, Any] = json.loads(text)
            return payload
        raise Empty

    def _size(self, queue: str) -> int:
        return len(self._messages(queue))

    def _purge(self, queue: str) -> int:
        messages = self._messages(queue)
        for message in messages:
            message.unlink(missing_ok=True)
        return len(messages)


class Transport(virtual.Transport):  # type: ignore[misc]
    """The folder broker; the setting ``CELERY_BROKER_TRANSPORT`` names it."""

    Channel = Channel
    driver_type = driver_name = "folder"
    default_connection_params: ClassVar[dict[str, Any]] = {}  # there is no host to warn of

    def driver_version(self) -> str:
        """Return the version of the folder's layout."""
        return "1"
