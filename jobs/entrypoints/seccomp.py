"""The system calls that code in a sandbox is refused: those that change the machine, look into others, or widen rights.

A list of what is refused and not of what is allowed: Python's libraries, the JVM and DuckDB use some two hundred calls,
and a new C library uses others. What is refused are the calls whose faults have most often led out of a namespace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _MASK = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data; an argument's low half comes first, both machines being little-endian."""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
"""The bit that marks the calls of the x32 ABI, a second door to most of the others."""

_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEW{TIME,NS,CGROUP,UTS,IPC,USER,PID,NET}; CLONE_NEWTIME is a bit of clone's exit signal and unused there."""
_CLONE_FILES, _CLONE_THREAD, _CLOSE_RANGE_UNSHARE = 0x400, 0x10000, 0x2
_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET, AF_INET6. Others, such as AF_VSOCK and AF_ALG, pass by the network namespace or are rarely tested."""
_AF_NETLINK, _NETLINK_ROUTE = 16, 0
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PERSONALITY_READ = 0xFFFFFFFF

REFUSED: dict[str, tuple[int | None, int | None]] = {
    # mounts and roots
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    # namespaces
    "unshare": (272, 97),
    "setns": (308, 268),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # files by handle, past every folder
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    # the kernel's keys, programs, events and rings
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # the machine itself
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "acct": (163, 89),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "sysfs": (139, None),
}
"""Numbers on x86_64 and on aarch64."""
_CHECKED = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "close_range": (436, 436),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "personality": (135, 92),
}

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_calls() -> None:
    """Refuse them from here on, for this thread and everything that it starts; it can not be undone.

    Raises:
        OSError: this kernel filters no calls, or `no_new_privs` is not set.

    """
    instructions = b"".join(compile_filter(os.uname().machine))
    program = _Program(len(instructions) // 8, instructions)
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "the filter of system calls")


def compile_filter(machine: str) -> Iterator[bytes]:
    """Yield the instructions for a machine; a call of another architecture ends the process."""
    column = list(_ARCHITECTURES).index(machine)
    checked = {name: numbers[column] for name, numbers in _CHECKED.items()}
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_EQUAL, _ARCHITECTURES[machine], on_true=1)
    yield _step(_RETURN, _KILL_PROCESS)
    yield _step(_LOAD, _NUMBER)
    if machine == "x86_64":
        yield from _refuse_when(_AT_LEAST, _X32)
    for numbers in REFUSED.values():
        number = numbers[column]
        if number is not None:
            yield from _refuse_when(_EQUAL, number)
    # Its flags lie in memory, which a filter cannot read; C libraries then use clone, whose flags it can.
    yield from _refuse_when(_EQUAL, checked["clone3"], number=errno.ENOSYS)
    own_files = [_step(_MASK, _CLONE_THREAD | _CLONE_FILES), *_refuse_when(_EQUAL, _CLONE_THREAD)]
    yield from _when(checked["clone"], [_argument(0), *_refuse_when(_ANY_BIT, _NEW_NAMESPACES), *own_files])
    # A task with descriptors of its own is no process, which is where they are looked for.
    yield from _when(checked["close_range"], [_argument(2), *_refuse_when(_ANY_BIT, _CLOSE_RANGE_UNSHARE)])
    yield from _when(checked["personality"], [_argument(0), *_refuse_unless([0, _PERSONALITY_READ])])
    terminal = [_argument(1), *_refuse_when(_EQUAL, _TIOCSTI), *_refuse_when(_EQUAL, _TIOCLINUX)]
    yield from _when(checked["ioctl"], terminal)
    for name in ("socket", "socketpair"):
        yield from _when(checked[name], _check_family())
    yield _step(_RETURN, _ALLOW)


def _check_family() -> list[bytes]:
    """Allow the families, and of netlink the list of addresses, for which C libraries ask."""
    routes = [_argument(2), *_refuse_unless([_NETLINK_ROUTE]), _step(_RETURN, _ALLOW)]
    return [
        _argument(0),
        _step(_EQUAL, _AF_NETLINK, on_false=len(routes)),
        *routes,
        *_refuse_unless(_FAMILIES),
    ]


def _when(number: int, steps: list[bytes]) -> Iterator[bytes]:
    """Yield steps for one call, after which it is allowed; others pass by with their number still loaded."""
    yield _step(_EQUAL, number, on_false=len(steps) + 1)
    yield from steps
    yield _step(_RETURN, _ALLOW)


def _refuse_when(test: int, value: int, *, number: int = errno.EPERM) -> Iterator[bytes]:
    yield _step(test, value, on_false=1)
    yield _step(_RETURN, _ERRNO | number)


def _refuse_unless(values: Iterable[int]) -> Iterator[bytes]:
    values = list(values)
    for place, value in enumerate(values):
        yield _step(_EQUAL, value, on_true=len(values) - place)
    yield _step(_RETURN, _ERRNO | errno.EPERM)


def _argument(place: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS + 8 * place)


def _step(code: int, value: int, *, on_true: int = 0, on_false: int = 0) -> bytes:
    """Return struct sock_filter."""
    return struct.pack("=HBBI", code, on_true, on_false, value)
