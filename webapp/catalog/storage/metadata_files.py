"""Metadata files: immutable once written, durable before anything points to them, on this machine or in an object store.

Since a location never changes its content, what was read is kept in memory by location.
"""

import json
import threading
from collections import OrderedDict
from types import ModuleType
from typing import Any
from uuid import uuid4

from webapp.catalog.rules.errors import DamagedTable, Malformed
from webapp.catalog.rules.metadata import Metadata, with_legacy_fields
from webapp.catalog.storage import local_files, object_files
from webapp.core import json_bytes
from webapp.core.object_store import Absent, is_object_location

# Of the files as written; parsed they take several times as much.
CACHED_BYTES = 16 * 1024 * 1024
FOREIGN_BYTES = 64 * 1024 * 1024


class MetadataFile:
    """One metadata file in memory; parsed on first need."""

    __slots__ = ("_metadata", "location", "raw")

    def __init__(self, location: str, raw: bytes, metadata: Metadata | None = None) -> None:
        self.location = location
        self.raw = raw
        self._metadata = metadata

    @property
    def metadata(self) -> Metadata:
        """The content. Shared: never change it in place."""
        if self._metadata is None:
            try:
                parsed = json.loads(self.raw)
            except ValueError as error:
                raise _damaged(self.location) from error
            if not isinstance(parsed, dict) or "format-version" not in parsed:
                raise _damaged(self.location)
            self._metadata = parsed
        return self._metadata


class _Cache:
    """Recently used files by location, bounded by their size."""

    def __init__(self, limit: int) -> None:
        self._files: OrderedDict[str, MetadataFile] = OrderedDict()
        self._size = 0
        self._limit = limit
        self._lock = threading.Lock()

    def get(self, location: str) -> MetadataFile | None:
        with self._lock:
            found = self._files.get(location)
            if found is not None:
                self._files.move_to_end(location)
            return found

    def add(self, file: MetadataFile) -> None:
        with self._lock:
            old = self._files.pop(file.location, None)
            self._size += len(file.raw) - (len(old.raw) if old else 0)
            self._files[file.location] = file
            while self._size > self._limit and len(self._files) > 1:
                _, dropped = self._files.popitem(last=False)
                self._size -= len(dropped.raw)

    def clear(self) -> None:
        with self._lock:
            self._files.clear()
            self._size = 0

    def drop(self, location: str) -> None:
        with self._lock:
            old = self._files.pop(location, None)
            self._size -= len(old.raw) if old else 0


_cache = _Cache(CACHED_BYTES)


def read(location: str) -> MetadataFile:
    """The file at a location; an error that names only this table where it is missing or broken."""
    found = _cache.get(location)
    if found is None:
        try:
            raw = store_of(location).read(location)
        except Absent as error:
            raise _damaged(location) from error
        found = MetadataFile(location, raw)
        _ = found.metadata
        _cache.add(found)
    return found


def read_foreign(location: str, *, root: str) -> dict[str, Any]:
    """Metadata that another writer left in the warehouse."""
    try:
        raw = store_of(location).read_foreign(location, root=root, at_most=FOREIGN_BYTES)
        if len(raw) > FOREIGN_BYTES:
            message = f"{location} is larger than {FOREIGN_BYTES} bytes"
            raise Malformed(message)
        parsed = json_bytes.load(raw)
    except (Absent, ValueError, RecursionError) as error:
        message = f"Cannot read table metadata at {location}"
        raise Malformed(message) from error
    if not isinstance(parsed, dict):
        message = f"Cannot read table metadata at {location}: not an object"
        raise Malformed(message)
    return parsed


def write(metadata: dict[str, Any], *, location: str, version: int) -> MetadataFile:
    """Write the next metadata file of a table; when this returns, it survives a power cut."""
    name = f"{version:05d}-{uuid4()}.metadata.json"
    target = f"{location}/metadata/{name}"
    raw = json_bytes.dump(_written(metadata))
    store_of(target).write(target, raw)
    file = MetadataFile(target, raw, metadata)
    _cache.add(file)
    return file


def delete(file: MetadataFile) -> None:
    """Remove a file whose pointer certainly never moved; never call this after an unknown outcome."""
    _cache.drop(file.location)
    store_of(file.location).delete(file.location)


def forget_all() -> None:
    """Read every file anew; for tests and repairs that change files behind the catalog's back."""
    _cache.clear()


def make_table_folders(location: str) -> None:
    """Prepare the place of a new table for its writers."""
    store_of(location).make_table_folders(location)


def remove_tree(location: str) -> None:
    """Remove all files of a table that is no more."""
    store_of(location).remove_tree(location)


def store_of(location: str) -> ModuleType:
    """What keeps a location's files: `local_files` or `object_files`, which have the same functions."""
    return object_files if is_object_location(location) else local_files


def _written(metadata: dict[str, Any]) -> dict[str, Any]:
    return with_legacy_fields(metadata) if "table-uuid" in metadata else metadata


def _damaged(location: str) -> DamagedTable:
    return DamagedTable(f"The table's metadata file {location} is missing or damaged")
