"""Opening files in folders where others may have put anything: beneath the folder, through no link, never waiting.

A link may lead to somebody else's files, a FIFO keeps its reader waiting for ever, a device does whatever it does. What
is opened here is a regular file below the folder that was named, or an error. Standard library only: the web, which opens
what jobs have left, and the jobs share it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from pathlib import Path, PurePath

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_PASS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SYS_OPENAT2 = 437  # on every architecture
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_ELSEWISE = {errno.ENOSYS, errno.EPERM, errno.EAGAIN, errno.E2BIG}
"""How a kernel without openat2, a filter that forbids it, or a rename at the same moment shows."""

_libc = ctypes.CDLL(None, use_errno=True)


class NotRegular(OSError):
    """There is something, but a link, a folder, a FIFO or a device, or it lies outside of the folder."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(folder: str | Path, name: str | PurePath) -> int:
    """Open a regular file below a folder for reading; return its descriptor, which the caller closes.

    Args:
        folder: where it must be; links that lead to the folder itself are followed.
        name: relative to the folder.

    Raises:
        NotRegular: it is something else, or a link leads to it.
        OSError: it is not there or cannot be read.

    """
    path = PurePath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise _not_regular(path)
    root = os.open(folder, _PASS)
    try:
        return _regular(_open(root, path), path)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EXDEV, errno.ENXIO}:  # a link, a way out, a socket
            raise _not_regular(path) from error
        raise
    finally:
        os.close(root)


def read_beneath(folder: str | Path, name: str | PurePath, *, at_most: int | None = None) -> bytes:
    """Return the content of a regular file below a folder, or its first bytes.

    Raises:
        NotRegular: it is something else, or a link leads to it.
        OSError: it is not there or cannot be read.

    """
    with os.fdopen(open_beneath(folder, name), "rb") as file:
        return file.read(-1 if at_most is None else at_most)


def read_regular(path: str | Path, *, at_most: int | None = None) -> bytes:
    """Return the content of a file whose folder is trusted, and nothing else in it."""
    place = PurePath(path)
    return read_beneath(Path(place.parent), place.name, at_most=at_most)


def _open(root: int, path: PurePath) -> int:
    if sys.platform == "linux":
        how = _How(_READ, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
        number = ctypes.c_long(_SYS_OPENAT2)
        descriptor = int(_libc.syscall(number, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)))
        if descriptor >= 0:
            return descriptor
        problem = ctypes.get_errno()
        if problem not in _ELSEWISE:
            raise OSError(problem, os.strerror(problem), str(path))
    return _walk(root, path)


def _walk(root: int, path: PurePath) -> int:
    """Open it folder by folder, which no link can mislead either."""
    here = os.dup(root)
    try:
        for part in path.parts[:-1]:
            below = _pass(here, part, path)
            os.close(here)
            here = below
        return os.open(path.name, _READ, dir_fd=here)
    finally:
        os.close(here)


def _pass(here: int, part: str, path: PurePath) -> int:
    try:
        return os.open(part, _PASS | os.O_NOFOLLOW, dir_fd=here)
    except NotADirectoryError as error:
        if stat.S_ISLNK(os.stat(part, dir_fd=here, follow_symlinks=False).st_mode):
            raise _not_regular(path) from error
        raise


def _regular(descriptor: int, path: PurePath) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def _not_regular(path: PurePath) -> NotRegular:
    return NotRegular(errno.EINVAL, "not a regular file in its folder", str(path))
