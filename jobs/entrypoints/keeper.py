"""What stands outside a sandbox while something runs inside: passes connections on, takes over the files at the end."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Semaphore, Thread
from typing import NoReturn

MOST_FILES = 65_536
"""More descriptors than the callers ever hold open."""
MOST_CONNECTIONS = 128
_CHUNK = 65_536
_LOOPBACK = "127.0.0.1"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1


def keep(child: int, *, alive: int, sealed: Iterable[str], uid: int | None) -> NoReturn:
    """Wait for the confined process and end as it ended.

    Args:
        child: the confined process.
        alive: a pipe's end that says that this process lives; it stays open.
        sealed: folders in which the files that the user made are taken over at the end.
        uid: that user; None takes nothing over.

    """
    _stand_by(alive)
    status = os.waitpid(child, 0)[1]
    if uid is not None:
        for folder in sealed:
            seal(folder, uid)
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _stand_by(kept: int) -> None:
    """Let go of everything of the caller's, the log above all: its reader waits for the last writer."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.closerange(3, kept)
    os.closerange(kept + 1, MOST_FILES)
    silence = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in range(3):
        os.dup2(silence, descriptor)


# --- files ----------------------------------------------------------------------------------------


def seal(folder: str, uid: int) -> None:
    """Take over what a user left in a folder: files nobody else can change, folders in which others may still write.

    Jobs of other users write into the same table on other branches; they read these files and cannot touch them.
    """
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                seal(entry.path, uid)
            if found.st_uid == uid and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                _take_over(entry.path, is_folder=stat.S_ISDIR(found.st_mode))


def _take_over(path: str, *, is_folder: bool) -> None:
    with suppress(OSError):  # it went away or is a link by now
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.fchown(descriptor, os.geteuid(), os.getegid())
            os.fchmod(descriptor, 0o1777 if is_folder else 0o644)
        finally:
            os.close(descriptor)


# --- network --------------------------------------------------------------------------------------


def open_ports(channel: socket.socket, ports: Sequence[int]) -> None:
    """Inside a new network: bring its loopback up, listen on the ports, and send the sockets to the keeper."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
    listeners = []
    for port in ports:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_LOOPBACK, port))
        listener.listen(MOST_CONNECTIONS)
        listeners.append(listener)
    socket.send_fds(channel, [b"1"], [listener.fileno() for listener in listeners])
    for listener in listeners:
        listener.close()
    channel.close()


def relay(channel: socket.socket, ports: Sequence[int]) -> NoReturn:
    """Connect what arrives at the sandbox's ports to the same ports out here, until the sandbox is gone."""
    _stand_by(channel.fileno())
    with suppress(OSError):
        descriptors = socket.recv_fds(channel, 1, len(ports))[1]
        room = Semaphore(MOST_CONNECTIONS)
        for descriptor, port in zip(descriptors, ports, strict=False):
            listener = socket.socket(fileno=descriptor)
            Thread(target=_accept, args=(listener, port, room), daemon=True).start()
        signal.pause()  # the kernel ends this process with the keeper
    os._exit(0)


def _accept(listener: socket.socket, port: int, room: Semaphore) -> None:
    while True:
        room.acquire()  # released when the connection ends
        try:
            inner, _ = listener.accept()
        except OSError:
            room.release()
            return
        Thread(target=_connect, args=(inner, port, room), daemon=True).start()


def _connect(inner: socket.socket, port: int, room: Semaphore) -> None:
    try:
        with inner, suppress(OSError), socket.create_connection((_LOOPBACK, port), timeout=10) as outer:
            outer.settimeout(None)
            back = Thread(target=_copy, args=(outer, inner), daemon=True)
            back.start()
            _copy(inner, outer)
            back.join()
    finally:
        room.release()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until the source ends, then say so to the target; the other direction may go on."""
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
