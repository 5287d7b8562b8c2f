"""Bodies of requests, read by the event loop: under a size, a deadline and a rate, before any thread is taken.

Whoever is not known yet may send what fits into `UNKNOWN_BYTES`; beyond that a request shows who sends it first. All that is
sent is counted, so that all bodies together take a bounded part of the memory, and what is long goes to the disk.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ctypes import CDLL, c_int64
from pathlib import Path
from typing import Any, BinaryIO

from webapp.core.errors import AppError, BadRequest, TooLarge, Unavailable
from webapp.core.numbers import read_count
from webapp.runtime.room import check_room

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

UNKNOWN_BYTES = 16 * 1024
"""Anybody's: the forms and bodies of signing in, and nearly all commits. So much for each connection, at most."""
ANY_SIZE = 2**62
IN_MEMORY = 1024 * 1024
"""Longer bodies go to a file; so much of them is in memory at a time."""
GRACE_S = 10.0
RATE = 16 * 1024
"""Bytes a second, over the whole body, below which a sender is too slow."""
STALL_S = 30.0
"""So long a sender may pause, however fast it was."""
LINGER_S = 2.0
LINGER_BYTES = 16 * 1024 * 1024
DRAINED_BYTES = 4 * 1024 * 1024
"""So much of a body is read between two times at which its room is given back."""
WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "DELETE"})

_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_libc = CDLL(None)
_disk = ThreadPoolExecutor(max_workers=4, thread_name_prefix="spool")


class TooSlow(AppError):
    """The body did not arrive in time."""

    status = 408
    title = "Too slow"
    default_code = "too_slow"


class SenderGone(BadRequest):
    """The client has closed the connection, or only its own side of it and still reads: a server error would be untrue."""

    default_code = "cut_off"

    def __init__(self) -> None:
        super().__init__("The request ended before its body did, and nothing was changed.")


class Buffers:
    """The memory that bodies of one process may take together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, size: int) -> None:
        """Count bytes in.

        Raises:
            Unavailable: too much is held already.

        """
        if self.held + size > self.limit:
            message = "Too much is being sent to this server at once: try again"
            raise Unavailable(message, code="overloaded")
        self.held += size

    def give_back(self, size: int) -> None:
        """Count bytes out."""
        self.held -= size


memory = Buffers(256 * 1024 * 1024)
"""Of all bodies of this process."""


class Incoming:
    """The body of one request while it arrives."""

    def __init__(self, receive: Receive, *, method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._receive = receive
        self._waited = 0.0
        """How long the sender was waited for; what the server does meanwhile is not the sender's time."""
        self.limit = ANY_SIZE
        """Set when it is known who sends, and before more than a head is read."""
        self.received = 0
        sizes = [value for name, value in headers if name in (b"content-length", b"transfer-encoding")]
        self.declared: int | None = None if len(sizes) != 1 else read_count(sizes[0].decode("latin-1"), most=ANY_SIZE)
        """The length that is announced; None where none is."""
        # Without either header HTTP/1 has no body; other methods are asked all the same, for what a server may add.
        self.is_over = self.declared == 0 or (not sizes and method in WITHOUT_BODY)

    @property
    def exceeds(self) -> bool:
        """Whether more is announced than may be sent."""
        return self.declared is not None and self.declared > self.limit

    async def read(self) -> bytes:
        """Read the next piece; empty at the end.

        Raises:
            TooLarge: more than the limit.
            TooSlow: the sender pauses, or is slower than the rate.
            SenderGone: the connection was closed.

        """
        while not self.is_over:
            self.check_size()
            piece = await self._next()
            self.received += len(piece)
            self.check_size()
            if piece:
                return piece
        return b""

    def check_size(self) -> None:
        """Refuse what is, or is announced to be, larger than the limit."""
        if self.received > self.limit or self.exceeds:
            message = f"The body of this request may have {self.limit:,} bytes at most"
            raise TooLarge(message)

    async def read_of_head(self) -> bytes:
        """Read the next piece of what anybody may send, as `read` does: of a short body all, of a longer one its start.

        Empty where the rest waits for who sends it to be known: at once where it is announced to be long.
        """
        is_long = self.declared is not None and self.declared > UNKNOWN_BYTES
        return b"" if is_long or self.received > UNKNOWN_BYTES else await self.read()

    async def drop(self) -> None:
        """Read on for a moment after an early answer: who is cut off while sending would not see it."""
        dropped = 0
        with suppress(TimeoutError, SenderGone):
            async with asyncio.timeout(LINGER_S):
                while not self.is_over and dropped < LINGER_BYTES:
                    dropped += len(await self._take())

    async def _next(self) -> bytes:
        began = time.monotonic()
        left = GRACE_S + self.received / RATE - self._waited
        try:
            async with asyncio.timeout(max(0.0, min(left, STALL_S))):
                return await self._take()
        except TimeoutError:
            message = "The body of this request arrives too slowly"
            raise TooSlow(message) from None
        finally:
            self._waited += time.monotonic() - began

    async def _take(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            # The last piece of a whole body marks its end, with or without a length.
            self.is_over = True
            raise SenderGone
        self.is_over = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece


async def wait_until_gone(receive: Receive) -> None:
    """Return when the client has closed the connection, behind a body that was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def refuse_body(incoming: Incoming, *, what: str) -> None:
    """Refuse a body where none is taken, before any of it is read."""
    if not incoming.is_over:
        message = f"{what} takes no body"
        raise BadRequest(message, code="body_not_taken")


class Draining:
    """A file on the disk that gives its room back as it is read: what is read of a form is written to a file again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._kept_from = 0

    def read(self, size: int = -1) -> bytes:
        """Read bytes."""
        return self._drain(self._file.read(size))

    def readline(self, size: int = -1) -> bytes:
        """Read a line."""
        return self._drain(self._file.readline(size))

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # a full disk: closing writes what is left, and fails as the write did
            self._file.close()

    def _drain(self, piece: bytes) -> bytes:
        read = self._file.tell()
        if read - self._kept_from >= DRAINED_BYTES:
            # Some file systems cannot; then the room comes back at the end.
            _libc.fallocate(self._file.fileno(), _PUNCH_HOLE_KEEP_SIZE, c_int64(0), c_int64(read))
            self._kept_from = read
        return piece


class Body:
    """A body as a file: in memory while it is short, on the disk beyond."""

    def __init__(self, *, buffers: Buffers, folder: Path) -> None:
        self._buffers = buffers
        self._folder = folder
        self._waiting: list[bytes] = []
        self._held = 0
        self._disk_file: BinaryIO | None = None
        self.file: BinaryIO | Draining = io.BytesIO()
        """The content, from its start; complete when `read_all` has returned."""
        self.length = 0

    async def read_head(self, incoming: Incoming) -> None:
        """Take what anybody may send; it counts like the rest."""
        while piece := await incoming.read_of_head():
            await self._add(piece)

    async def read_all(self, incoming: Incoming) -> None:
        """Take what is still to come behind what was read before."""
        while piece := await incoming.read():
            await self._add(piece)
        if self._disk_file is None:
            self.file = io.BytesIO(b"".join(self._waiting))
            self._waiting.clear()
        else:
            await self._write_out(rewind=True)
            self.file = Draining(self._disk_file)

    def close(self) -> None:
        """Give everything back; the file has no name and is gone."""
        self.file.close()
        if self._disk_file is not None:
            with suppress(OSError):  # a full disk: closing writes what is left, and fails as the write did
                self._disk_file.close()
        self._give_back()

    async def _add(self, piece: bytes) -> None:
        self._buffers.take(len(piece))
        self._held += len(piece)
        self.length += len(piece)
        self._waiting.append(piece)
        if self._held > IN_MEMORY:
            await self._write_out()

    async def _write_out(self, *, rewind: bool = False) -> None:
        pieces, self._waiting = self._waiting, []
        await asyncio.get_running_loop().run_in_executor(_disk, self._write, pieces, rewind)
        self._give_back()

    def _write(self, pieces: list[bytes], rewind: bool) -> None:
        check_room()  # again and again: many bodies at once may take what was there before their first byte
        if self._disk_file is None:
            # Without a name in the folder: nothing is left behind, whatever ends this process.
            self._disk_file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed with the body
        self._disk_file.writelines(pieces)
        if rewind:
            self._disk_file.seek(0)

    def _give_back(self) -> None:
        self._buffers.give_back(self._held)
        self._held = 0
