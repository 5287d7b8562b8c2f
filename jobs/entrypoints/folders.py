"""Goes through folders that somebody may change meanwhile: by descriptors, so that no link leads out of them. Standard library only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

DEEPEST = 64
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_PASSES = 4096


@contextmanager
def opened(path: str, flags: int, *, dir_fd: int | None = None) -> Iterator[int]:
    """Open a file or folder, and close it afterwards."""
    descriptor = os.open(path, flags, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove_folder(path: str) -> None:
    """Remove a folder with all that it holds, as far as that is possible."""
    with suppress(OSError):
        with opened(path, FOLDER) as descriptor:
            empty_folder(descriptor)
        os.rmdir(path)


def empty_folder(folder: int, *, uid: int | None = None) -> None:
    """Remove what an open folder holds, however deep, as far as that is possible; only what is this user's, if one is given."""
    for _ in range(_MOST_PASSES):
        if not _empty(folder, uid, top=folder, depth=0):
            break


def _empty(folder: int, uid: int | None, *, top: int, depth: int) -> bool:
    """Remove what is in reach, and move to the top what lies deeper. Return whether that is to be gone through again."""
    is_moved = False
    for name in os.listdir(folder):
        with suppress(OSError):  # it changes meanwhile
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_wanted = uid is None or about.st_uid == uid
            is_folder = stat.S_ISDIR(about.st_mode)
            if is_folder and depth == DEEPEST:
                if is_wanted:
                    os.rename(name, f".deep-{about.st_ino}", src_dir_fd=folder, dst_dir_fd=top)
                    is_moved = True
                continue
            if is_folder:
                with opened(name, FOLDER, dir_fd=folder) as inner:
                    is_moved |= _empty(inner, uid, top=top, depth=depth + 1)
            if is_wanted:
                (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
    return is_moved
