"""Tells the supervisor that this process's event loop runs, by a socket that no client can reach, however many there are."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

ALIVE = b"ok\n"
BACKLOG = 16


class Pulse:
    """Answers whoever connects to a socket, by the event loop alone."""

    def __init__(self) -> None:
        self._listener: socket.socket | None = None

    def listen_at(self, listener: socket.socket) -> None:
        """Set the socket; the processes of the web part share it, and one of them answers."""
        listener.setblocking(False)
        self._listener = listener

    def start(self) -> None:
        """Answer from now on, where there is a socket: a web process that runs alone has none."""
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, _answer, self._listener)


def _answer(listener: socket.socket) -> None:
    with suppress(OSError):  # another process was faster, or who asked has gone
        connection, _ = listener.accept()
        with connection:
            connection.send(ALIVE)
