"""Room on the installation's own disks. Below a reserve no work begins that writes much; small writes go on in it.

The database, the catalog's pointers and metadata, and what people decide (reviews, merges, cancellations) are small, and
the reserve is theirs. Jobs, comparisons and publications wait; uploads, pushes and commits are refused.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.template.defaultfilters import filesizeformat

from webapp.core.errors import StorageFull, Unavailable
from webapp.runtime.object_store import is_object_location

BLOCK_BYTES = 512
"""What `st_blocks` counts."""
DEEPEST = 64
"""No job may leave folders within more folders than that (jobs/entrypoints/folders.py)."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
WAREHOUSE = "warehouse"
SMALL_DISK_SHARE = 20
"""On a small disk the reserve is no more than this part of it: a twentieth."""


@dataclass(frozen=True)
class Disk:
    """How much room a folder's disk has, in bytes."""

    holds: str
    folder: Path
    free: int
    reserve: int
    device: int
    """The same for two folders on one disk."""
    size: int

    @property
    def is_low(self) -> bool:
        """Whether less than the reserve is left."""
        return self.free < self.reserve

    def describe(self) -> str:
        """Say how much is left of what."""
        return (
            f"The disk of the {self.holds} ({self.folder}) has {describe_size(self.free)} left, "
            f"and keeps {describe_size(self.reserve)} in reserve"
        )


def list_disks() -> list[Disk]:
    """Return the disks of the home and, where its tables are files, of the warehouse and beside it. Raises OSError."""
    places = [("installation", Path(settings.TRIBUTARY_HOME))]
    tables = [(WAREHOUSE, settings.TRIBUTARY_WAREHOUSE), *(("tables", uri) for uri in settings.TRIBUTARY_LOCATIONS)]
    for holds, location in tables:
        if not is_object_location(location):
            folder = Path(location.removeprefix("file://"))
            places.append((holds, next(path for path in (folder, *folder.parents) if path.exists())))
    return [_measure(holds, folder) for holds, folder in places]


def _measure(holds: str, folder: Path) -> Disk:
    volume = os.statvfs(folder)
    size, free = volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize
    reserve = min(settings.TRIBUTARY_RESERVE_BYTES, size // SMALL_DISK_SHARE)
    return Disk(holds, folder, free, reserve, folder.stat().st_dev, size)


def check_room() -> None:
    """Refuse work that writes while a disk has less room than its reserve.

    Raises:
        StorageFull: it names the disk and the way out.

    """
    for disk in list_disks():
        if disk.is_low:
            raise StorageFull(
                f"{disk.describe()}: free some space, or have an administrator lower TRIBUTARY_RESERVE_BYTES."
            )


def wait_for_room() -> None:
    """Put work off, as for a part that is away, while a disk has less room than its reserve.

    Raises:
        Unavailable: it names the disk; what is put off begins by itself when there is room.

    """
    try:
        check_room()
    except StorageFull as error:
        raise Unavailable(f"{error.detail} The work begins when there is room.", code=error.code) from None


def measure_folder(folder: Path) -> int:
    """Add up the blocks of all files below a folder, as far as jobs may nest folders.

    By descriptors: whoever changes it meanwhile leads nobody elsewhere. What goes meanwhile does not count.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        descriptor = os.open(folder, _FOLDER & ~os.O_NOFOLLOW)  # an operator may have moved it
        try:
            return _measure_open(descriptor, depth=0)
        finally:
            os.close(descriptor)
    return 0


def _measure_open(folder: int, *, depth: int) -> int:
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                total += status.st_blocks * BLOCK_BYTES
                if stat.S_ISDIR(status.st_mode) and depth < DEEPEST:
                    total += _measure_inner(entry.name, folder, depth=depth + 1)
    return total


def _measure_inner(name: str, folder: int, *, depth: int) -> int:
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return 0  # something else took its place
    try:
        return _measure_open(descriptor, depth=depth)
    finally:
        os.close(descriptor)


def describe_size(number: int) -> str:
    """Say a number of bytes as people do: 1.5 GB."""
    return str(filesizeformat(number)).replace("\xa0", " ")
