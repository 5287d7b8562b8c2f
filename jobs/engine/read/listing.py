"""A table of Iceberg's own form that lists chosen files only, for engines that read tables and no file lists.

Its metadata file has one snapshot for each list of files. Whoever reads one of them applies deletes, promotes types, fills
in defaults and finds columns by their ids as ever, by the one schema that all of them have. Manifests that are wanted
whole are listed as they are, of others only the wanted entries are copied. No data file is touched, and no catalog knows.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
    write_manifest_list,
)
from pyiceberg.types import IntegerType, StructType

from jobs.engine.read.catalog import BRANCH_HEADER
from jobs.engine.read.metadata import ENTRY_SCHEMA, local_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema as IcebergSchema
    from pyiceberg.table import Table

    from jobs.engine.read.live_files import LiveFile
    from jobs.engine.read.metadata import LiveEntry, Manifest

_NAME_MAPPING = "schema.name-mapping.default"
_STATUS, _SNAPSHOT, _SEQUENCE, _FILE_SEQUENCE = 0, 1, 2, 3
_PATH, _SIZE, _ADDED_SNAPSHOT, _ADDED_FILES = 0, 1, 6, 7
_CONTENT, _OFFSET = 0, 18
_PARTITION_ID, _EQUALITY_IDS = 102, 135
_DATA_FILE_ID = 2
_CODEC = "deflate"
_KEYS = ("s3.", "client.region")
_ENDPOINT = "client.refresh-credentials-endpoint"
_RENEWAL = (_ENDPOINT, "uri", "token", f"header.{BRANCH_HEADER}")
"""By what Iceberg asks the catalog for other keys before these end, where the table was loaded from a catalog."""


class Listing:
    """Chosen files of one table, written into a folder of their own."""

    def __init__(self, table: Table, *, schema_id: int, folder: str, io: FileIO) -> None:
        self._raw = table.metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
        self._schema_id = schema_id
        self.warehouse, self.name = folder.rstrip("/"), uuid.uuid4().hex
        """The folder of the listing and its name there, which make it a table of Iceberg's file system catalog."""
        self._folder = f"{self.warehouse}/{self.name}"
        is_local = local_path(table.metadata.location).startswith("/")
        self.keys = {} if is_local else _choose_keys(table.io.properties)
        """What opens the listed files where they are in an object store."""
        self._io = io
        self._snapshots: list[dict[str, Any]] = []
        self._written: list[str] = []
        self.location = f"{self._folder}/metadata/v1.metadata.json"
        """Where the table's metadata is, once `write` has been called."""

    def add_files(self, files: Iterable[LiveFile]) -> int:
        """List some files with the deletes that apply to them; returns the snapshot that does."""
        entries: dict[str, dict[tuple[str, int | None], LiveEntry]] = defaultdict(dict)
        manifests: dict[str, Manifest] = {}
        for file in files:
            for entry in (file.data, *file.deletes):
                manifests[entry.manifest.path] = entry.manifest
                entries[entry.manifest.path][entry.path, entry.offset] = entry
        listed = [self._take(manifests[path], live_entries) for path, live_entries in entries.items()]
        number = len(self._snapshots) + 1
        location = self._new(f"list-{number}.avro")
        with write_manifest_list(
            format_version=2,
            output_file=self._io.new_output(location),
            snapshot_id=number,
            parent_snapshot_id=None,
            sequence_number=self._last_sequence,
            avro_compression=_CODEC,
        ) as target:
            target.add_manifests(listed)
        return self._add_snapshot(location)

    def add_snapshot(self, snapshot_id: int) -> int:
        """List everything that a snapshot of the table holds."""
        snapshot = next(s for s in self._raw["snapshots"] if int(s["snapshot-id"]) == snapshot_id)
        return self._add_snapshot(snapshot["manifest-list"])

    def write(self) -> None:
        """Write the metadata, after which the snapshots can be read."""
        raw = self._raw
        properties = {name: value for name, value in raw.get("properties", {}).items() if name == _NAME_MAPPING}
        left_out = ("refs", "snapshot-log", "metadata-log", "statistics", "partition-statistics", "current-snapshot-id")
        values = {name: value for name, value in raw.items() if name not in left_out}
        content = {
            **values,
            # what version 1 holds is readable as version 2, which knows of sequence numbers
            "format-version": max(2, int(raw["format-version"])),
            "current-schema-id": self._schema_id,
            "last-sequence-number": self._last_sequence,
            "properties": properties,
            "snapshots": self._snapshots,
        }
        if content["format-version"] > 2:
            content.setdefault("next-row-id", 0)
        for name, text in (("v1.metadata.json", json.dumps(content)), ("version-hint.text", "1")):
            with self._io.new_output(self._new(name)).create() as target:
                target.write(text.encode())

    def remove(self) -> None:
        """Remove what was written; nothing can be read any more."""
        for location in self._written:
            with suppress(OSError):
                self._io.delete(location)
        if self._folder.startswith(("file:", "/")) and isinstance(self._io, PyArrowFileIO):
            _, _, path = PyArrowFileIO.parse_location(self._folder)
            with suppress(OSError):
                self._io.fs_by_scheme("file", None).delete_dir(path)

    @property
    def _last_sequence(self) -> int:
        return int(self._raw.get("last-sequence-number") or 0)

    def _new(self, name: str) -> str:
        location = f"{self._folder}/metadata/{name}"
        self._written.append(location)
        return location

    def _add_snapshot(self, manifest_list: str) -> int:
        number = len(self._snapshots) + 1
        self._snapshots.append(
            {
                "snapshot-id": number,
                "sequence-number": self._last_sequence,
                "timestamp-ms": int(self._raw["last-updated-ms"]),
                "manifest-list": manifest_list,
                "summary": {"operation": "append"},
                "schema-id": self._schema_id,
                "first-row-id": 0,
                "added-rows": 0,
            }
        )
        return number

    def _take(self, manifest: Manifest, live_entries: Mapping[tuple[str, int | None], LiveEntry]) -> ManifestFile:
        """Return the manifest itself where all of it is wanted, else a copy with what is."""
        if manifest.files == len(live_entries):
            return _listed(manifest, location=manifest.path, size=manifest.raw.manifest_length, files=len(live_entries))
        location = self._new(f"manifest-{len(self._written)}.avro")
        with AvroFile[ManifestEntry](
            self._io.new_input(manifest.path),
            ENTRY_SCHEMA,
            read_types={-1: ManifestEntry, 2: DataFile},
            read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
        ) as reader:
            partition = reader.schema.find_field(_DATA_FILE_ID).field_type.field(_PARTITION_ID).field_type
            entries = [
                _existing(raw, live_entries) for raw in reader if _identity(raw) in live_entries and _is_live(raw)
            ]
            header = {name: value for name, value in reader.header.meta.items() if not name.startswith("avro.")}
        self._write_entries(location, partition, header, entries)
        size = len(self._io.new_input(location))
        return _listed(manifest, location=location, size=size, files=len(entries))

    def _write_entries(
        self, location: str, partition: StructType, header: Mapping[str, str], entries: list[ManifestEntry]
    ) -> None:
        schema = entry_schema(partition)
        meta = {**header, "format-version": str(max(2, int(header.get("format-version", 1))))}
        with AvroOutputFile[ManifestEntry](
            output_file=self._io.new_output(location),
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata={**meta, "avro.codec": _CODEC},
        ) as writer:
            writer.write_block(entries)


def _choose_keys(properties: Mapping[str, str]) -> dict[str, str]:
    renewal = _RENEWAL if _ENDPOINT in properties else ()
    return {name: value for name, value in properties.items() if name.startswith(_KEYS) or name in renewal}


def entry_schema(partition: StructType) -> IcebergSchema:
    """Return the fields of a manifest of version 3; its lists of field ids are of ints, where PyIceberg says longs."""
    fields = [
        field.model_copy(update={"field_type": field.field_type.model_copy(update={"element_type": IntegerType()})})
        if field.field_id == _EQUALITY_IDS
        else field
        for field in data_file_with_partition(partition, 3).fields
    ]
    return manifest_entry_schema_with_data_file(3, StructType(*fields))


def _listed(manifest: Manifest, *, location: str, size: int, files: int) -> ManifestFile:
    """Write the line of a manifest list; old ones leave out what readers ask for now."""
    line = copy(manifest.raw)
    line._data = [*manifest.raw._data]
    line._data[_PATH], line._data[_SIZE] = location, size
    line._data[_ADDED_FILES : _ADDED_FILES + 6] = [0, files, 0, 0, manifest.rows or 0, 0]
    line._data[_ADDED_SNAPSHOT] = line._data[_ADDED_SNAPSHOT] or 0
    return line


def _identity(raw: ManifestEntry) -> tuple[str, int | None]:
    return raw.data_file.file_path, raw.data_file._data[_OFFSET]


def _is_live(raw: ManifestEntry) -> bool:
    return bool(raw.status != ManifestEntryStatus.DELETED)


def _existing(raw: ManifestEntry, live_entries: Mapping[tuple[str, int | None], LiveEntry]) -> ManifestEntry:
    """Return the entry with what it would have inherited written down."""
    sequence = live_entries[_identity(raw)].sequence
    raw._data[_STATUS] = ManifestEntryStatus.EXISTING
    raw._data[_SNAPSHOT] = raw._data[_SNAPSHOT] or 0
    raw._data[_SEQUENCE] = sequence
    raw._data[_FILE_SEQUENCE] = sequence if raw._data[_FILE_SEQUENCE] is None else raw._data[_FILE_SEQUENCE]
    values = raw.data_file._data
    values[_CONTENT] = values[_CONTENT] or DataFileContent.DATA
    return raw
