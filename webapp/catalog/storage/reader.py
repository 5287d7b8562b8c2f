"""Reading the files of a table in a process of its own (jobs/entrypoints/read.py): nothing of them is decoded in this one.

That process sees no file and no network. It asks for each file by its location, and gets those inside the table's own
folder that are regular files, opened here. What it answers is JSON of a bounded size, within a bounded time.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Any, Self

from jobs.channel import Channel, Closed, Heard, TooLong
from webapp.catalog.rules.locations import is_inside
from webapp.catalog.storage import metadata_files
from webapp.core import fork_server, object_store
from webapp.core.errors import Unavailable
from webapp.core.object_store import Absent, is_object_location

SECONDS = 20.0
MOST_ANSWER_BYTES = 64 * 1024 * 1024
MOST_RANGE_BYTES = 64 * 1024 * 1024
MOST_AT_ONCE = 4
"""Processes that read for this one at a time; each may take a gigabyte."""
PATIENCE_S = 5.0
LIMITS = {"memory_bytes": 4 * 1024**3, "total_memory_bytes": 2 * 1024**3, "fsize": 0}
_room = threading.BoundedSemaphore(MOST_AT_ONCE)


class ReadFailed(Exception):
    """The files cannot be read; the message says why, for the reader of a page."""


class Damaged(ReadFailed):
    """A file is missing, damaged or not what it should be."""


class Beyond(ReadFailed):
    """There is more than is read here, or it takes too much time or memory."""


class TableReader:
    """What reads the files of one table for one request; it starts with the first question and ends with the block."""

    def __init__(self, location: str, *, seconds: float = SECONDS, most_answer_bytes: int = MOST_ANSWER_BYTES) -> None:
        """Prepare to read.

        Args:
            location: the folder of the table, outside of which nothing is opened.
            seconds: all questions together may take.
            most_answer_bytes: of one answer.

        """
        self._location = location
        self._seconds = seconds
        self._most_answer_bytes = most_answer_bytes
        self._channel: Channel | None = None
        self._process: socket.socket | None = None
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        """End the process, whatever it is doing."""
        if self._channel is None or self._process is None:
            return
        self._channel.close()
        self._process.close()
        self._channel = self._process = None
        _room.release()

    def ask(self, **question: Any) -> dict[str, Any]:
        """Return the answer to one question; files are opened for the other side meanwhile.

        Raises:
            Damaged: the files cannot be read.
            Beyond: they take more than is given here.
            Unavailable: no process can be started.

        """
        channel = self._channel or self._start()
        try:
            channel.send(question)
            while "failure" not in (body := self._receive(channel).body) and ("open" in body or "read" in body):
                self._give(channel, body)
        except TimeoutError as error:
            message = f"reading them took longer than {self._seconds:g} seconds"
            raise Beyond(message) from error
        except Closed as error:
            problem = self._explain_end()
            self._end()  # what is asked next may be no trouble
            raise problem from error
        except TooLong as error:
            message = f"they take more than {self._most_answer_bytes:,} bytes"
            raise Beyond(message) from error
        except ValueError as error:
            message = f"their reader gave no good answer: {error}"
            raise Beyond(message) from error
        if "failure" in body:
            raise _failure(body)
        return body

    def _start(self) -> Channel:
        if not _room.acquire(timeout=self._seconds / 4):
            message = f"{MOST_AT_ONCE} tables are being read at this moment: try again in a few seconds"
            raise Unavailable(message, code="readers_busy")
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        silence = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        request = {
            "entrypoint": "read",
            "manifest": "/dev/null",
            "limits": {**LIMITS, "cpu_s": int(self._seconds) + 1},
            "sandbox": {"readonly": [], "writable": [], "ports": []},
        }
        try:
            self._process, _, self._received = fork_server.start(request, descriptors=[silence, far.fileno()])
        except BaseException:
            near.close()
            _room.release()
            raise
        finally:
            far.close()
            os.close(silence)
        self._channel = Channel(near, at_most=self._most_answer_bytes, seconds=self._seconds)
        return self._channel

    @staticmethod
    def _receive(channel: Channel) -> Heard:
        heard = channel.receive()
        if heard.descriptor is not None:
            os.close(heard.descriptor)
        return heard

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

    def _explain_end(self) -> ReadFailed | Unavailable:
        """Why the process ended before it had answered."""
        code: int | None = fork_server.LOST
        if self._process is not None:
            code = fork_server.wait_for_exit(self._process, self._received, seconds=PATIENCE_S)
        if code == fork_server.LOST:
            return Unavailable("The job runner ended while it read a table: try again.", code="runner_down")
        if code == fork_server.SETUP_FAILED:
            return Unavailable("The sandbox in which tables are read could not be made.", code="runner")
        return Beyond(f"their reader ended with exit code {code}")


def _failure(body: dict[str, Any]) -> ReadFailed:
    message = str(body.get("message"))[:1000]
    if body["failure"] == "memory":
        return Beyond("decoding them takes more memory than a reader has")
    return Beyond(message) if body["failure"] == "beyond" else Damaged(message)
