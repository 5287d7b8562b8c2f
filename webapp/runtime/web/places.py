"""The places of a web process: connections that say nothing hold none that somebody else needs.

The web server accepts a bounded number of connections and reads their heads by itself. Who connects and is silent, or
sends one byte, or keeps a connection for later, is not known to any of our code until there is a request.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from time import sleep

logger = logging.getLogger(__name__)

CONNECTIONS = 4096
"""Of one process: when most of its places are taken, idle connections are closed."""
IDLE_OF_ADDRESS = 256
"""Connections without a request that one address may have in one process; a trusted proxy's have no such limit."""
LOOK_S, LOOK_SOON_S = 1.0, 0.1
YOUNG_MS = 1000
"""Where something came or went so recently, a request may be on its way to us."""
_INFO = struct.Struct("=B43xI4xI")
"""Of the kernel's `tcp_info`: the state, and the milliseconds since data went out, and since data came in."""
_ESTABLISHED = 1

Peer = tuple[str, int]


@dataclass(frozen=True)
class _Connection:
    descriptor: int
    peer: Peer
    idle_ms: int


class Places:
    """The connections of one process, by whether a request is under way on them."""

    def __init__(self, most: int, *, trusts: Callable[[str], bool], idle_of_address: int) -> None:
        """Have so many places; an address that is trusted may leave any number of its connections idle."""
        self._most = most
        self._trusts = trusts
        self._idle_of_address = idle_of_address
        self._busy: Counter[Peer] = Counter()
        self._is_full = False

    def enter(self, peer: Peer) -> None:
        """Note that a request of a connection is under way."""
        self._busy[peer] += 1

    def leave(self, peer: Peer) -> None:
        """Note that it is over."""
        self._busy[peer] -= 1
        if self._busy[peer] <= 0:
            del self._busy[peer]

    def watch(self, port: int) -> None:
        """Keep places free from now on, in a thread; `port` is the one that the connections came to."""
        threading.Thread(target=self._watch, args=(port,), name="places", daemon=True).start()

    def close_idle(self, port: int) -> int:
        """Close the idle connections that are too many, the longest idle first; return their number.

        Too many of one address are closed at any time; when three quarters of all places are taken, those of anybody.
        """
        # A descriptor of ours holds each connection meanwhile: its number can become no other's.
        connections = list(_list_connections(port))
        try:
            excess = len(connections) - self._most * 3 // 4
            idle = [connection for connection in connections if self._is_idle(connection)]
            remaining: Counter[str] = Counter(connection.peer[0] for connection in idle)
            closed = 0
            for connection in sorted(idle, key=lambda connection: -connection.idle_ms):
                address = connection.peer[0]
                if closed < excess or (remaining[address] > self._idle_of_address and not self._trusts(address)):
                    remaining[address] -= 1
                    closed += 1
                    with suppress(OSError), socket.socket(fileno=os.dup(connection.descriptor)) as end:
                        end.shutdown(socket.SHUT_RDWR)
        finally:
            for connection in connections:
                os.close(connection.descriptor)
        self._is_full = excess > 0
        return closed

    def _is_idle(self, connection: _Connection) -> bool:
        return connection.idle_ms >= YOUNG_MS and connection.peer not in self._busy

    def _watch(self, port: int) -> None:
        while True:
            sleep(LOOK_SOON_S if self._is_full else LOOK_S)
            # Fewer files than one address may have idle: nothing is to be done, and counting them costs nearly nothing.
            if len(os.listdir("/proc/self/fd")) <= min(self._idle_of_address, self._most // 2):
                continue
            if closed := self.close_idle(port):
                logger.info("closed %s idle connections", closed)


def _list_connections(port: int) -> Iterator[_Connection]:
    ours: set[int] = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile, or no connection
            number = int(name)
            # The list names the descriptor that it was read by, too: the first of ours may have its number.
            if number in ours or not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            descriptor = os.dup(number)
            ours.add(descriptor)
            connection = _describe(descriptor, port)
            if connection is None:
                os.close(descriptor)
            else:
                yield connection


def _describe(descriptor: int, port: int) -> _Connection | None:
    """Describe a connection that came to the port; None for listeners, and for what this process has opened itself."""
    end = socket.socket(fileno=descriptor)
    try:
        if end.family not in (socket.AF_INET, socket.AF_INET6) or end.getsockname()[1] != port:
            return None
        peer = end.getpeername()
        state, sent, received = _INFO.unpack_from(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256))
        if state != _ESTABLISHED:  # closed by us, and not yet by the web server
            return None
        return _Connection(descriptor, (peer[0], peer[1]), min(sent, received))
    except OSError:
        return None
    finally:
        end.detach()
