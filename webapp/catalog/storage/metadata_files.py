"""Metadata files: immutable once written, durable before anything points to them, on this machine or in an object store.

Since a location never changes its content, what was read is kept in memory by location.
"""

import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, Protocol, cast
from uuid import uuid4

from webapp.catalog.rules.errors import DamagedTable, Malformed
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import uuid_of, with_legacy_fields
from webapp.catalog.rules.readable import is_whole
from webapp.catalog.rules.views import ViewMetadata
from webapp.catalog.storage import local_files, object_files
from webapp.core import json_bytes
from webapp.core.byte_cache import ByteCache, Versions
from webapp.core.errors import AppError, TooLarge
from webapp.core.json_members import Members
from webapp.core.numbers import read_count
from webapp.runtime.object_store import Absent, is_object_location

# Of the files as written; parsed they take several times as much.
CACHED_BYTES = 16 * 1024 * 1024
VERSIONS = 3
"""Of a table: the current one, the next while it is being written, and one for readers that are not so far yet."""
# Some 90,000 snapshots. Nothing larger is written or registered: what was written once can be registered again.
LARGEST_BYTES = 64 * 1024 * 1024
# The file is shared: whoever writes on a branch alone leaves master the last of so many parts.
LEFT_TO_MASTER = 4
SUFFIX = ".metadata.json"
GZIP = b"\x1f\x8b"
MOST_EARLIER = 20
"""Maximum number of earlier files that are tried when a metadata file cannot be read."""


class MetadataOwner(Protocol):
    """The row of a table or view: where its metadata is, and what tells it from the metadata of others."""

    @property
    def metadata_location(self) -> str:
        """The current metadata file."""

    @property
    def location(self) -> str:
        """The folder of the table or view."""

    @property
    def uuid(self) -> str:
        """Its UUID; empty in a row of an earlier release, until the next commit."""


class MetadataFile:
    """One metadata file in memory; parsed on first need."""

    __slots__ = ("_content", "_members", "location", "raw")

    def __init__(
        self, location: str, raw: bytes, content: Mapping[str, Any] | None = None, members: Members | None = None
    ) -> None:
        self.location = location
        self.raw = raw
        self._content = content
        self._members = members

    @property
    def metadata(self) -> Metadata:
        """The content, of a table. Shared: never change it in place."""
        return cast("Metadata", self.content)

    @property
    def view_metadata(self) -> ViewMetadata:
        """The content, of a view."""
        return cast("ViewMetadata", self.content)

    @property
    def content(self) -> Mapping[str, Any]:
        """What it says: of a table, or of a view."""
        if self._content is None:
            try:
                parsed = json_bytes.load(self.raw)
            except ValueError as error:
                raise _damaged(self.location) from error
            if not isinstance(parsed, dict) or not is_whole(parsed):
                raise _damaged(self.location)
            self._content = parsed
        return self._content

    @property
    def uuid(self) -> str:
        """The UUID of its table or view, as rows keep it."""
        return uuid_of(self.content)

    @property
    def members(self) -> Members:
        """The text of its members, of which views and the next file are made."""
        if self._members is None:
            members = Members(self.content)
            if members.text == self.raw:
                members.text = self.raw  # once is enough
            self._members = members
        return self._members


def split_location(location: str) -> tuple[str, str]:
    """Split a location into the folder of a table's metadata files and the name of one."""
    folder, _, name = location.rpartition("/")
    return folder, name


_cache = ByteCache[str, MetadataFile](
    CACHED_BYTES, lambda file: len(file.raw), versions=Versions(split_location, VERSIONS)
)


_ways_back: dict[str, tuple[float, str]] = {}
"""By damaged metadata file: until when it is used, by the monotonic clock, and the way back. Finding one walks a folder."""
WAY_BACK_SECONDS = 10.0
MOST_WAYS_BACK = 1000


def read(row: MetadataOwner) -> MetadataFile:
    """Read the current metadata file of a table or view.

    Raises:
        DamagedTable: it is missing, damaged, or of another table; says which earlier file can be registered.

    """
    try:
        return _check_own(_read_kept(row.metadata_location), row)
    except DamagedTable as error:
        raise DamagedTable(f"{error.detail}. {describe_way_back(row)}") from error


def read_view(row: MetadataOwner) -> MetadataFile:
    """Read the current metadata file of a view.

    Raises:
        DamagedTable: it is missing, damaged, or of another view.

    """
    return _check_own(_read_kept(row.metadata_location), row)


def read_anew(row: MetadataOwner) -> MetadataFile:
    """Read the current metadata file from the disk, not from memory; for checks.

    Raises:
        DamagedTable: it is missing, damaged, or of another table.

    """
    return _check_own(_read_file(row.metadata_location), row)


def list_earlier(row: MetadataOwner) -> Iterator[MetadataFile]:
    """Yield the earlier metadata files of a table that can be read, newest first; some of the newest at most."""
    folder, current = split_location(row.metadata_location)
    items = {split_location(item.location)[1]: item for item in store_of(folder).walk(folder)}
    names = sorted((name for name in items if name.endswith(SUFFIX)), key=_version_of, reverse=True)
    earlier = [name for name in names if name != current and _version_of(name) <= _version_of(current)]
    for name in earlier[:MOST_EARLIER]:
        with suppress(DamagedTable):
            yield _check_own(_read_kept(items[name].location), row)


def describe_way_back(row: MetadataOwner) -> str:
    """Return how to go back to the newest earlier metadata file of a table that can be read, as it was a moment ago."""
    until, way_back = _ways_back.get(row.metadata_location, (0.0, ""))
    if time.monotonic() >= until:
        way_back = _find_way_back(row)
        if len(_ways_back) >= MOST_WAYS_BACK:
            _ways_back.clear()
        _ways_back[row.metadata_location] = time.monotonic() + WAY_BACK_SECONDS, way_back
    return way_back


def _find_way_back(row: MetadataOwner) -> str:
    with suppress(AppError):
        for file in list_earlier(row):
            return f"To go back to its newest earlier file, {word_registration(file)}"
    return f"No earlier file can be read: bring {row.metadata_location} back from a backup"


def word_registration(file: MetadataFile) -> str:
    """Return the words for taking a table back to a metadata file."""
    return f"register {file.location} with `overwrite`: POST /iceberg/v1/namespaces/…/register"


def _version_of(name: str) -> int:
    """Return the number that the name of a metadata file begins with."""
    return read_count(name.partition("-")[0]) or 0


def _read_kept(location: str) -> MetadataFile:
    file = _cache.get(location)
    if file is None:
        file = _read_file(location)
        _cache.add(location, file)
    return file


def _read_file(location: str) -> MetadataFile:
    try:
        raw = store_of(location).read(location)
    except Absent as error:
        raise _damaged(location) from error
    file = MetadataFile(location, raw)
    _ = file.content
    return file


def _check_own(file: MetadataFile, row: MetadataOwner) -> MetadataFile:
    """Refuse the metadata of another table: a restore or a copy may have put it in the place of the row's own."""
    location = str(file.content["location"]).rstrip("/")
    if location != row.location.rstrip("/") or row.uuid not in ("", file.uuid):
        message = (
            f"The metadata file {file.location} belongs to another table or view: it names the folder {location} and the UUID "
            f"{file.uuid}, and the catalog has {row.location} and {row.uuid or 'no recorded UUID'}"
        )
        raise DamagedTable(message)
    return file


def read_foreign(location: str, *, root: str) -> dict[str, Any]:
    """Read metadata that another writer left below a root, compressed or not."""
    try:
        raw = _decompress(store_of(location).read_foreign(location, root=root, at_most=LARGEST_BYTES))
        if len(raw) > LARGEST_BYTES:
            message = f"{location} is larger than {LARGEST_BYTES} bytes"
            raise Malformed(message)
        parsed = json_bytes.load(raw)
    except (Absent, ValueError, zlib.error) as error:
        message = f"Cannot read table metadata at {location}"
        raise Malformed(message) from error
    if not isinstance(parsed, dict):
        message = f"Cannot read table metadata at {location}: not an object"
        raise Malformed(message)
    return parsed


def _decompress(raw: bytes) -> bytes:
    """Return the content of a file that may be compressed by gzip, at most one byte more than is read here."""
    if not raw.startswith(GZIP):
        return raw
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    return stream.decompress(raw, LARGEST_BYTES + 1)


def write(
    content: Mapping[str, Any],
    *,
    location: str,
    version: int,
    folder: str | None = None,
    after: MetadataFile | None = None,
    leaves_room: bool = False,
) -> MetadataFile:
    """Write the next metadata file of a table or view, `after` the current one; when this returns, it survives a power cut.

    It goes into a folder that is there, by default `metadata`. What touches branches alone `leaves_room` to master.

    Raises:
        TooLarge: it would grow beyond what anybody should have to read.

    """
    name = f"{version:05d}-{uuid4()}.metadata.json"
    target = f"{folder or f'{location}/metadata'}/{name}"
    members = Members(_written(content), like=None if after is None else after.members)
    limit = LARGEST_BYTES - LARGEST_BYTES // LEFT_TO_MASTER if leaves_room else LARGEST_BYTES
    if len(members.text) > limit and (after is None or len(members.text) > len(after.raw)):
        most = f"the {limit} that branches may take" if leaves_room else str(limit)
        message = (
            f"The metadata at {location} would take {len(members.text)} bytes, more than {most}, and nothing was changed: "
            "expire snapshots, delete branches or remove properties"
        )
        raise TooLarge(message)
    store_of(target).write(target, members.text)
    file = MetadataFile(target, members.text, content, members)
    _cache.add(target, file)
    return file


def delete(file: MetadataFile) -> None:
    """Remove a file whose pointer certainly never moved; never call this after an unknown outcome."""
    _cache.drop(file.location)
    store_of(file.location).delete(file.location)


def forget_all() -> None:
    """Read every file anew; for tests and repairs that change files behind the catalog's back."""
    _cache.clear()
    _ways_back.clear()


def make_table_folders(location: str, *, root: str | None = None, metadata: str | None = None) -> None:
    """Prepare the place of a new table or view for its writers; below a root no link is followed."""
    store_of(location).make_table_folders(location, root=root, metadata=metadata)


def remove_tree(location: str, *, root: str) -> None:
    """Remove all files of a table that is no more; nothing outside of a root."""
    store_of(location).remove_tree(location, root=root)


def store_of(location: str) -> ModuleType:
    """Return what keeps a location's files: `local_files` or `object_files`, which have the same functions."""
    return object_files if is_object_location(location) else local_files


def _written(content: Mapping[str, Any]) -> Mapping[str, Any]:
    return with_legacy_fields(cast("Metadata", content)) if "table-uuid" in content else content


def _damaged(location: str) -> DamagedTable:
    return DamagedTable(f"The table's metadata file {location} is missing or damaged")
