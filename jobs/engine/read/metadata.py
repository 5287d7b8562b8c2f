"""Table metadata read straight from its JSON file, and the manifests below it through PyIceberg's Avro reader."""

from __future__ import annotations

import gzip
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.file import AvroFile
from pyiceberg.io import load_file_io
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)

from jobs.engine.errors import ExpiredSnapshotError, ForeignFileError, UnreadableTableError, UnsupportedTableError
from jobs.engine.read.fields import Schema, read_schema, walk
from jobs.locations import is_inside
from jobs.parsing import load_json
from jobs.regular_files import NotRegular, open_beneath, read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata as LoadedMetadata
    from pyiceberg.table.snapshots import Snapshot

    from jobs.engine.read.fields import Field

_FILE_SCHEME = re.compile(r"^file:(?://[^/]*)?(?=/)")
# Version 3 is a superset: it also resolves manifests of versions 1 and 2, and names deletion vectors.
ENTRY_SCHEMA = MANIFEST_ENTRY_SCHEMAS[3]
_CONTENT, _PARTITION, _EQUALITY_IDS = 0, 3, 14
_FIRST_ROW_ID, _REFERENCED, _OFFSET, _SIZE = 16, 17, 18, 19
LIST_SCHEMA = MANIFEST_LIST_FILE_SCHEMAS[3]
LIST_FIRST_ROW_ID = [field.name for field in LIST_SCHEMA.fields].index("first_row_id")


@dataclass(frozen=True)
class TableMetadata:
    """What a diff needs of one metadata file."""

    location: str
    """The metadata file."""
    folder: str
    """The folder that has all files of the table."""
    uuid: str
    format_version: int
    schemas: Mapping[int, Schema]
    raw_schemas: Mapping[int, Mapping[str, Any]]
    specs: Mapping[int, Mapping[str, Any]]
    orders: Mapping[int, Mapping[str, Any]]
    snapshots: Mapping[int, Mapping[str, Any]]
    current_schema_id: int
    default_spec_id: int
    default_order_id: int
    name_mapping: tuple[Mapping[str, Any], ...] | None = None
    fields_by_id: Mapping[int, Field] = field(default_factory=dict)
    """Every field of every schema, newest definition last: equality deletes may use a dropped column."""

    def snapshot(self, snapshot_id: int) -> Mapping[str, Any]:
        snapshot = self.snapshots.get(snapshot_id)
        if snapshot is None:
            raise expired(snapshot_id)
        return snapshot

    def schema(self, schema_id: int | None, snapshot_id: int | None) -> Schema:
        """Return the asked schema, else the snapshot's own, else the current one."""
        if schema_id is None and snapshot_id is not None:
            schema_id = self.snapshot(snapshot_id).get("schema-id")
        chosen = self.current_schema_id if schema_id is None else schema_id
        schema = self.schemas.get(chosen)
        if schema is None:
            raise UnreadableTableError(f"Schema {chosen} is not in the table's metadata.")
        return schema


def expired(snapshot_id: int) -> ExpiredSnapshotError:
    """Return the error for a snapshot that the table no longer lists."""
    return ExpiredSnapshotError(f"Snapshot {snapshot_id} has expired: the table no longer lists it.")


def find_head(metadata: LoadedMetadata) -> Snapshot | None:
    """Return the current snapshot, or None if the table is empty.

    PyIceberg also returns None for a current snapshot that the metadata does not list, and reads no rows.

    Raises:
        ExpiredSnapshotError: the metadata names a current snapshot and does not list it.

    """
    number = metadata.current_snapshot_id
    snapshot = None if number is None else metadata.snapshot_by_id(number)
    if number is not None and snapshot is None:
        raise expired(number)
    return snapshot


def local_path(location: str) -> str:
    """Return a `file:` location as a path; anything else as it is. Iceberg does not percent-encode locations."""
    return _FILE_SCHEME.sub("", location)


def check_own(location: str, folder: str) -> None:
    """Refuse a file outside of its table's folder: clients write manifests, which can name any file.

    Raises:
        ForeignFileError: it is outside.

    """
    if not is_inside(location, folder):
        raise ForeignFileError(f"{location} is not in the folder of this table. Files of another table are not read.")


def read_bytes(io: FileIO, location: str) -> bytes:
    """Read the whole of one small file."""
    try:
        path = local_path(location)
        if path.startswith("/"):
            return read_regular(path)
        with io.new_input(location).open() as stream:
            return bytes(stream.read())
    except OSError as error:
        raise UnreadableTableError(f"{location} cannot be read: {error.strerror or error}.") from error


def check_regular(location: str) -> None:
    """Refuse a file of this machine that is a link, a pipe or a device, before a library waits for it for ever."""
    path = Path(local_path(location))
    if path.is_absolute():
        with suppress(FileNotFoundError, PermissionError):  # whoever reads it says so
            try:
                os.close(open_beneath(path.parent, path.name))
            except NotRegular as error:
                raise UnreadableTableError(f"{location} cannot be read: {error.strerror}.") from error


def read_metadata(location: str, *, io_properties: Mapping[str, str]) -> TableMetadata:
    """Read one metadata file."""
    io = open_io(location, io_properties)
    content = read_bytes(io, location)
    try:
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        return _metadata(location, load_json(content))
    except (ValueError, KeyError, TypeError, AttributeError, OSError, EOFError) as error:
        raise UnreadableTableError(f"{location} is not the metadata of an Iceberg table: {error!r}.") from error


def describe_table(table: Table) -> TableMetadata:
    """Describe the metadata of a table that is loaded already, as its branch shows it."""
    # not model_dump_json, which PyIceberg refuses for version 3
    raw = table.metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _metadata(table.metadata.location, raw)


def open_io(location: str, properties: Mapping[str, str]) -> FileIO:
    return load_file_io(dict(properties), location)


def _metadata(location: str, raw: dict[str, Any]) -> TableMetadata:
    raw_schemas = raw.get("schemas") or [raw["schema"]]
    schemas = [read_schema(schema) for schema in raw_schemas]
    specs = raw.get("partition-specs") or [{"spec-id": 0, "fields": raw.get("partition-spec", [])}]
    mapping = raw.get("properties", {}).get("schema.name-mapping.default")
    return TableMetadata(
        location=location,
        folder=str(raw["location"]),
        uuid=str(raw.get("table-uuid", "")),
        format_version=int(raw["format-version"]),
        schemas={schema.id: schema for schema in schemas},
        raw_schemas={schema.id: raw_schema for schema, raw_schema in zip(schemas, raw_schemas, strict=True)},
        specs={int(spec.get("spec-id", 0)): spec for spec in specs},
        orders={int(order.get("order-id", 0)): order for order in raw.get("sort-orders") or []},
        snapshots={int(snapshot["snapshot-id"]): snapshot for snapshot in raw.get("snapshots") or []},
        current_schema_id=int(raw.get("current-schema-id", schemas[-1].id)),
        default_spec_id=int(raw.get("default-spec-id", 0)),
        default_order_id=int(raw.get("default-sort-order-id", 0)),
        name_mapping=tuple(load_json(mapping)) if mapping else None,
        fields_by_id={field.id: field for schema in schemas for field in walk(schema.fields)},
    )


@dataclass(frozen=True)
class Manifest:
    """One line of a manifest list."""

    path: str
    folder: str
    """The table's, which has all files that the manifest may list."""
    holds_deletes: bool
    rows: int | None
    """Live rows that its data files hold before deletes; None in old tables that do not say."""
    files: int | None
    raw: ManifestFile

    @property
    def sequence(self) -> int:
        return self.raw.sequence_number or 0


def read_manifests(io: FileIO, metadata: TableMetadata, snapshot_id: int | None) -> tuple[Manifest, ...]:
    """Read the manifests of a snapshot; none for the empty table."""
    if snapshot_id is None:
        return ()
    snapshot = metadata.snapshot(snapshot_id)
    if "manifest-list" not in snapshot:
        raise UnsupportedTableError("The snapshot lists its manifests inline, an old form of version 1 tables.")
    location = str(snapshot["manifest-list"])
    check_own(location, metadata.folder)
    try:
        return tuple(_manifest(raw, metadata.folder) for raw in read_manifest_list(io, location))
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise _missing(location, error) from error


def read_manifest_list(io: FileIO, location: str) -> list[ManifestFile]:
    """Read the lines of a manifest list, with the columns of version 3, which has row ids besides."""
    with AvroFile[ManifestFile](
        io.new_input(location),
        LIST_SCHEMA,
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        return list(reader)


def _manifest(raw: ManifestFile, folder: str) -> Manifest:
    check_own(raw.manifest_path, folder)
    added, existing = raw.added_rows_count, raw.existing_rows_count
    files_added, files_existing = raw.added_files_count, raw.existing_files_count
    return Manifest(
        path=raw.manifest_path,
        folder=folder,
        holds_deletes=raw.content == ManifestContent.DELETES,
        rows=None if added is None or existing is None else added + existing,
        files=None if files_added is None or files_existing is None else files_added + files_existing,
        raw=raw,
    )


@dataclass(frozen=True)
class LiveEntry:
    """A live file of a manifest, data or deletes, with what it inherits."""

    path: str
    format: str
    content: int
    """0 data, 1 position deletes or a deletion vector, 2 equality deletes."""
    sequence: int
    records: int
    size_in_bytes: int
    spec_id: int
    partition: tuple[Any, ...]
    equality_ids: tuple[int, ...]
    referenced: str | None
    """The one data file that the deletes are about, where the writer said so."""
    offset: int | None
    """Where a deletion vector begins in its Puffin file, and how long it is."""
    length: int | None
    first_row_id: int | None = field(compare=False)
    """The id of its first row, of those that do not have one in the file; None before version 3."""
    lower: Mapping[int, bytes] = field(compare=False)
    upper: Mapping[int, bytes] = field(compare=False)
    null_counts: Mapping[int, int] = field(compare=False)
    manifest: Manifest = field(compare=False)
    """Where the file is listed."""

    def __hash__(self) -> int:
        return hash((self.path, self.offset))


def read_entries(io: FileIO, manifest: Manifest) -> list[LiveEntry]:
    """Read the live files of one manifest."""
    try:
        return [_entry(raw, manifest) for raw in read_live(io, manifest.raw)]
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise _missing(manifest.path, error) from error


def read_live(io: FileIO, line: ManifestFile) -> list[ManifestEntry]:
    """Read the live entries of a manifest as a list names it, with all columns, and what they inherit written down."""
    with AvroFile[ManifestEntry](
        io.new_input(line.manifest_path),
        ENTRY_SCHEMA,
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        live = [raw for raw in reader if raw.status != ManifestEntryStatus.DELETED]
    free = line._data[LIST_FIRST_ROW_ID]
    for raw in live:
        _inherit(raw, line)
        values = raw.data_file._data
        own = None if free is None else values[_FIRST_ROW_ID]
        values[_FIRST_ROW_ID] = free if own is None else own
        if free is not None and own is None:
            free += raw.data_file.record_count  # each file counts on from the one before
    return live


def _inherit(raw: ManifestEntry, line: ManifestFile) -> None:
    sequence = (line.sequence_number or 0) if raw.status == ManifestEntryStatus.ADDED else 0
    raw.snapshot_id = line.added_snapshot_id if raw.snapshot_id is None else raw.snapshot_id
    raw.sequence_number = sequence if raw.sequence_number is None else raw.sequence_number
    raw.file_sequence_number = sequence if raw.file_sequence_number is None else raw.file_sequence_number
    raw.data_file._data[_CONTENT] = raw.data_file.content or DataFileContent.DATA
    raw.data_file.spec_id = line.partition_spec_id or 0


def _entry(raw: ManifestEntry, manifest: Manifest) -> LiveEntry:
    file = raw.data_file
    check_own(file.file_path, manifest.folder)
    values = file._data
    return LiveEntry(
        path=file.file_path,
        format=str(getattr(file.file_format, "value", file.file_format)).lower(),
        content=int(values[_CONTENT]),
        sequence=raw.sequence_number or 0,
        records=file.record_count,
        size_in_bytes=file.file_size_in_bytes,
        spec_id=file.spec_id,
        partition=tuple(values[_PARTITION]._data) if values[_PARTITION] is not None else (),
        equality_ids=tuple(values[_EQUALITY_IDS] or ()),
        referenced=referenced_file(file) or _single_path(file),
        offset=values[_OFFSET],
        length=values[_SIZE],
        first_row_id=values[_FIRST_ROW_ID],
        lower=file.lower_bounds or {},
        upper=file.upper_bounds or {},
        null_counts=file.null_value_counts or {},
        manifest=manifest,
    )


def referenced_file(file: DataFile) -> str | None:
    """Return the one data file that a deletion vector is about."""
    path: str | None = file._data[_REFERENCED]
    return path


_PATH_COLUMN = 2147483546


def _single_path(file: DataFile) -> str | None:
    """Return the data file that a position delete file is about, when its path bounds are equal and not cut short."""
    lower, upper = (file.lower_bounds or {}).get(_PATH_COLUMN), (file.upper_bounds or {}).get(_PATH_COLUMN)
    if lower is None or lower != upper:
        return None
    return bytes(lower).decode()


def _missing(location: str, error: Exception) -> UnreadableTableError:
    if isinstance(error, FileNotFoundError):
        return UnreadableTableError(f"{location} is gone: the snapshot's files have been removed.")
    return UnreadableTableError(f"{location} cannot be read: {error}.")
