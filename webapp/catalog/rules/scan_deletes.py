"""Which delete files apply to which data files: the rules of the table specification's chapter on scan planning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry

from webapp.catalog.rules.scan_files import REFERENCED_FILE, extra

PATH_COLUMN = 2147483546
Partition = tuple[int, tuple[Any, ...]]


class ScanDeletes:
    """The deletes that may concern some data files; what concerns none of them is not kept."""

    def __init__(self, files: Iterable[ManifestEntry]) -> None:
        self._paths: set[str] = set()
        self._partitions: set[Partition] = set()
        for entry in files:
            self._paths.add(entry.data_file.file_path)
            self._partitions.add(partition_of(entry.data_file))
        self._vectors: dict[str, ManifestEntry] = {}
        self._by_path: dict[str, list[ManifestEntry]] = {}
        self._by_partition: dict[Partition, list[ManifestEntry]] = {}
        self._equality: dict[Partition, list[ManifestEntry]] = {}
        self._everywhere: list[ManifestEntry] = []

    def add(self, entry: ManifestEntry) -> None:
        """Take a delete file in."""
        file = entry.data_file
        partition = partition_of(file)
        if file.content is DataFileContent.EQUALITY_DELETES:
            if not partition[1]:
                self._everywhere.append(entry)
            elif partition in self._partitions:
                self._equality.setdefault(partition, []).append(entry)
            return
        path = _referenced(file)
        if path is None:
            if partition in self._partitions:
                self._by_partition.setdefault(partition, []).append(entry)
        elif path in self._paths:
            if file.file_format is FileFormat.PUFFIN:
                self._vectors[path] = entry
            else:
                self._by_path.setdefault(path, []).append(entry)

    def find(self, entry: ManifestEntry) -> list[ManifestEntry]:
        """Find the deletes that apply to a data file."""
        file, since = entry.data_file, entry.sequence_number or 0
        partition = partition_of(file)
        equality = [*self._everywhere, *self._equality.get(partition, ())]
        deletes = [delete for delete in equality if (delete.sequence_number or 0) > since]
        vector = self._vectors.get(file.file_path)
        if vector is not None and (vector.sequence_number or 0) >= since:
            # A deletion vector holds all that position deletes said before.
            return [*deletes, vector]
        positions = [*self._by_path.get(file.file_path, ()), *self._by_partition.get(partition, ())]
        return deletes + [
            delete
            for delete in positions
            if (delete.sequence_number or 0) >= since and _may_name(delete.data_file, file.file_path)
        ]


def partition_of(file: DataFile) -> Partition:
    """Return the partition that a file is in: its spec and its values."""
    return file.spec_id, tuple(file.partition)


def _referenced(file: DataFile) -> str | None:
    """Return the one data file that position deletes are about, where there is only one."""
    named: str | None = extra(file, REFERENCED_FILE)
    if named is not None:
        return named
    low, high = _path_bounds(file)
    return low.decode() if low is not None and low == high else None


def _may_name(deletes: DataFile, path: str) -> bool:
    low, high = _path_bounds(deletes)
    raw = path.encode()
    # Bounds may be cut short; the upper one was then raised, so comparing is safe.
    return (low is None or low <= raw) and (high is None or raw <= high)


def _path_bounds(file: DataFile) -> tuple[bytes | None, bytes | None]:
    return (file.lower_bounds or {}).get(PATH_COLUMN), (file.upper_bounds or {}).get(PATH_COLUMN)
