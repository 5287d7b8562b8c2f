"""Metadata files: immutable once written, durable before anything points to them.

A file is written under a temporary name, synchronised, renamed and its folder synchronised; only then may the database's
pointer move. Since a location never changes its content, what was read is kept in memory by location.
"""

import errno
import json
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from webapp.catalog.rules.errors import DamagedTable, Malformed
from webapp.catalog.rules.metadata import Metadata, with_legacy_fields

FOLDER_MODE = 0o755
FILE_MODE = 0o644
DATA_MODE = 0o777
# Jobs of other users put manifests here; the sticky bit keeps them from removing the catalog's files.
METADATA_MODE = 0o1777
# Of the files as written; parsed they take several times as much.
CACHED_BYTES = 16 * 1024 * 1024
FOREIGN_BYTES = 64 * 1024 * 1024
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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
            raw = local_path(location).read_bytes()
        except OSError as error:
            raise _damaged(location) from error
        found = MetadataFile(location, raw)
        _ = found.metadata
        _cache.add(found)
    return found


def read_foreign(location: str, *, root: str) -> dict[str, Any]:
    """Metadata that another writer left in the warehouse; neither a link nor a big file leads astray."""
    path = local_path(location)
    try:
        if not path.resolve(strict=True).is_relative_to(local_path(root).resolve()) or path.is_symlink():
            message = f"{location} leads out of the warehouse"
            raise Malformed(message)
        if path.stat().st_size > FOREIGN_BYTES:
            message = f"{location} is larger than {FOREIGN_BYTES} bytes"
            raise Malformed(message)
        parsed = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
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
    raw = json.dumps(_written(metadata), separators=(",", ":"), ensure_ascii=False).encode()
    path = local_path(target)
    try:
        _write_durably(path, raw)
    except FileNotFoundError:
        make_table_folders(location)
        _write_durably(path, raw)
    file = MetadataFile(target, raw, metadata)
    _cache.add(file)
    return file


def delete(file: MetadataFile) -> None:
    """Remove a file whose pointer certainly never moved; never call this after an unknown outcome."""
    _cache.drop(file.location)
    local_path(file.location).unlink(missing_ok=True)


def forget_all() -> None:
    """Read every file anew; for tests and repairs that change files behind the catalog's back."""
    _cache.clear()


def make_table_folders(location: str) -> None:
    """The folders of a table; job processes of other users write into them, so the modes do not depend on the umask."""
    root = local_path(location)
    _make_passable(root)
    for name, mode in (("data", DATA_MODE), ("metadata", METADATA_MODE)):
        folder = root / name
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
    _sync_folder(root)
    _sync_folder(root.parent)


def _make_passable(folder: Path) -> None:
    """Make a folder and what is missing above it, open for others to pass through whatever the umask."""
    if folder.is_dir():
        return
    _make_passable(folder.parent)
    folder.mkdir(exist_ok=True)
    folder.chmod(FOLDER_MODE)


def local_path(location: str) -> Path:
    """The path of a `file:` location."""
    parts = urlsplit(location)
    if parts.scheme not in ("file", ""):
        message = f"This catalog cannot reach {parts.scheme}: locations"
        raise DamagedTable(message)
    return Path(unquote(parts.path) if parts.scheme else location)


def _written(metadata: dict[str, Any]) -> dict[str, Any]:
    return with_legacy_fields(metadata) if "table-uuid" in metadata else metadata


def _write_durably(path: Path, raw: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, _FLAGS, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            # Processes of other users read it, to compare two versions for instance; the umask has no say.
            os.fchmod(stream.fileno(), FILE_MODE)
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.rename(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = "The warehouse is full: nothing was changed"
            raise DamagedTable(message) from error
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _damaged(location: str) -> DamagedTable:
    return DamagedTable(f"The table's metadata file {location} is missing or damaged")
