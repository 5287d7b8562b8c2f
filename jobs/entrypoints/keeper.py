"""What stands outside a sandbox while something runs inside: passes connections on, takes over the files at the end."""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import os
import select
import signal
import socket
import stat
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Semaphore, Thread
from typing import NoReturn, Protocol

from jobs.entrypoints import sealing
from jobs.entrypoints.disk_quota import DiskQuota
from jobs.entrypoints.folders import DEEPEST, FILE, FOLDER, opened
from jobs.entrypoints.opener import RENEWED

MOST_FILES = 65_536
"""More descriptors than the callers ever hold open."""
MOST_CONNECTIONS = 128
_CHUNK = 65_536
_LOOPBACK = "127.0.0.1"
OUTSIDE = "127.0.0.2"
"""Where connections of jobs come from on this machine: no proxy stands there, so nothing is believed that they say of others."""
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCGIFINDEX, _IFF_UP = 0x8913, 0x8914, 0x8916, 0x8933, 0x1
_IPV6_FREEBIND = 78
_LOOK_SECONDS = 0.1
_PR_SET_DUMPABLE = 4
_NAMED = "127.66.0.{}"
"""Where a named host is inside: any address of 127.0.0.0/8 is the loopback's own."""
MOST_HOSTS = 250


@dataclass(frozen=True)
class Handover:
    """What becomes of the files of a confined process at its end."""

    writable: Sequence[str] = ()
    """Folders in which the files that its user made are taken over."""
    sealed: Sequence[str] = ()
    """Folders that are its own and that others read afterwards: every file in them is taken over and checked."""
    seal: str = ""
    """Where to write what was found in the sealed folders; outside of its reach."""
    uid: int | None = None
    """Its user; None where it runs as this process's."""
    is_shared: bool = False
    """Whether a server that outlives it has written in the sealed folders, too."""
    most_bytes: int | None = None
    """So long may the files in the sealed folders be together; None for any length."""
    copies: bool = False
    """Whether the sealed files are to be copies, because somebody else may have opened those that are there."""


class ProcessLimit(Protocol):
    """What a confined process is looked at for from time to time, and ended when it has more than it may."""

    @property
    def code(self) -> int:
        """The keeper's exit code then."""

    @property
    def pause_s(self) -> float:
        """So long to wait before the next look."""

    def is_exceeded(self, child: int) -> bool:
        """Return whether it has more than it may."""


def keep(
    child: int,
    *,
    alive: int,
    handover: Handover,
    helpers: Sequence[int] = (),
    quota: DiskQuota | None = None,
    memory: ProcessLimit | None = None,
) -> NoReturn:
    """Wait for the confined process and end as it ended.

    Args:
        child: the confined process.
        alive: a pipe's end that says that this process lives; it stays open.
        handover: what to do with its files then.
        helpers: descriptors that can be read when a process that it cannot work without has died; it is killed then.
        quota: what it may write; when it has written more it is killed, and the exit code is that of the quota.
        memory: what it may hold with all that it has started; when that is more it is killed likewise.

    """
    hide_memory()
    _stand_by(*sorted([alive, *helpers]))
    exceeded = _wait_for(child, [limit for limit in (quota, memory) if limit is not None], helpers)
    status = os.waitpid(child, 0)[1]
    if any(map(_has_made_room, helpers)):
        os._exit(RENEWED)
    if quota is not None and exceeded is quota:
        quota.remove(uid=handover.uid, own=handover.sealed)
        os._exit(quota.code)
    if handover.uid is not None:
        for folder in handover.writable:
            take_over(folder, handover.uid)
    if handover.seal:
        sealing.seal(
            handover.sealed,
            record=handover.seal,
            is_shared=handover.is_shared,
            copies=handover.copies,
            most_bytes=handover.most_bytes,
        )
    if exceeded is not None:
        os._exit(exceeded.code)
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _has_made_room(helper: int) -> bool:
    """Return whether a helper, which need not be a process, has ended so that the server starts anew."""
    with suppress(OSError):
        ended = os.waitid(os.P_PIDFD, helper, os.WEXITED | os.WNOHANG)
        return ended is not None and ended.si_code == os.CLD_EXITED and ended.si_status == RENEWED
    return False


def hide_memory() -> None:
    """Keep what runs as the same user, and is not confined, out of this process; what it forks inherits that."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _wait_for(child: int, limits: Sequence[ProcessLimit], helpers: Sequence[int]) -> ProcessLimit | None:
    """Wait for the child's end; kill it, and with it its namespace, when it exceeds a limit, and return that.

    It is killed without a limit when one of its helpers has died.
    """
    process = os.pidfd_open(child)
    due = dict.fromkeys(limits, 0.0)
    while True:
        pause = max(0.0, min(due.values()) - time.monotonic()) if limits else None
        ended = select.select([process, *helpers], [], [], pause)[0]
        if process in ended:
            # It may have written all of it, or been killed for its memory, since the last look.
            return next((limit for limit in limits if limit.is_exceeded(child)), None)
        if ended:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            return None
        for limit in limits:
            if due[limit] > time.monotonic():
                continue
            if limit.is_exceeded(child):
                signal.pidfd_send_signal(process, signal.SIGKILL)
                return limit
            due[limit] = time.monotonic() + limit.pause_s


def _stand_by(*descriptors: int) -> None:
    """Let go of everything of the caller's, the log above all: its reader waits for the last writer."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    first = 3
    for descriptor in sorted(descriptors):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, MOST_FILES)
    silence = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in range(3):
        os.dup2(silence, descriptor)


# --- files ----------------------------------------------------------------------------------------


def take_over(folder: str, uid: int) -> None:
    """Take over what a user left in a folder: nobody else can change it afterwards. What lies deeper than DEEPEST stays."""
    with suppress(OSError), opened(folder, FOLDER) as descriptor:
        _take_over(descriptor, uid, depth=0)


def _take_over(folder: int, uid: int, *, depth: int) -> None:
    for name in os.listdir(folder):
        with suppress(OSError):  # it went away or is a link by now
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_folder = stat.S_ISDIR(about.st_mode)
            if not is_folder and not stat.S_ISREG(about.st_mode):
                continue
            with opened(name, FOLDER if is_folder else FILE, dir_fd=folder) as descriptor:
                if is_folder and depth < DEEPEST:
                    _take_over(descriptor, uid, depth=depth + 1)
                if about.st_uid == uid:
                    os.fchown(descriptor, os.geteuid(), os.getegid())
                    os.fchmod(descriptor, 0o755 if is_folder else 0o644)


# --- network --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Door:
    """One way out of a sandbox's network: what is asked for at `address` inside is passed on to `host` out here."""

    address: str
    port: int
    host: str


def list_doors(ports: Sequence[int], hosts: Sequence[str]) -> list[Door]:
    """Return the doors for ports of this machine's loopback and for hosts, each as `name:port`.

    A name has an address of its own inside, a numeric address is itself, so that a client needs no other configuration
    and checks certificates as ever.

    Raises:
        ValueError: a host without a port, or too many of them.

    """
    doors = [Door(_LOOPBACK, port, _LOOPBACK) for port in ports]
    named: dict[str, str] = {"localhost": _LOOPBACK}
    for entry in hosts:
        name, port = split_host(entry)
        if not _is_numeric(name) and name not in named:
            if len(named) > MOST_HOSTS:
                message = f"a sandbox reaches at most {MOST_HOSTS} hosts"
                raise ValueError(message)
            named[name] = _NAMED.format(len(named))
        doors.append(Door(named.get(name, name), port, name))
    return list({(door.address, door.port): door for door in doors}.values())


def split_host(entry: str) -> tuple[str, int]:
    """Return name and port of `name:port`, `1.2.3.4:port` or `[::1]:port`; names without case."""
    name, _, port = entry.rpartition(":")
    if not name or not port.isascii() or not port.isdigit() or any(character.isspace() for character in name):
        message = f"{entry!r} is not a host with its port"
        raise ValueError(message)
    return name.strip("[]").lower(), int(port)


def _is_numeric(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def write_hosts(doors: Iterable[Door]) -> str:
    """Return the hosts file of a sandbox: it is all that answers for names there."""
    # One address for each name, since many look at the first only: this machine's own name may be that of a door.
    names = {"localhost": _LOOPBACK, socket.gethostname().lower(): _LOOPBACK}
    names |= {door.host: door.address for door in doors if not _is_numeric(door.host)}
    return "".join(f"{address} {name}\n" for name, address in [*names.items(), ("localhost", "::1")])


def open_doors(channel: socket.socket | None, doors: Sequence[Door]) -> None:
    """Bring the loopback up inside a new network, listen at the doors, and send the sockets to the relay, if there are any."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
    foreign = dict.fromkeys(door.address for door in doors if not ipaddress.ip_address(door.address).is_loopback)
    for place, address in enumerate(foreign):
        _add_address(address, place)
    listeners = []
    for door in doors:
        listener = socket.socket(_family(door.address), socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:  # a new address can be used a moment after it was added
            listener.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
        listener.bind((door.address, door.port))
        listener.listen(MOST_CONNECTIONS)
        listeners.append(listener)
    if channel is None:
        return
    socket.send_fds(channel, [b"1"], [listener.fileno() for listener in listeners])
    for listener in listeners:
        listener.close()
    channel.close()


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _add_address(address: str, place: int) -> None:
    """Give the loopback another address, under an alias of its own."""
    family = _family(address)
    with socket.socket(family, socket.SOCK_DGRAM) as control:
        packed = socket.inet_pton(family, address)
        if family == socket.AF_INET6:
            index = struct.unpack("16si", fcntl.ioctl(control, _SIOCGIFINDEX, struct.pack("16si", b"lo", 0)))[1]
            fcntl.ioctl(control, _SIOCSIFADDR, struct.pack("16sIi", packed, 128, index))
        else:
            alias = f"lo:{place}".encode()
            fcntl.ioctl(control, _SIOCSIFADDR, struct.pack("16sHH4s8x", alias, family, 0, packed))


def relay(channel: socket.socket, doors: Sequence[Door], *, keeper: int | None = None) -> NoReturn:
    """Connect what arrives at the sandbox's doors to where they lead out here, until the sandbox is gone.

    Args:
        channel: where the sandbox sends its listening sockets.
        doors: where each leads.
        keeper: a pidfd of the keeper, with which this process ends; None if the kernel ends it.

    """
    _stand_by(*sorted([channel.fileno(), *([] if keeper is None else [keeper])]))
    with suppress(OSError):
        descriptors = socket.recv_fds(channel, 1, len(doors))[1]
        room = Semaphore(MOST_CONNECTIONS)
        for descriptor, door in zip(descriptors, doors, strict=False):
            listener = socket.socket(fileno=descriptor)
            Thread(target=_accept, args=(listener, door, room), daemon=True).start()
        if keeper is None:
            signal.pause()  # the kernel ends this process with the keeper
        else:
            select.select([keeper], [], [])
    os._exit(0)


def open_entrance(port: int) -> socket.socket:
    """Take a port of this machine's loopback; nobody is let in before somebody listens behind it."""
    entrance = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    entrance.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    entrance.bind((_LOOPBACK, port))
    return entrance


def let_in(entrances: Sequence[socket.socket], *, alive: int) -> NoReturn:
    """Pass on, inside a network of its own, what arrives at sockets of the network outside, to the same ports here."""
    _stand_by(*sorted([alive, *(entrance.fileno() for entrance in entrances)]))
    room = Semaphore(MOST_CONNECTIONS)
    for entrance in entrances:
        door = Door(_LOOPBACK, entrance.getsockname()[1], _LOOPBACK)
        Thread(target=_open_when_served, args=(entrance, door, room), daemon=True).start()
    while True:
        signal.pause()


def _open_when_served(entrance: socket.socket, door: Door, room: Semaphore) -> None:
    while True:
        try:
            socket.create_connection((door.address, door.port), timeout=1).close()
            break
        except OSError:
            time.sleep(_LOOK_SECONDS)
    entrance.listen(MOST_CONNECTIONS)
    _accept(entrance, door, room)


def _accept(listener: socket.socket, door: Door, room: Semaphore) -> None:
    while True:
        room.acquire()  # released when the connection ends
        try:
            inner, _ = listener.accept()
        except OSError:
            room.release()
            return
        Thread(target=_connect, args=(inner, door, room), daemon=True).start()


def _connect(inner: socket.socket, door: Door, room: Semaphore) -> None:
    try:
        with inner, suppress(OSError), _lead_out(door) as outer:
            outer.settimeout(None)
            back = Thread(target=_copy, args=(outer, inner), daemon=True)
            back.start()
            _copy(inner, outer)
            back.join()
    finally:
        room.release()


def _lead_out(door: Door) -> socket.socket:
    """Connect to where a door leads: to the first address of its name that answers."""
    refusal = OSError(f"{door.host} has no address")
    for _, _, _, _, (address, *_) in socket.getaddrinfo(door.host, door.port, type=socket.SOCK_STREAM):
        own = (OUTSIDE, 0) if str(address).startswith("127.") else None
        try:
            return socket.create_connection((str(address), door.port), timeout=10, source_address=own)
        except OSError as error:
            refusal = error
    raise refusal


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until the source ends, then say so to the target; the other direction may go on."""
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
