"""Lends a server in a sandbox to one group of callers at a time, and mounts their folders in it. Standard library only.

A server that works for many jobs sees none of the tables. A caller that holds the socket names the folders that its job
reads and those that it writes. They are mounted as long as that connection lasts: a caller that dies leaves nothing mounted.
What the server has opened in them stays open until it ends.

Code that ran on the server may have left something behind that waits for the next: a thread, a class, a process. So it works
for one group in its life. When another one asks, nobody else is let in any more, and when the last has gone this process ends
with RENEWED: the keeper ends the server, and whoever supervises it starts another, which is kept for that group for a while.
The time of a file beside the socket says when that was last so, and the file why.

It makes room, too, whatever still runs on it, when a caller asks for that, or when the file that it was given the name of appears:
then something on the server was to end and did not.

The opener lives in a mount namespace of its own, in which an empty folder in memory covers each root of tables. That is a
shared mount, and the sandbox's namespace is a slave of this one: what is mounted on it here appears there, and nothing that
happens there comes back.

One connection is one request: a line of JSON, ``{"group": "...", "show": ["/abs/folder", ...], "open": ["/abs/folder", ...]}``
with the folders to read and those to write, answered by ``{"opened": n}`` with the number of the latter, ``{"busy": "..."}`` while the server is another group's, or ``{"error": "..."}``. ``{"renew": "why"}`` is answered
by the end of the connection, and of the server.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from jobs.parsing import load_json
from jobs.whole_files import write_whole

LONGEST_REQUEST = 1024 * 1024
RENEWED = 75
"""The exit code of a server that makes room for another (the number of EX_TEMPFAIL: start it again)."""
KEPT_S = 60.0
"""So long the server is kept for a group that has asked and does not ask again."""
LOOK_S = 1.0
"""So often it is looked whether the file has appeared."""
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Root:
    """A folder of tables where there is no sandbox: everything in it can be seen and written already."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def open_folder(self, path: str) -> int:
        """Open a folder below this one, through no link; return its descriptor.

        Raises:
            ValueError: the path does not name one.
            OSError: there is none.

        """
        names = path.removeprefix(f"{self.path}/").split("/")
        if not {"", ".", ".."}.isdisjoint(names):
            message = f"{path} has an empty part, . or .. in it"
            raise ValueError(message)
        folder = os.dup(self._folder)
        for name in names:
            above = folder
            try:
                folder = os.open(name, _FOLDER, dir_fd=above)
            finally:
                os.close(above)
        return folder

    def mount(self, folder: int, path: str, *, writable: bool) -> None:
        """Let the sandbox see an open folder at a path."""

    def unmount(self, path: str) -> None:
        """Take a mount away."""


@dataclass(frozen=True)
class _Mounted:
    """A folder that the sandbox sees."""

    root: Root
    descriptor: int
    """Of what is mounted: by this it is found again wherever it is moved to."""

    def close(self) -> None:
        with suppress(OSError):  # its folder was removed, and the mount with it
            self.root.unmount(f"/proc/self/fd/{self.descriptor}")
        os.close(self.descriptor)


@dataclass(eq=False)
class _Caller:
    """A connection, with what was mounted for it."""

    socket: socket.socket
    received: bytes = b""
    shown: list[str] = field(default_factory=list)
    """Folders to read; other callers may read them at the same time."""
    opened: list[_Mounted] = field(default_factory=list)
    """Folders to write, its own alone."""
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
            write_whole(self._path, json.dumps([turn.group, turn.until]))

    def _read(self) -> _Turn | None:
        try:
            group, until = load_json(self._path.read_text())
            return _Turn(str(group), float(until))
        except (OSError, ValueError, TypeError):
            return None


class Opener:
    """The loop; one thread, since it has a mount namespace of its own."""

    def __init__(self, path: str, roots: Sequence[Root], *, renew_when: str = "") -> None:
        self._roots = roots
        self._renew_when = renew_when
        self._path = path
        self._shown: dict[str, _Mounted] = {}
        self._readers: Counter[str] = Counter()
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
            request = load_json(caller.received)
            if "renew" in request:
                self._renew(str(request["renew"]))
            self._turns.begin(str(request["group"]))
            caller.is_served = True
            for path in request["show"]:
                self._show(caller, path)
            for path in request["open"]:
                caller.opened.append(self._open(path))
            answer: dict[str, object] = {"opened": len(caller.opened)}
        except _BusyError as error:
            answer = {"busy": str(error)}
        except (OSError, ValueError, KeyError, TypeError) as error:
            answer = {"error": str(error)}
        with suppress(OSError):
            caller.socket.sendall(json.dumps(answer).encode() + b"\n")
        if "opened" not in answer:
            self._close(caller)

    def _show(self, caller: _Caller, path: str) -> None:
        """Let the server read a folder. One that is not there, or in no root, is left to the job to miss."""
        root = self._find_root(path)
        if root is None:
            return
        if path not in self._shown:
            try:
                self._shown[path] = self._mount(root, path, writable=False)
            except FileNotFoundError:
                return
        self._readers[path] += 1
        caller.shown.append(path)

    def _open(self, path: str) -> _Mounted:
        root = self._find_root(path)
        if root is None:
            message = f"{path} is not below {' or '.join(root.path for root in self._roots)}"
            raise ValueError(message)
        return self._mount(root, path, writable=True)

    def _find_root(self, path: str) -> Root | None:
        return next((root for root in self._roots if path.startswith(f"{root.path}/")), None)

    @staticmethod
    def _mount(root: Root, path: str, *, writable: bool) -> _Mounted:
        folder = root.open_folder(path)
        try:
            root.mount(folder, path, writable=writable)
        finally:
            os.close(folder)
        return _Mounted(root, os.open(path, _FOLDER))

    def _close(self, caller: _Caller) -> None:
        self._selector.unregister(caller.socket)
        caller.socket.close()
        for mounted in caller.opened:
            mounted.close()
        for path in caller.shown:
            self._readers[path] -= 1
            if not self._readers[path]:
                self._shown.pop(path).close()
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
