"""Asks the kernel which files of a folder are opened, for libraries that open them without Python (inotify)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import suppress

MAX_FOLDERS = 5000
"""Folders that the kernel watches; a repository with more depends on all its files."""
_IN_OPEN, _IN_OVERFLOW, _IN_ISDIR = 0x20, 0x4000, 0x40000000
_IN_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class FileWatcher:
    """Asks the kernel which files of a folder are opened, by this process or one that it starts."""

    def __init__(self, descriptor: int, folders: dict[int, str]) -> None:
        self._descriptor = descriptor
        self._folders = folders

    @classmethod
    def open(cls, root: str) -> FileWatcher | None:
        """Watch all folders; None where that cannot be."""
        descriptor = _libc.inotify_init1(_IN_FLAGS)
        if descriptor < 0:
            return None
        folders: dict[int, str] = {}
        for folder, _, _ in os.walk(root):
            number = _libc.inotify_add_watch(descriptor, os.fsencode(folder), ctypes.c_uint32(_IN_OPEN))
            if number < 0 or len(folders) >= MAX_FOLDERS:
                os.close(descriptor)
                return None
            folders[number] = os.path.relpath(folder, root)
        watcher = cls(descriptor, folders)
        for _ in watcher.read():
            pass  # our own walk
        return watcher

    def close(self) -> None:
        """Watch no longer."""
        with suppress(OSError):  # the repository's code closed it
            os.close(self._descriptor)

    def read(self) -> Iterator[tuple[str | None, bool]]:
        """Yield each path that was opened and whether it is a folder; no path means that some were lost."""
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except BlockingIOError:
                return
            except OSError:
                # the repository's code closed it
                yield None, False
                return
            yield from self._parse(data)

    def _parse(self, data: bytes) -> Iterator[tuple[str | None, bool]]:
        start = 0
        while start < len(data):
            number, mask, _, length = struct.unpack_from("iIII", data, start)
            name = os.fsdecode(data[start + 16 : start + 16 + length].rstrip(b"\0"))
            start += 16 + length
            if mask & _IN_OVERFLOW or (number not in self._folders and number >= 0 and not mask & 0x8000):
                yield None, False
            elif mask & _IN_ISDIR and name:
                continue  # each folder reports this itself, too
            elif number in self._folders:
                folder = self._folders[number]
                yield os.path.normpath(os.path.join(folder, name)), bool(mask & _IN_ISDIR)
