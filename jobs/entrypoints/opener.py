"""Lends a server in a sandbox to one group of callers at a time, and opens folders for it to write. Standard library only.

A server that works for many jobs sees all tables and may write none of them, until somebody who holds the socket asks for
the folders of one job. They are writable as long as that connection lasts: a caller that dies leaves nothing open.

Code that ran on the server may have left something behind that waits for the next: a thread, a class, a process. So it works
for one group in its life. When another one asks, nobody else is let in any more, and when the last has gone this process ends
with RENEWED: the keeper ends the server, and whoever supervises it starts another, which is kept for that group for a while.
The time of a file beside the socket says when that was last so, and the file why.

It makes room, too, whatever still runs on it, when a caller asks for that, or when the file that it was given the name of appears:
then something on the server was to end and did not.

The opener lives in a mount namespace of its own, in which each root of tables is a shared mount. The sandbox's namespace is a
slave of that one, so what is mounted on a folder here appears there, and nothing that happens there comes back.

One connection is one request: a line of JSON, ``{"group": "...", "open": ["/abs/folder", ...]}``, answered by
``{"opened": n}``, ``{"busy": "..."}`` while the server is another group's, or ``{"error": "..."}``. ``{"renew": "why"}`` is answered
by the end of the connection, and of the server.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

LONGEST_REQUEST = 1024 * 1024
RENEWED = 75
"""The exit code of a server that makes room for another (the number of EX_TEMPFAIL: start it again)."""
KEPT_S = 60.0
"""So long the server is kept for a group that has asked and does not ask again."""
LOOK_S = 1.0
"""So often it is looked whether the file has appeared."""
Mount = Callable[[str], None]


@dataclass(eq=False)
class _Caller:
    """Who has asked, and descriptors of the mounts that were made for it."""

    socket: socket.socket
    received: bytes = b""
    mounts: list[int] = field(default_factory=list)
    is_served: bool = False


@dataclass(frozen=True)
class _Turn:
    """Whose the server is next."""

    group: str
    until: float
    """By the machine's clock that is never set."""

    @property
    def is_over(self) -> bool:
        # far in the future: noted before the machine started anew
        return not 0 < self.until - time.monotonic() <= KEPT_S


class _BusyError(Exception):
    """The server is another group's now; the text says what happens next."""


class ServerTurns:
    """Whose the server is, and who comes next; noted in a file, which outlives this server."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._group: str | None = None
        self._served = 0
        self._next = self._read()

    def begin(self, group: str) -> None:
        """Let a caller of a group in.

        Raises:
            _BusyError: not now.

        """
        if self._next is not None and (self._next.is_over or self._next.group == self._group):
            self._note(None)
        if self._next is not None and self._next.group != group:
            raise _BusyError("it is kept for a job that has waited for longer")
        if self._group not in (None, group):
            self._note(_Turn(group, time.monotonic() + KEPT_S))
            raise _BusyError("it ends what others have on it, and starts anew")
        self._note(None)
        self._group = group
        self._served += 1

    def end(self) -> None:
        """Note that a caller that was let in has gone."""
        self._served -= 1

    @property
    def is_to_be_renewed(self) -> bool:
        """Whether another group waits for a server that nobody uses now."""
        return self._group is not None and not self._served and self._next is not None and not self._next.is_over

    def _note(self, turn: _Turn | None) -> None:
        self._next = turn
        if turn is None:
            self._path.unlink(missing_ok=True)
        else:
            partial = self._path.with_suffix(".part")
            partial.write_text(json.dumps([turn.group, turn.until]))
            partial.replace(self._path)

    def _read(self) -> _Turn | None:
        try:
            group, until = json.loads(self._path.read_text())
            return _Turn(str(group), float(until))
        except (OSError, ValueError, TypeError):
            return None


class Opener:
    """The loop; one thread, since it has a mount namespace of its own."""

    def __init__(self, path: str, roots: Sequence[str], *, mount: Mount, unmount: Mount, renew_when: str = "") -> None:
        self._roots = roots
        self._renew_when = renew_when
        self._mount = mount
        self._unmount = unmount
        self._path = path
        self._turns = ServerTurns(Path(f"{path}.next"))
        self._selector = selectors.DefaultSelector()
        self._listener = _listen(path)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def serve(self) -> NoReturn:
        """Serve until it is killed, with the sandbox, or the server has to make room."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            for key, _ in self._selector.select(LOOK_S if self._renew_when else None):
                key.data()
            if self._turns.is_to_be_renewed:
                self._renew()
            if self._renew_when and os.path.lexists(self._renew_when):
                self._renew("something on it was to end and runs on")

    def _renew(self, why: str = "") -> NoReturn:
        """End, and with it the server."""
        note_renewal(self._path, why)
        os._exit(RENEWED)

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
        if not data or caller.is_served or len(caller.received) > LONGEST_REQUEST:
            self._close(caller)
        elif caller.received.endswith(b"\n"):
            self._answer(caller)

    def _answer(self, caller: _Caller) -> None:
        try:
            request = json.loads(caller.received)
            if "renew" in request:
                self._renew(str(request["renew"]))
            self._turns.begin(str(request["group"]))
            caller.is_served = True
            for path in request["open"]:
                caller.mounts.append(self._open(path))
            answer: dict[str, object] = {"opened": len(caller.mounts)}
        except _BusyError as error:
            answer = {"busy": str(error)}
        except (OSError, ValueError, KeyError, TypeError) as error:
            answer = {"error": str(error)}
        with suppress(OSError):
            caller.socket.sendall(json.dumps(answer).encode() + b"\n")
        if "opened" not in answer:
            self._close(caller)

    def _open(self, path: str) -> int:
        if os.path.realpath(path) != path or not any(path.startswith(f"{root}/") for root in self._roots):
            message = f"{path} is no folder of its own below {' or '.join(self._roots)}"
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
        if caller.is_served:
            self._turns.end()


def note_renewal(path: str, why: str) -> None:
    """Note beside the socket that the server ends to start anew, and why where that is no matter of course."""
    with suppress(OSError):
        Path(f"{path}.renewed").write_text(why)
    if why:
        sys.stderr.write(f"the server ends and starts anew: {why}\n")
        sys.stderr.flush()


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
