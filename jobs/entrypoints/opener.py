"""Opens single folders of a sandbox for writing while a process runs in it. Standard library only.

A server that works for many jobs sees all tables and may write none of them, until somebody who holds the socket asks for
the folders of one job. They are writable as long as that connection lasts: a caller that dies leaves nothing open.

The opener lives in a mount namespace of its own, in which the tables' root is a shared mount. The sandbox's namespace is a
slave of that one, so what is mounted on a folder here appears there, and nothing that happens there comes back.

One connection is one request: a line of JSON, ``{"open": ["/abs/folder", ...]}``, answered by ``{"opened": n}`` or
``{"error": "..."}``.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

LONGEST_REQUEST = 1024 * 1024
Mount = Callable[[str], None]


@dataclass(eq=False)
class _Caller:
    """Who has asked, and descriptors of the mounts that were made for it."""

    socket: socket.socket
    received: bytes = b""
    mounts: list[int] = field(default_factory=list)


class Opener:
    """The loop; one thread, since it has a mount namespace of its own."""

    def __init__(self, path: str, root: str, *, mount: Mount, unmount: Mount) -> None:
        self._root = root
        self._mount = mount
        self._unmount = unmount
        self._selector = selectors.DefaultSelector()
        self._listener = _listen(path)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def serve(self) -> NoReturn:
        """Serve until it is killed, with the sandbox."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _accept(self) -> None:
        with suppress(OSError):
            accepted, _ = self._listener.accept()
            accepted.setblocking(False)
            caller = _Caller(accepted)
            self._selector.register(accepted, selectors.EVENT_READ, lambda: self._receive(caller))

    def _receive(self, caller: _Caller) -> None:
        try:
            data = caller.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        caller.received += data
        if not data or caller.mounts or len(caller.received) > LONGEST_REQUEST:
            self._close(caller)
        elif caller.received.endswith(b"\n"):
            self._answer(caller)

    def _answer(self, caller: _Caller) -> None:
        try:
            for path in json.loads(caller.received)["open"]:
                caller.mounts.append(self._open(path))
            answer: dict[str, object] = {"opened": len(caller.mounts)}
        except (OSError, ValueError, KeyError, TypeError) as error:
            answer = {"error": str(error)}
        with suppress(OSError):
            caller.socket.sendall(json.dumps(answer).encode() + b"\n")
        if "error" in answer:
            self._close(caller)

    def _open(self, path: str) -> int:
        if os.path.realpath(path) != path or not path.startswith(f"{self._root}/"):
            message = f"{path} is no folder of its own below {self._root}"
            raise ValueError(message)
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            message = f"{path} is no folder"
            raise ValueError(message)
        self._mount(path)
        # by this it is found again wherever it is moved to
        return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def _close(self, caller: _Caller) -> None:
        self._selector.unregister(caller.socket)
        caller.socket.close()
        for descriptor in caller.mounts:
            with suppress(OSError):  # its folder was removed, and the mount with it
                self._unmount(f"/proc/self/fd/{descriptor}")
            os.close(descriptor)


def _listen(path: str) -> socket.socket:
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(0o177)
    listener.bind(path)
    os.umask(previous)
    listener.listen(64)
    listener.setblocking(False)
    return listener
