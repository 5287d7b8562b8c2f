"""Reading the files of a table in a process of its own (jobs/entrypoints): nothing of them is decoded in this one.

That process sees no file and no network. It asks for each file by its location, and gets those inside the table's own
folder that are regular files, opened here. What it answers is JSON of a bounded size, within a bounded time.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Literal, Self

from jobs.channel import Channel
from jobs.locations import is_inside
from webapp.catalog.storage import metadata_files
from webapp.core.errors import Unavailable
from webapp.runtime import object_store
from webapp.runtime.object_store import Absent, is_object_location
from webapp.runtime.readers import Reader

SECONDS = 20.0
MOST_ANSWER_BYTES = 64 * 1024 * 1024
MOST_RANGE_BYTES = 64 * 1024 * 1024
MOST_AT_ONCE = 4
"""Processes that read for this one at a time; each may take a gigabyte."""
LIMITS = {"memory_bytes": 4 * 1024**3, "total_memory_bytes": 2 * 1024**3, "fsize": 0}
_room = threading.BoundedSemaphore(MOST_AT_ONCE)


class TableReader:
    """What reads the files of one table for one request; it starts with the first question and ends with the block."""

    def __init__(
        self,
        location: str,
        *,
        reads: Literal["manifests", "rows"] = "manifests",
        seconds: float = SECONDS,
        most_answer_bytes: int = MOST_ANSWER_BYTES,
    ) -> None:
        """Prepare to read.

        Args:
            location: the folder of the table, outside of which nothing is opened.
            reads: what is asked for; a process that reads manifests alone costs a fifth.
            seconds: all questions together may take.
            most_answer_bytes: of one answer.

        """
        self._location = location
        self._entrypoint = {"manifests": "manifests", "rows": "read"}[reads]
        self._seconds = seconds
        self._most_answer_bytes = most_answer_bytes
        self._reader: Reader | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        """End the process, whatever it is doing."""
        if self._reader is not None:
            self._reader.end()
            self._reader = None
            _room.release()

    def ask(self, **question: Any) -> dict[str, Any]:
        """Return the answer to one question; files are opened for the other side meanwhile.

        Raises:
            Damaged: the files cannot be read.
            Beyond: they take more than is given here.
            Unavailable: no process can be started.

        """
        if self._reader is None:
            self._reader = self._start()
        reader = self._reader
        try:
            return reader.ask(question, give=self._give).body
        finally:
            if reader.has_ended:
                self._end()  # what is asked next may be no trouble

    def _start(self) -> Reader:
        if not _room.acquire(timeout=self._seconds / 4):
            message = f"{MOST_AT_ONCE} tables are being read at this moment: try again in a few seconds"
            raise Unavailable(message, code="readers_busy")
        try:
            return Reader(
                self._entrypoint,
                limits={**LIMITS, "cpu_s": int(self._seconds) + 1},
                seconds=self._seconds,
                most_answer_bytes=self._most_answer_bytes,
            )
        except BaseException:
            _room.release()
            raise

    def _give(self, channel: Channel, wish: dict[str, Any]) -> None:
        """Open a file for the other side, or read some bytes of an object for it."""
        location = str(wish.get("open") or wish.get("read"))
        if not is_inside(location, self._location):
            channel.send({"refused": f"{location} is outside of the table's folder"})
            return
        try:
            if "open" in wish:
                self._open(channel, location)
            else:
                channel.send({"size": wish["size"]}, payload=self._read(location, wish["start"], wish["size"]))
        except Absent:
            channel.send({"refused": f"{location} is missing or no regular file"})

    def _open(self, channel: Channel, location: str) -> None:
        size, descriptor = metadata_files.store_of(location).open_foreign(location, root=self._location)
        try:
            channel.send({"size": size}, descriptor=descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    @staticmethod
    def _read(location: str, start: Any, size: Any) -> bytes:
        if not (is_object_location(location) and isinstance(start, int) and isinstance(size, int)):
            raise Absent(location)
        if start < 0 or not 0 < size <= MOST_RANGE_BYTES:
            raise Absent(location)
        return object_store.read_range(location, start=start, size=size)
