"""How much a confined process has written in its folders, all files together: a limit of the kernel is per file only."""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from jobs.entrypoints.folders import DEEPEST, FOLDER, empty_folder, opened
from jobs.entrypoints.holdings import Descriptor, HiddenError, list_descriptors, read_living

EXCEEDED = 122
"""The exit code (the number of EDQUOT) of what wrote more than it may."""
LEAST_PAUSE_S, MOST_PAUSE_S = 0.2, 2.0
_SHARE = 10
"""Looking may take this part of a processor: a tenth, unless the pauses became too long."""
_ENTRY_BYTES = 4096
"""What an empty file or folder counts: names cost a disk, too."""
MOST_ENTRIES = 200_000
"""Files and folders that may be added: a disk has so many names only, and whoever takes over what is left looks at each."""


class DiskQuota:
    """Bytes that may be added to folders. Made before the process starts; what is there by then does not count."""

    code = EXCEEDED

    def __init__(self, folders: Sequence[str], allowed: int) -> None:
        self._folders = folders
        self._allowed = allowed
        self._seen: dict[tuple[int, int], int] = {}
        """What files without a name had at the last look."""
        present = [folder for folder in folders if os.path.exists(folder)]
        self._disks = {os.stat(folder).st_dev: folder for folder in present}
        self._used_before = self._measure_disks()
        self._hides = False
        """Whether files may have been where nobody sees their size at the last look."""
        try:
            self._before, self._entries_before = self._measure()
        except _TooDeepError:
            self._before, self._entries_before = 0, 0  # the first look ends it, and removes what is there
        self.pause_s = LEAST_PAUSE_S
        """So long to wait before the next look."""

    def is_exceeded(self, child: int) -> bool:
        """Return whether more was written than is allowed, by `child` and all in its process namespace.

        What cannot be measured, because it lies too deep or its process hides, counts as more. Files that are on their
        way between processes, or mapped and not to be sized, have what the disks have lost and nothing else explains.
        """
        started = time.process_time()
        most, most_entries = self._before + self._allowed, self._entries_before + MOST_ENTRIES
        try:
            processes = _list_namespace(child)
            opened_by = {process: list_descriptors(process) for process in processes}
            is_passed = any(descriptor.passed for descriptor in chain.from_iterable(opened_by.values()))
            nameless, is_unsized = self._measure_unlinked(opened_by)
            named, entries = self._measure(most, most_entries)
            seen = named + nameless
            hid, self._hides = self._hides, is_unsized or is_passed
            unseen = self._measure_disks() - self._used_before - (seen - self._before) if hid and self._hides else 0
            is_exceeded = seen > most or entries > most_entries or unseen > self._allowed
        except (_TooDeepError, HiddenError):
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

    def _measure(self, most: float = math.inf, most_entries: float = math.inf) -> tuple[int, int]:
        """Return bytes and the number of files and folders; stop above what they may be at most.

        Bytes are blocks, not lengths: a file may have room without content, and length without room.
        """
        seen: set[tuple[int, int]] = set()
        total = entries = 0
        for status in _walk(self._folders):
            if (status.st_dev, status.st_ino) not in seen:
                if status.st_nlink > 1:
                    seen.add((status.st_dev, status.st_ino))
                total += max(status.st_blocks * 512, _ENTRY_BYTES)
            entries += 1
            if total > most or entries > most_entries:
                break
        return total, entries

    def _measure_disks(self) -> int:
        """Return how much is used of the disks that the folders are on, whoever uses it."""
        used = 0
        for folder in self._disks.values():
            with _passing_over_changes():
                volume = os.statvfs(folder)
                used += (volume.f_blocks - volume.f_bfree) * volume.f_frsize
        return used

    def _measure_unlinked(self, opened_by: Mapping[str, Iterable[Descriptor]]) -> tuple[int, bool]:
        """Measure files that have no name any more, and that a process has open or mapped still.

        Return their bytes, and whether one of them may have more.
        """
        nameless: dict[tuple[int, int], int] = {}
        is_unsized = False
        for process, descriptors in opened_by.items():
            for file in (descriptor.file for descriptor in descriptors):
                if stat.S_ISREG(file.st_mode) and file.st_nlink == 0 and file.st_dev in self._disks:
                    nameless[file.st_dev, file.st_ino] = file.st_blocks * 512
            for mapped in _list_unlinked_maps(process):
                if mapped.device in self._disks:
                    place = mapped.device, mapped.inode
                    is_unsized |= not mapped.is_sized and place not in nameless
                    nameless[place] = max(mapped.size, nameless.get(place, 0))
        # A mapping may show less of a file than was seen of it while it was open.
        self._seen = {file: max(size, self._seen.get(file, 0)) for file, size in nameless.items()}
        return sum(self._seen.values()), is_unsized


class _TooDeepError(Exception):
    """Folders lie deeper than anybody goes."""


def _walk(folders: Sequence[str]) -> Iterator[os.stat_result]:
    """Go through folders that change meanwhile, by descriptors: no link that takes the place of a folder leads out of them."""
    for folder in folders:
        with _passing_over_changes(), opened(folder, FOLDER) as descriptor:
            yield from _walk_open(descriptor, depth=0)


def _walk_open(folder: int, *, depth: int) -> Iterator[os.stat_result]:
    if depth > DEEPEST:
        raise _TooDeepError
    with os.scandir(folder) as entries:
        for entry in entries:
            with _passing_over_changes():
                status = entry.stat(follow_symlinks=False)
                yield status
                if stat.S_ISDIR(status.st_mode):
                    with opened(entry.name, FOLDER, dir_fd=folder) as inner:
                        yield from _walk_open(inner, depth=depth + 1)


@contextmanager
def _passing_over_changes() -> Iterator[None]:
    """Pass over what is gone by now: it needs no room."""
    with suppress(OSError):
        yield


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


@dataclass(frozen=True)
class _UnlinkedMap:
    """Something that a process has mapped of a file that has no name any more."""

    device: int
    inode: int
    size: int
    is_sized: bool
    """Whether the size is the file's: only root sees what it holds beyond its mappings."""


def _list_unlinked_maps(process: str) -> Iterator[_UnlinkedMap]:
    for line in read_living(process, _read_maps).splitlines():
        if not line.endswith(" (deleted)"):
            continue
        span, _, offset, device, inode, _ = line.split(maxsplit=5)
        start, end = (int(number, 16) for number in span.split("-"))
        major, minor = (int(number, 16) for number in device.split(":"))
        size, is_sized = int(offset, 16) + end - start, False
        with suppress(OSError):
            size, is_sized = os.stat(f"/proc/{process}/map_files/{start:x}-{end:x}").st_blocks * 512, True
        yield _UnlinkedMap(os.makedev(major, minor), int(inode), size, is_sized)


def _read_maps(folder: str) -> str:
    with suppress(OSError):
        return Path(f"{folder}/maps").read_text(errors="replace")
    return ""
