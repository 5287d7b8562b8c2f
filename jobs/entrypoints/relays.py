"""Starts relays from a process that is still small: forking the fork server with its libraries costs ten times as much.

The starter is forked before the libraries are imported. Keepers share its socket: one message is one relay, and carries
the relay's channel to the sandbox, the keeper's pidfd and a socket for the answer, which is the relay's pidfd.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import NoReturn

from jobs.entrypoints.keeper import Door, relay

MOST_BYTES = 64 * 1024
"""Maximum size of a message."""
_FIRST_DESCRIPTOR = 64
"""Above those that a job gets by number."""


class RelayStarter:
    """The sending end; it is to be closed before anything confined is forked."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._orders.fileno()

    def close(self) -> None:
        """Let go of the starter; it ends when nobody holds it."""
        self._orders.close()

    def start(self, channel: socket.socket, doors: Sequence[Door]) -> int:
        """Start a relay that ends with this process; return its pidfd.

        Raises:
            OSError: the starter has died, or there are too many doors for a message.

        """
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        keeper = os.pidfd_open(os.getpid())
        with near, far:
            message = json.dumps([asdict(door) for door in doors]).encode()
            if len(message) > MOST_BYTES:
                raise OSError("too many doors for one message")
            try:
                socket.send_fds(self._orders, [message], [channel.fileno(), keeper, far.fileno()])
            finally:
                os.close(keeper)
            far.close()
            descriptors = socket.recv_fds(near, 1, 1)[1]
        if not descriptors:
            raise OSError("the starter of relays has ended")
        return descriptors[0]


def begin() -> RelayStarter:
    """Fork the starter; it ends when no process holds the other end of its socket."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        near.close()
        _serve(far)
    far.close()
    high = fcntl.fcntl(near.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
    near.close()
    return RelayStarter(socket.socket(fileno=high))


def _serve(orders: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        message, descriptors, _, _ = socket.recv_fds(orders, MOST_BYTES, 3)
        if not message:
            os._exit(0)
        with suppress(OSError):  # the keeper starts its relay itself when no answer comes
            _start(message, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _start(message: bytes, channel: int, keeper: int, answer: int) -> None:
    doors = [Door(**door) for door in json.loads(message)]
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            relay(socket.socket(fileno=channel), doors, keeper=keeper)
        finally:
            os._exit(1)
    process = os.pidfd_open(child)
    try:
        with socket.socket(fileno=os.dup(answer)) as reply:
            socket.send_fds(reply, [b"1"], [process])
    finally:
        os.close(process)


def _reap(_number: int, _frame: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
