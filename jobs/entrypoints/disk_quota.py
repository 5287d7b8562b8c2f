"""How much a confined process has written in its folders, all files together: a limit of the kernel is per file only."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from jobs.entrypoints.folders import FOLDER, empty_folder, opened

EXCEEDED = 122
"""The exit code (the number of EDQUOT) of what wrote more than it may."""
LEAST_PAUSE_S, MOST_PAUSE_S = 0.2, 2.0
_SHARE = 10
"""Looking may take this part of a processor: a tenth, unless the pauses became too long."""
_ENTRY_BYTES = 4096
"""What an empty file or folder counts: names cost a disk, too."""


class DiskQuota:
    """Bytes that may be added to folders. Made before the process starts; what is there by then does not count."""

    code = EXCEEDED

    def __init__(self, folders: Sequence[str], allowed: int) -> None:
        self._folders = folders
        self._allowed = allowed
        self._devices = {os.stat(folder).st_dev for folder in folders if os.path.exists(folder)}
        try:
            self._before = self._measure()
        except _TooDeepError:
            self._before = 0  # the first look ends it, and removes what is there
        self.pause_s = LEAST_PAUSE_S
        """So long to wait before the next look."""

    def is_exceeded(self, child: int) -> bool:
        """Whether more was written than is allowed, by `child` and all in its process namespace.

        What lies too deep to be measured counts as more.
        """
        started = time.process_time()
        most = self._before + self._allowed
        try:
            is_exceeded = self._measure(most) + self._measure_unlinked(child) > most
        except _TooDeepError:
            is_exceeded = True
        self.pause_s = min(MOST_PAUSE_S, max(LEAST_PAUSE_S, (time.process_time() - started) * _SHARE))
        return is_exceeded

    def remove(self, *, uid: int | None, own: Sequence[str]) -> None:
        """Remove what was left, so that the room is back at once: all in its own folders, a user's files in the others."""
        for folder in dict.fromkeys((*self._folders, *own)):
            is_own = folder in own
            if is_own or uid is not None:
                # A server may still write in its own folders: no path is to be trusted.
                with suppress(OSError), opened(folder, FOLDER) as descriptor:
                    empty_folder(descriptor, uid=None if is_own else uid)

    def _measure(self, most: int | None = None) -> int:
        """Add up blocks, not lengths: a file may have room without content, and length without room. Stop above `most`."""
        seen: set[tuple[int, int]] = set()
        total = 0
        for _, found in _walk(self._folders):
            if (found.st_dev, found.st_ino) not in seen:
                if found.st_nlink > 1:
                    seen.add((found.st_dev, found.st_ino))
                total += max(found.st_blocks * 512, _ENTRY_BYTES)
            if most is not None and total > most:
                break
        return total

    def _measure_unlinked(self, child: int) -> int:
        """Files that have no name any more and are open still."""
        found = {
            (file.st_dev, file.st_ino): file.st_blocks * 512
            for process in _list_namespace(child)
            for file in list_open_files(process)
            if stat.S_ISREG(file.st_mode) and file.st_nlink == 0 and file.st_dev in self._devices
        }
        return sum(found.values())


class _TooDeepError(Exception):
    """Folders lie so deep that their path has no room in a call of the kernel."""


def _walk(folders: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
    waiting = list(folders)
    while waiting:
        with _passing_over_changes(), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with _passing_over_changes():
                    found = entry.stat(follow_symlinks=False)
                    yield entry.path, found
                    if stat.S_ISDIR(found.st_mode):
                        waiting.append(entry.path)


@contextmanager
def _passing_over_changes() -> Iterator[None]:
    """It changes meanwhile: what is gone by now needs no room."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _TooDeepError from error


def _list_namespace(child: int) -> list[str]:
    """Return the processes of the child's own process namespace; only itself where it has none of its own."""
    space = _read_namespace(str(child))
    if not space or space == _read_namespace("self"):
        return [str(child)]
    return [name for name in os.listdir("/proc") if name.isdigit() and _read_namespace(name) == space]


def _read_namespace(process: str) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{process}/ns/pid")
    return ""


def list_open_files(process: str) -> Iterator[os.stat_result]:
    """What is known of the files that a process has open."""
    with suppress(OSError):
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                yield descriptor.stat()
