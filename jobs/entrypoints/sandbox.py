"""Runs code that is not trusted: namespaces, an own user, limits. Linux only, standard library only.

Three modes, found by trying them once (`detect_mode`) and never guessed:

`full`  started as root: new mount, process and IPC namespaces, a file system that holds nothing but the system's
        programs, Python and the named folders, and a user id of the job's own.
`user`  started as an ordinary user: the same inside a user namespace; the user id stays, but every other
        process and file is out of sight.
`off`   neither works here (a container without the rights, another kernel): limits and process group only. User code
        can then read what this program can read, so whoever runs it must know.

What the confined process sees: /usr, /bin, /lib (read-only), a short list of /etc, /proc with its own processes only,
a few devices, private and bounded /tmp and /dev/shm, Python with its packages, this `jobs` package, and the `readonly`
and `writable` folders at their usual paths. Everything else, the program's home included, does not exist. In each mode
the kernel refuses it what could change the machine or look into other processes (seccomp.py). With `ports`
or `hosts` it has a network of its own, in which those ports lead to the same ports of this machine's loopback and those
hosts, by their names, to the hosts that this machine knows by them; nothing else exists there, and no DNS. A port that it
`serves` there is reached at this machine's loopback, once something listens.
At its end the files that it made in the writable folders change hands (mode full; see keeper.py), and those in the
`sealed` ones, which it alone may write and others read afterwards, are checked and recorded too (see sealing.py).

Process tree: caller -> keeper -> confined process (number 1 of its process namespace), and a relay beside it where
there are ports. The keeper has the caller's
rights, waits and repeats the exit status; the kernel kills each when the one above it dies, and with number 1 all
processes the code started, whatever sessions they made for themselves. SIGTERM to the process group reaches the
confined process only; SIGKILL ends all of it. The fork server's relays are children of a smaller process (relays.py) and
end by themselves when they see that the keeper is gone.

As a program: `python -m jobs.entrypoints.sandbox [--readonly P]... [--writable P]... [--fresh P]... [--openable P]... [--opener SOCKET] [--renew-when FILE]
[--uid N] [--gid N]
[--memory BYTES] [--total-memory BYTES] [--nproc N] [--nofile N] [--tmp-bytes N] [--port N]... [--host NAME:N]... [--serve N]... [--env NAME[=VALUE]]... [--input FILE] [--mode auto|full|user|off] [--cwd P]
-- program argument...` executes a program inside; environment variables are only those given by `--env`,
by name alone with the value that this program has. A secret comes by `--input`: what that file holds is the program's
standard input, as a file in memory that its user may open again at /proc/self/fd/0. SIGTERM is passed on. What is lent
by an opener and holds more than its total memory ends as if it made room: it is to be started anew. `--print-mode` prints the mode of this machine and ends.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import resource
import signal
import socket
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from jobs.entrypoints.cgroups import Group, Groups, find_groups
from jobs.entrypoints.disk_quota import DiskQuota
from jobs.entrypoints.folders import remove_folder
from jobs.entrypoints.keeper import (
    Door,
    Handover,
    ProcessLimit,
    hide_memory,
    keep,
    let_in,
    list_doors,
    open_doors,
    open_entrance,
    relay,
    write_hosts,
)
from jobs.entrypoints.memory_limit import EXCEEDED, MemoryLimit
from jobs.entrypoints.opener import RENEWED, Opener, Root, note_renewal
from jobs.entrypoints.relays import RelayStarter
from jobs.entrypoints.seccomp import refuse_calls

Mode = Literal["full", "user", "off"]

SETUP_FAILED = 125
FIRST_JOB_UID = 200_000
JOB_UIDS = 100_000
_GIB = 1024**3
_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = [
    "alternatives",
    "ca-certificates",
    "host.conf",
    "hosts",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "pki",
    "protocols",
    "resolv.conf",
    "services",
    "ssl",
    "timezone",
]
_NAMES = ("hosts", "resolv.conf")
"""What says where hosts are; in a network of its own a sandbox has its own."""
_BYTES_OF_A_NAME = 16 * 1024
"""A private folder has one file or folder for so many bytes: an empty one takes memory of the kernel, too."""
_EMPTY = "mode=0755,size=64k"
"""Options of a folder in memory that holds mount points alone."""
_DEVICES = ("null", "zero", "full", "random", "urandom")

_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
_CLONE_NEWNET = 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND, _MS_REC = 1, 2, 4, 8, 32, 4096, 16384
_MS_PRIVATE, _MS_SLAVE, _MS_SHARED, _MS_RELATIME, _MNT_DETACH = 1 << 18, 1 << 19, 1 << 20, 1 << 21, 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Confinement:
    """What the code may see and write. `uid` None takes one of the reserved range (mode full)."""

    readonly: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    layered: tuple[str, ...] = ()
    """Folders that may be read, each through a layer of its own: who watches one sees what this process opens alone."""
    sealed: tuple[str, ...] = ()
    """Folders that may be written, and whose files are taken over, checked and recorded at the end; see sealing.py."""
    seal: str = ""
    """Where that record is written; it must lie where the process sees nothing."""
    is_shared: bool = False
    """Whether a Spark server, which outlives the process, writes in those folders, too."""
    openable: tuple[str, ...] = ()
    """Folders that appear empty until folders in them are shown or opened for writing; see opener.py."""
    opener: str = ""
    """The socket at which the process is lent and they are opened; it must lie where the process sees nothing."""
    renew_when: str = ""
    """A file by whose appearance what is confined is ended and starts anew; only with an opener."""
    uid: int | None = None
    gid: int | None = None
    tmp_bytes: int = _GIB
    ports: tuple[int, ...] | None = None
    """TCP ports of this machine's loopback that can be reached. None, and no hosts: all of the network can."""
    hosts: tuple[str, ...] = ()
    """Other hosts that can be reached, each as `name:port`; the name is resolved out here, for each connection."""

    serves: tuple[int, ...] = ()
    """Ports of its own network on which it can be reached at this machine's loopback."""

    @property
    def doors(self) -> list[Door] | None:
        """The ways out of a network of its own; None where it has this machine's."""
        return None if self.ports is None and not self.hosts else list_doors(self.ports or (), self.hosts)


@dataclass(frozen=True)
class Limits:
    """Resource limits of the confined process and everything it starts; None leaves one as it is."""

    memory_bytes: int | None = 4 * _GIB
    cpu_s: int | None = None
    nproc: int | None = 512
    nofile: int | None = 1024
    fsize: int | None = 4 * _GIB
    disk_bytes: int | None = None
    """What it may add to its writable folders, all files together; the keeper watches it."""
    total_memory_bytes: int | None = None
    """What it may hold in memory with all that it starts: the kernel sees to it where it has groups for that, else the
    keeper. `memory_bytes` is address space of each."""


def detect_mode() -> Mode:
    """Try the strongest confinement in a child and answer what works here."""
    if not sys.platform.startswith("linux") or os.uname().machine not in _SYS_PIVOT_ROOT:
        return "off"
    mode: Mode = "full" if os.geteuid() == 0 else "user"
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        confine(_probe, Confinement(ports=()), Limits(memory_bytes=None), mode=mode, parent=parent)
    return mode if os.waitpid(child, 0)[1] == 0 else "off"


def _probe() -> int:
    return 0 if os.listdir("/usr") and not os.path.exists("/root/.ssh") else 1


def confine(
    body: Callable[[], int],
    confinement: Confinement,
    limits: Limits,
    *,
    mode: Mode,
    parent: int,
    seals: bool = True,
    groups: Groups | None = None,
    relays: RelayStarter | None = None,
) -> NoReturn:
    """Turn this (freshly forked) process into the keeper and run `body` confined below it. Never returns.

    The caller has already made this process leader of a session and pointed its outputs where they belong; `parent` is
    the caller's number, with whose death all of this ends. With `seals` the files made in the writable folders change
    hands at the end. The caller removes what was made in `groups`, since this process may be killed.
    """
    try:
        die_with(parent)
        # its own files in /proc are to be its own, to enter namespaces with
        _call("prctl", _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))
        doors = None if mode == "off" else confinement.doors
        helpers: list[int] = []
        channel = _start_relay(doors, helpers, relays) if doors else None
        if relays is not None:
            relays.close()
        entrances = [] if doors is None else [open_entrance(port) for port in confinement.serves]
        group = _create_group(groups, limits)
        if mode == "user":
            _enter_user_namespace()
        home = _start_opener(confinement, helpers, mode=mode) if confinement.opener else None
        if mode != "off":
            _call("unshare", _libc.unshare(_CLONE_NEWPID | _CLONE_NEWIPC))
        alive_read, alive_write = os.pipe()
        inside_read, inside_write = os.pipe()
        begin_read, begin_write = os.pipe()
        uid, gid = _choose_user(confinement, mode)
        quota = (
            None
            if limits.disk_bytes is None
            else DiskQuota((*confinement.writable, *confinement.sealed), limits.disk_bytes)
        )
        child = os.fork()
        if child:
            handover = _hand_over(confinement, uid if mode == "full" and seals else None, limits, mode=mode)
            memory = _limit_memory(child, group, limits)
            os.write(begin_write, b"1")
            helpers += [inside_read] if entrances else []
            os.close(inside_write)
            keep(child, alive=alive_read, helpers=helpers, handover=handover, quota=quota, memory=memory)
        for descriptor in (alive_read, inside_read, begin_write, *helpers):
            os.close(descriptor)
        os.read(begin_read, 1)  # what it starts from here on is in its group
        os.close(begin_read)
        _become_confined(confinement, limits, mode=mode, uid=uid, gid=gid, channel=channel, home=home)
        _die_with_keeper(alive_write)
        if entrances:
            _let_in(entrances, alive=inside_write)
        os.close(inside_write)
    except BaseException as error:
        _refuse(error)
    os._exit(_run(body))


def _create_group(groups: Groups | None, limits: Limits) -> Group | None:
    """Make the kernel's group for what will be confined; None where there is none, and the keeper watches instead."""
    if groups is None or limits.total_memory_bytes is None:
        return None
    with suppress(OSError):
        return groups.create_group(limits.total_memory_bytes)
    return None


def _limit_memory(child: int, group: Group | None, limits: Limits) -> ProcessLimit | None:
    """Limit what a process and all that it starts hold together; it has not begun yet."""
    if limits.total_memory_bytes is None:
        return None
    if group is not None:
        with suppress(OSError):
            group.take_in(child)
            return group
    return MemoryLimit(limits.total_memory_bytes)


def _let_in(entrances: list[socket.socket], *, alive: int) -> None:
    """Start what takes connections in: a process inside, with no more rights than what it leads to.

    It holds `alive` open, whose other end tells the keeper when it dies.
    """
    inside = os.getpid()
    if os.fork() == 0:
        die_with(inside)
        let_in(entrances, alive=alive)
    for entrance in entrances:
        entrance.close()


def _hand_over(confinement: Confinement, uid: int | None, limits: Limits, *, mode: Mode) -> Handover:
    # a server of the same user can undo whatever is done to files that it has opened: others take their place
    is_shared = confinement.is_shared
    copies = is_shared and mode == "user"
    return Handover(
        confinement.writable,
        confinement.sealed,
        confinement.seal,
        uid=uid,
        is_shared=is_shared,
        most_bytes=limits.disk_bytes,
        copies=copies,
    )


def _run(body: Callable[[], int]) -> int:
    try:
        code = body()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # the reader of the log is gone or the code closed its output
                stream.flush()
    return code & 0xFF


def _start_relay(doors: list[Door], helpers: list[int], relays: RelayStarter | None) -> socket.socket:
    """Start what passes connections on, one more helper; return where it expects the sandbox's listening sockets."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if relays is not None:
        with suppress(OSError):
            helpers.append(relays.start(far, doors))
            far.close()
            return near
    keeper = os.getpid()
    # before any namespace: a process that has left its own for its children cannot have threads
    child = os.fork()
    if child == 0:
        near.close()
        die_with(keeper)
        relay(far, doors)
    helpers.append(os.pidfd_open(child))
    far.close()
    return near


def _start_opener(confinement: Confinement, helpers: list[int], *, mode: Mode) -> int | None:
    """Start what opens folders for writing, one more helper; return the mount namespace that the sandbox's follows."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        near.close()
        try:
            die_with(keeper)
            if mode != "off":
                _leave_mounts()
            make_root = Root if mode == "off" else _HiddenRoot  # without a sandbox all of it can be seen and written
            roots = [make_root(path) for path in confinement.openable]
            opener = Opener(confinement.opener, roots, renew_when=confinement.renew_when)
            namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            socket.send_fds(far, [b"1"], [namespace])
            far.close()
        except BaseException as error:
            _refuse(error)
        opener.serve()
    helpers.append(os.pidfd_open(child))
    far.close()
    _, descriptors, _, _ = socket.recv_fds(near, 1, 1)
    near.close()
    if not descriptors:
        message = "what opens folders in the sandbox did not start"
        raise RuntimeError(message)
    if mode == "off":
        os.close(descriptors[0])
        return None
    return descriptors[0]


def _leave_mounts() -> None:
    """Enter a mount namespace in which nothing is seen elsewhere until a mount is shared."""
    _call("unshare", _libc.unshare(_CLONE_NEWNS))
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    os.chdir("/")


class _HiddenRoot(Root):
    """A root covered by an empty folder in memory, on which single folders of it are mounted for the sandbox to see."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, _EMPTY)
        covered = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.mkdir("folder", dir_fd=covered)
        self._aside = f"/proc/self/fd/{covered}/folder"
        _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, _EMPTY)
        _mount("none", path, None, _MS_SHARED)

    def mount(self, folder: int, path: str, *, writable: bool) -> None:
        """Mount an open folder at a path. Its flags are set aside, since the sandbox sees a mount there at once."""
        _mount(f"/proc/self/fd/{folder}", self._aside, None, _MS_BIND)
        try:
            flags = _MS_REMOUNT | _MS_BIND | _locked_flags(self._aside) | _MS_NOSUID | _MS_NODEV
            _mount(None, self._aside, None, flags if writable else flags | _MS_RDONLY)
            _make_parents(f"{path}/")
            _mount(self._aside, path, None, _MS_BIND)
        finally:
            self.unmount(self._aside)

    def unmount(self, path: str) -> None:
        """Take a mount away."""
        _call(f"umount {path}", _libc.umount2(os.fsencode(path), _MNT_DETACH))


def _choose_user(confinement: Confinement, mode: Mode) -> tuple[int, int]:
    if mode != "full":
        return os.getuid(), os.getgid()
    uid = confinement.uid if confinement.uid is not None else FIRST_JOB_UID + os.getpid() % JOB_UIDS
    return uid, confinement.gid if confinement.gid is not None else uid


def _become_confined(
    confinement: Confinement,
    limits: Limits,
    *,
    mode: Mode,
    uid: int,
    gid: int,
    channel: socket.socket | None,
    home: int | None,
) -> None:
    os.umask(0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    doors = None if mode == "off" else confinement.doors
    if doors is not None:
        _call("unshare", _libc.unshare(_CLONE_NEWNET))
        open_doors(channel, doors)
    if mode != "off":
        _build_root(confinement, uid, gid, home)
    _apply_limits(limits)
    if mode == "full":
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    elif mode == "user":
        _drop_capabilities()
    _call("prctl", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    # the change of user cleared it, and without it Python could not read its own /proc/self
    _call("prctl", _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))
    if os.uname().machine in _SYS_PIVOT_ROOT:  # elsewhere the numbers of the calls are not known, and the mode is off
        refuse_calls()


def die_with(parent: int) -> None:
    """Be killed when the parent dies, or end now if it is gone already."""
    _call("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != parent:
        os._exit(SETUP_FAILED)


def _die_with_keeper(alive: int) -> None:
    """Be killed when the keeper dies; a keeper that is gone already no longer holds the pipe."""
    _call("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    os.write(alive, b"1")  # SIGPIPE ends this process
    os.close(alive)


def _enter_user_namespace() -> None:
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", _libc.unshare(_CLONE_NEWUSER))
    Path("/proc/self/setgroups").write_bytes(b"deny")
    Path("/proc/self/uid_map").write_bytes(f"{uid} {uid} 1".encode())
    Path("/proc/self/gid_map").write_bytes(f"{gid} {gid} 1".encode())


def _apply_limits(limits: Limits) -> None:
    values = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_NPROC: limits.nproc,
        resource.RLIMIT_NOFILE: limits.nofile,
        resource.RLIMIT_FSIZE: limits.fsize,
        resource.RLIMIT_CORE: 0,
    }
    for name, value in values.items():
        if value is not None:
            hard = resource.getrlimit(name)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(name, (bound, bound))


def _drop_capabilities() -> None:
    """Give up what the user namespace granted: its owner could else mount and trace inside it."""
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    number = _SYS_CAPSET[os.uname().machine]
    _call("capset", _libc.syscall(number, ctypes.byref(header), ctypes.byref(nothing)))


# --- the file system ------------------------------------------------------------------------------


def _build_root(confinement: Confinement, uid: int, gid: int, home: int | None) -> None:
    """Build the new root in memory, bind what may be seen, and leave the old one for good."""
    if home is not None:
        _call("setns", _libc.setns(home, _CLONE_NEWNS))
        os.close(home)
    # not before the fork: leaving the old root moves everybody in the namespace, and the keeper must stay outside
    _call("unshare", _libc.unshare(_CLONE_NEWNS))
    # what is mounted out there does not come in here, but for what the opener mounts
    _mount("none", "/", None, _MS_REC | (_MS_PRIVATE if home is None else _MS_SLAVE))
    _mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=16m")  # noqa: S108 - a place to stand
    for folder in ("/tmp/new", "/tmp/old"):  # noqa: S108
        os.mkdir(folder, 0o755)
        os.chmod(folder, 0o755)
    _pivot("/tmp", "/tmp/old")  # noqa: S108
    _mount("/new", "/new", None, _MS_BIND | _MS_REC)
    _make_devices()
    _make_proc()
    _private_folder("/tmp", confinement.tmp_bytes)  # noqa: S108 - before the folders, which may lie below it
    for path, writable in _visible(confinement):
        if path not in confinement.layered or not _layer(path):
            _bind(path, writable=writable)
    _make_users(uid, gid)
    if confinement.doors is not None:
        _write_file("/new/etc/hosts", write_hosts(confinement.doors))
    _pivot("/new", "/new/old_root")
    _call("umount2", _libc.umount2(b"/old_root", _MNT_DETACH))
    os.rmdir("/old_root")
    _mount(None, "/", None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    os.chdir("/")


def _visible(confinement: Confinement) -> list[tuple[str, bool]]:
    """List every path to bind, parents before children, with whether it may be written."""
    here = Path(__file__).resolve().parents[1]
    paths = {path: False for path in _SYSTEM_FOLDERS if os.path.lexists(f"/old{path}")}
    shared = [name for name in _ETC if confinement.doors is None or name not in _NAMES]
    paths |= {f"/etc/{name}": False for name in shared if os.path.exists(f"/old/etc/{name}")}
    paths |= {str(path): False for path in _python_folders() | {here}}
    shown = (*confinement.readonly, *confinement.layered, *confinement.openable)
    paths |= {os.path.abspath(path): False for path in shown}
    paths |= {os.path.abspath(path): True for path in (*confinement.writable, *confinement.sealed)}
    return sorted(paths.items(), key=lambda binding: binding[0].count("/"))


def _python_folders() -> set[Path]:
    folders = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    return {folder for folder in folders if not str(folder).startswith("/usr")}


def _bind(path: str, *, writable: bool) -> None:
    source, target = f"/old{path}", f"/new{path}"
    if os.path.islink(source):
        _make_parents(target)
        os.symlink(os.readlink(source), target)
        return
    if not os.path.exists(source):
        raise FileNotFoundError(errno.ENOENT, "the sandbox should show it, but it does not exist", path)
    if not os.path.exists(target):
        _make_parents(target)
        if stat.S_ISDIR(os.stat(source).st_mode):
            os.mkdir(target, 0o755)
            os.chmod(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    _mount(source, target, None, _MS_BIND | _MS_REC)
    flags = _MS_REMOUNT | _MS_BIND | _locked_flags(target) | _MS_NOSUID | _MS_NODEV
    _mount(None, target, None, flags if writable else flags | _MS_RDONLY)


def _layer(path: str) -> bool:
    """Show a folder through an overlay; return whether that works here."""
    source, target, nothing = f"/old{path}", f"/new{path}", "/new/empty"
    if any(character in path for character in ":,\\") or not os.path.isdir(source):
        return False
    _make_parents(target)
    for folder in (target, nothing):
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)
    flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV
    try:
        _mount("overlay", target, "overlay", flags, f"lowerdir={nothing}:{source}")
    except OSError:
        return False
    return True


def _locked_flags(target: str) -> int:
    """Return flags of the original mount, which a remount in a user namespace must repeat."""
    present = os.statvfs(target).f_flag
    flags = present & (_MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | 1024 | 2048)
    return flags | (_MS_RELATIME if present & 4096 else 0)


def _make_parents(target: str) -> None:
    missing = []
    parent = os.path.dirname(target)
    while not os.path.isdir(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    for folder in reversed(missing):
        os.mkdir(folder, 0o755)
        os.chmod(folder, 0o755)


def _make_devices() -> None:
    os.mkdir("/new/dev", 0o755)
    os.chmod("/new/dev", 0o755)
    for name in _DEVICES:
        target = f"/new/dev/{name}"
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        _mount(f"/old/dev/{name}", target, None, _MS_BIND)
    for name, link in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(link, f"/new/dev/{name}")
    _private_folder("/dev/shm", 256 * 1024**2)  # noqa: S108


def _make_proc() -> None:
    os.mkdir("/new/proc", 0o755)
    try:
        _mount("proc", "/new/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    except PermissionError:  # a container that masks parts of /proc allows no second one: better none than the host's
        _mount("tmpfs", "/new/proc", "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "mode=0555,size=4k")


def _make_users(uid: int, gid: int) -> None:
    """Name the job's user, whom the machine does not know: Java wants a name for who it runs as."""
    _make_parents("/new/etc/passwd")
    nowhere = "/usr/sbin/nologin"
    for name, lines in (
        ("passwd", (f"root:x:0:0::/root:{nowhere}", f"job:x:{uid}:{gid}::/tmp:{nowhere}")),
        ("group", ("root:x:0:", f"job:x:{gid}:")),
    ):
        _write_file(f"/new/etc/{name}", "".join(f"{line}\n" for line in lines))


def _write_file(path: str, text: str) -> None:
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644)
    os.write(file, text.encode())
    os.fchmod(file, 0o644)
    os.close(file)


def _private_folder(path: str, size: int) -> None:
    target = f"/new{path}"
    os.mkdir(target, 0o755)
    names = size // _BYTES_OF_A_NAME
    _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=1777,size={size},nr_inodes={names}")


def _pivot(new_root: str, put_old: str) -> None:
    if not os.path.isdir(put_old):
        os.mkdir(put_old, 0o755)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    _call("pivot_root", _libc.syscall(number, os.fsencode(new_root), os.fsencode(put_old)))
    os.chdir("/")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    outcome = _libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3])
    _call(f"mount {source or ''} {target}", outcome)


def _call(what: str, outcome: int) -> None:
    if outcome < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _refuse(error: BaseException) -> NoReturn:
    what = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.strerror else repr(error)
    os.write(2, f"sandbox: {what}\n".encode())
    os._exit(SETUP_FAILED)


# --- as a program ---------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Execute a program inside; see the head of this file."""
    options = _parse(arguments)
    mode: Mode = detect_mode() if options.mode == "auto" else options.mode
    if options.print_mode:
        sys.stdout.write(f"{mode}\n")
        return 0
    program: list[str] = options.program[1:] if options.program[:1] == ["--"] else options.program
    environment = dict(_read_variable(entry) for entry in options.env)
    confinement = Confinement(
        readonly=tuple(options.readonly),
        writable=(*options.writable, *options.fresh),
        openable=tuple(options.openable),
        opener=options.opener,
        renew_when=options.renew_when,
        uid=options.uid,
        gid=options.gid,
        tmp_bytes=options.tmp_bytes,
        ports=None if options.ports is None else tuple(options.ports),
        hosts=tuple(options.hosts),
        serves=tuple(options.serves),
    )
    limits = Limits(
        memory_bytes=options.memory,
        nproc=options.nproc,
        nofile=options.nofile,
        fsize=None,
        total_memory_bytes=options.total_memory,
    )

    for path in options.fresh:
        _make_fresh(path)
    if options.input:
        _put_on_input(options.input)

    def execute() -> int:
        os.chdir(options.cwd)
        os.execvpe(program[0], program, environment)  # noqa: S606 - the point of this program

    # without a sandbox what is confined sees the groups, and may leave its own
    groups = None if options.total_memory is None or mode == "off" else find_groups()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        confine(execute, confinement, limits, mode=mode, parent=parent, seals=False, groups=groups)
    code = _stand_in_for(child)
    if groups is not None:
        groups.clear()
    if code == EXCEEDED and options.opener:
        note_renewal(options.opener, f"it held more than the {options.total_memory:,} bytes of memory that it may")
        return RENEWED
    return code


def _make_fresh(path: str) -> None:
    """Make a folder that anybody may write, with nothing in it of those who wrote it before."""
    remove_folder(path)
    os.mkdir(path)
    os.chmod(path, 0o777)


def _put_on_input(path: str) -> None:
    """Make what a file holds the standard input, without its name and its owner."""
    copy = os.memfd_create("input", os.MFD_CLOEXEC)
    os.write(copy, Path(path).read_bytes())
    os.lseek(copy, 0, os.SEEK_SET)
    os.dup2(copy, 0)
    os.close(copy)


def _read_variable(entry: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    return name, value if equals else os.environ[name]


def _stand_in_for(child: int) -> int:
    """Pass SIGTERM and SIGINT on to what runs inside; end as it ends."""
    hide_memory()
    _call("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))

    def pass_on(number: int, _frame: object) -> None:
        for inner in _children_of(child) or [child]:
            os.kill(inner, number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _children_of(process: int) -> list[int]:
    try:
        return [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m jobs.entrypoints.sandbox")
    parser.add_argument("--print-mode", action="store_true")
    parser.add_argument("--mode", choices=("auto", "full", "user", "off"), default="auto")
    parser.add_argument("--readonly", action="append", default=[])
    parser.add_argument("--writable", action="append", default=[])
    parser.add_argument("--fresh", action="append", default=[])
    parser.add_argument("--openable", action="append", default=[])
    parser.add_argument("--opener", default="")
    parser.add_argument("--renew-when", default="")
    parser.add_argument("--input", default="")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--port", type=int, action="append", dest="ports")
    parser.add_argument("--host", action="append", dest="hosts", default=[])
    parser.add_argument("--serve", type=int, action="append", dest="serves", default=[])
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    parser.add_argument("--memory", type=int)
    parser.add_argument("--total-memory", type=int)
    parser.add_argument("--nproc", type=int)
    parser.add_argument("--nofile", type=int, default=65536)
    parser.add_argument("--tmp-bytes", type=int, default=4 * _GIB)
    parser.add_argument("--cwd", default="/")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
