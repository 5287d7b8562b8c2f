"""What the web and a process that reads for it say to each other: JSON with its length, bytes behind it, an open file beside it.

Standard library only. Either side may have been taken over by what it reads, so lengths are bounded before anything is
kept, and every wait has an end.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.parsing import load_json

NUMBER = 3
"""The descriptor at which a job finds it."""
_HEAD = struct.Struct("!II")
_CHUNK = 1024 * 1024


class TooLong(ValueError):
    """A message is longer than its reader takes."""


class Closed(ConnectionError):
    """The other side is gone."""


@dataclass(frozen=True)
class Heard:
    """One message."""

    body: dict[str, Any]
    payload: bytes = b""
    descriptor: int | None = None
    """An open file, which the receiver closes."""


class Channel:
    """One end."""

    def __init__(self, connection: socket.socket, *, at_most: int, seconds: float | None = None) -> None:
        """Take over one end of a socket pair.

        Args:
            connection: that end.
            at_most: bytes of a message that are taken.
            seconds: until then everything has to be over; None waits for ever.

        """
        self._connection = connection
        self._at_most = at_most
        self._deadline: float | None = None
        if seconds is not None:
            self.allow(seconds)

    def allow(self, seconds: float) -> None:
        """Let what comes take so long, from now on."""
        self._deadline = time.monotonic() + seconds

    def send(self, body: Mapping[str, Any], *, payload: bytes = b"", descriptor: int | None = None) -> None:
        """Send one message; the descriptor stays open here.

        Raises:
            Closed: nobody hears it.
            TimeoutError: the time is over.

        """
        text = json.dumps(body, separators=(",", ":")).encode()
        head = _HEAD.pack(len(text), len(payload))
        try:
            self._hurry()
            sent = socket.send_fds(self._connection, [head], [] if descriptor is None else [descriptor])
            for part in (head[sent:], text, payload):
                self._hurry()
                self._connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def receive(self) -> Heard:
        """Wait for the next message.

        Raises:
            Closed: there is none.
            TooLong: it is longer than is taken here.
            ValueError: it is no message.
            TimeoutError: the time is over.

        """
        head, descriptor = self._receive_head()
        try:
            body, payload = self._receive_parts(*_HEAD.unpack(head))
        except BaseException:
            if descriptor is not None:
                os.close(descriptor)
            raise
        return Heard(body, payload, descriptor)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has come: neither a message nor the other side's end."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Say that there is nothing more to say."""
        self._connection.close()

    def _receive_head(self) -> tuple[bytes, int | None]:
        self._hurry()
        try:
            head, descriptors, _, _ = socket.recv_fds(self._connection, _HEAD.size, 1, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError as error:
            raise Closed from error
        if not head:
            raise Closed
        return head + self._receive_whole(_HEAD.size - len(head)), next(iter(descriptors), None)

    def _receive_parts(self, text_size: int, payload_size: int) -> tuple[dict[str, Any], bytes]:
        if text_size + payload_size > self._at_most:
            message = f"a message of {text_size + payload_size} bytes, where {self._at_most} are taken"
            raise TooLong(message)
        body = load_json(self._receive_whole(text_size))
        if not isinstance(body, dict):
            message = "a message is one JSON object"
            raise ValueError(message)  # noqa: TRY004 - what a peer says, not what a caller passes
        return body, self._receive_whole(payload_size)

    def _receive_whole(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            self._hurry()
            part = self._connection.recv(min(size - len(received), _CHUNK))
            if not part:
                raise Closed
            received += part
        return bytes(received)

    def _hurry(self) -> None:
        if self._deadline is None:
            return
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
