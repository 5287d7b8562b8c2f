"""Processes in the sandbox that read files for this one, which decodes nothing that others have written.

They are asked over a channel (jobs/channel.py). What they answer is JSON of a bounded size, within a bounded time.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jobs.channel import Channel, Closed, Heard, TooLong
from webapp.core.errors import Unavailable
from webapp.runtime import fork_server

PATIENCE_S = 5.0

Give = Callable[[Channel, dict[str, Any]], None]
"""Fulfils a wish of the other side, such as to open a file."""


class ReadFailed(Exception):
    """The files cannot be read; the message says why, for the reader of a page."""


class Damaged(ReadFailed):
    """A file is missing, damaged or not what it should be."""


class Beyond(ReadFailed):
    """There is more than is read here, or it takes too much time or memory."""


def ask_reader(
    question: Mapping[str, Any], *, limits: Mapping[str, int], seconds: float, most_answer_bytes: int
) -> dict[str, Any]:
    """Return the answer to one question of which all is in the question; see `Reader`.

    Raises:
        ReadFailed: it cannot be answered.
        Unavailable: no process can be started.

    """
    reader = Reader("read", limits=limits, seconds=seconds, most_answer_bytes=most_answer_bytes)
    try:
        return reader.ask(question).body
    finally:
        reader.end()


class Reader:
    """One such process. Whoever makes it ends it."""

    def __init__(
        self,
        entrypoint: str,
        *,
        limits: Mapping[str, int],
        seconds: float,
        most_answer_bytes: int,
        readonly: Sequence[str] = (),
    ) -> None:
        """Start it.

        Args:
            entrypoint: what answers, in `jobs/entrypoints`.
            limits: what it may take, in the words of the fork server's protocol.
            seconds: until then all is over, unless more time is allowed.
            most_answer_bytes: of one answer.
            readonly: folders that it sees.

        Raises:
            Unavailable: no process can be started.

        """
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        silence = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        request = {
            "entrypoint": entrypoint,
            "manifest": "/dev/null",
            "limits": dict(limits),
            "sandbox": {"readonly": list(readonly), "writable": [], "ports": []},
        }
        try:
            self._process, _, self._received = fork_server.start(request, descriptors=[silence, far.fileno()])
        except BaseException:
            near.close()
            raise
        finally:
            far.close()
            os.close(silence)
        self.has_ended = False
        """By itself, while it was asked."""
        self._seconds = seconds
        self._most_answer_bytes = most_answer_bytes
        self._channel = Channel(near, at_most=most_answer_bytes, seconds=seconds)

    def allow(self, seconds: float) -> None:
        """Let what comes take so long, from now on."""
        self._seconds = seconds
        self._channel.allow(seconds)

    @property
    def is_ready(self) -> bool:
        """Whether it lives and waits for a question."""
        return self._channel.is_quiet

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._channel.close()
        self._process.close()

    def ask(self, question: Mapping[str, Any], *, give: Give | None = None) -> Heard:
        """Return the answer to one question; what the other side wishes meanwhile is given.

        Raises:
            Damaged: the files cannot be read.
            Beyond: they take more than is given here.
            Unavailable: the process cannot be started, or its fork server has ended.

        """
        try:
            self._channel.send(question)
            while _is_wish((heard := self._receive()).body) and give is not None:
                give(self._channel, heard.body)
        except TimeoutError as error:
            message = f"reading them took longer than {self._seconds:g} seconds"
            raise Beyond(message) from error
        except Closed as error:
            self.has_ended = True
            raise self._explain_end() from error
        except TooLong as error:
            message = f"they take more than {self._most_answer_bytes:,} bytes"
            raise Beyond(message) from error
        except ValueError as error:
            message = f"their reader gave no good answer: {error}"
            raise Beyond(message) from error
        if "failure" in heard.body:
            raise _failure(heard.body)
        return heard

    def _receive(self) -> Heard:
        heard = self._channel.receive()
        if heard.descriptor is not None:
            os.close(heard.descriptor)
        return heard

    def _explain_end(self) -> ReadFailed | Unavailable:
        """Say why the process ended before it had answered."""
        code = fork_server.wait_for_exit(self._process, self._received, seconds=PATIENCE_S)
        if code == fork_server.LOST:
            return Unavailable("The job runner ended while it read a table: try again.", code="runner_down")
        if code == fork_server.SETUP_FAILED:
            return Unavailable("The sandbox in which tables are read could not be made.", code="runner")
        return Beyond(f"their reader ended with exit code {code}")


def _is_wish(body: Mapping[str, Any]) -> bool:
    return "failure" not in body and ("open" in body or "read" in body)


def _failure(body: Mapping[str, Any]) -> ReadFailed:
    message = str(body.get("message"))[:1000]
    if body["failure"] == "memory":
        return Beyond("decoding them takes more memory than a reader has")
    return Beyond(message) if body["failure"] == "beyond" else Damaged(message)
