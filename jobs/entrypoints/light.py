"""Passes requests on to a second fork server that is still small: forking one with all libraries costs five times as much.

It is forked before the libraries are imported. One message is one caller: what was received from it, and its connection
with the descriptors that it sent. The larger server then lets go of these.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence

from jobs.entrypoints.sandbox import die_with

MOST_BYTES = 64 * 1024
"""Maximum size of a message."""
_MOST_DESCRIPTORS = 3


class SmallServer:
    """The larger server's end."""

    def __init__(self, orders: socket.socket, process: int) -> None:
        self._orders = orders
        self._process = process

    def pass_on(self, received: bytes, descriptors: Sequence[int]) -> bool:
        """Let it serve a caller; return False where it has ended, has too much to do, or the message is too long."""
        if len(received) > MOST_BYTES:
            return False
        try:
            socket.send_fds(self._orders, [received], list(descriptors))
        except OSError:
            return False
        return True

    def end(self) -> None:
        """Let it end, and all that it has started."""
        self._orders.close()
        os.waitpid(self._process, 0)


def begin(serve: Callable[[socket.socket], None]) -> SmallServer:
    """Fork the small server; it ends with this process, whatever that one dies of."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    near.setblocking(False)  # the larger server serves others, too
    far.setblocking(False)
    parent = os.getpid()
    process = os.fork()
    if process == 0:
        try:
            near.close()
            die_with(parent)
            serve(far)
            os._exit(0)
        finally:
            os._exit(1)
    far.close()
    return SmallServer(near, process)


def take_over(orders: socket.socket) -> tuple[bytes, list[int]]:
    """Return what was received from a caller, and its descriptors, none of which is inherited.

    Raises:
        BlockingIOError: there is none.
        EOFError: the larger server has ended.

    """
    received, descriptors, _, _ = socket.recv_fds(orders, MOST_BYTES, _MOST_DESCRIPTORS)
    if not received:
        raise EOFError
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return received, descriptors
