"""Manifest lists and manifests, read under limits: clients wrote them, and they say whatever their writer wanted.

A manifest list may name any path; only files inside the table's own location are opened. Sizes are bounded before and
after decompression, and so is the number of entries.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Self

from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import AvroFile, AvroFileHeader, Block
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.exceptions import ResolveError
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

from webapp.catalog.rules.errors import DamagedTable, Unsupported
from webapp.catalog.rules.locations import check_file
from webapp.catalog.rules.scan_files import FIRST_ROW_ID
from webapp.catalog.storage import metadata_files
from webapp.core.object_store import Absent

LARGEST_FILE = 64 * 1024 * 1024
LARGEST_BLOCK = 64 * 1024 * 1024
MOST_ENTRIES = 250_000
NEWEST = 3
MAGIC = b"Obj\x01"
MANIFEST_FIRST_ROW_ID = 15
# What PyIceberg's reader raises over bytes that no writer has made.
_BROKEN = (
    ValueError,
    KeyError,
    EOFError,
    IndexError,
    OverflowError,
    TypeError,
    AttributeError,
    AssertionError,
    NotImplementedError,
    RecursionError,
    ResolveError,
    struct.error,
    zlib.error,
)


class _TooLarge(Exception):
    """Decompressed it would be larger than anything a writer makes."""


class _BoundedAvro(AvroFile[ManifestEntry]):  # type: ignore[misc]  # PyIceberg is not checked
    """PyIceberg's reader for files that nobody vouches for.

    Its compiled decoder believes the lengths in a file and reads beyond its end, so the one in Python is used; a block
    cannot grow without end; and nothing can be counted without limit because it takes no space.
    """

    block: Block[ManifestEntry] | None

    def __enter__(self) -> Self:
        self.decoder = StreamingBinaryDecoder(self.input_file)
        self.header = self._read_header()
        _check_avro(json.loads(self.header.meta["avro.schema"]))
        self.schema = self.header.get_schema()
        self.reader = resolve_reader(self.schema, self.read_schema, self.read_types, self.read_enums)
        return self

    def _read_header(self) -> AvroFileHeader:
        header = super()._read_header()
        if header.magic != MAGIC:
            message = "not an Avro file"
            raise ValueError(message)
        return header

    def _read_block(self) -> int:
        # The end of the file is the end of the records only where a block may begin: else it was cut short.
        if self.block is not None and self._read_whole(16) != self.header.sync:
            message = "sync marker expected"
            raise ValueError(message)
        if self.decoder.tell() == len(self.input_file):
            raise EOFError
        try:
            records: int = self.decoder.read_int()
            raw = _decompress(self.header.meta.get("avro.codec", "null"), self.decoder.read_bytes())
        except EOFError as error:
            message = "cut short"
            raise ValueError(message) from error
        self.block = Block(reader=self.reader, block_records=records, block_decoder=StreamingBinaryDecoder(raw))
        return records

    def _read_whole(self, size: int) -> bytes:
        try:
            return bytes(self.decoder.read(size))
        except EOFError as error:
            message = "cut short"
            raise ValueError(message) from error


def _check_avro(kind: Any) -> bool:
    """Whether a value of an Avro type takes space; refuses lists of those that take none, which have no natural end."""
    match kind:
        case list():
            return any([_check_avro(choice) for choice in kind])  # noqa: C419 - each is to be checked
        case {"type": "record", "fields": fields}:
            return any([_check_avro(item["type"]) for item in fields])  # noqa: C419
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            if not _check_avro(inner):
                message = "a list of nothing"
                raise ValueError(message)
            return True
        case {"type": "fixed", "size": size}:
            return bool(size > 0)
        case {"type": inner}:
            return _check_avro(inner)
        case _:
            return bool(kind != "null")


def read_manifest_list(location: str, *, table: str) -> list[ManifestFile]:
    """The manifests of a snapshot."""
    return list(
        _read(
            location,
            table=table,
            schema=MANIFEST_LIST_FILE_SCHEMAS[NEWEST],
            types={-1: ManifestFile, 508: PartitionFieldSummary},
            enums={517: ManifestContent},
        )
    )


def read_entries(manifest: ManifestFile, *, table: str) -> Iterator[ManifestEntry]:
    """The live entries of a manifest, with what they inherit from it."""
    following: int | None = manifest[MANIFEST_FIRST_ROW_ID]
    entries = _read(
        manifest.manifest_path,
        table=table,
        schema=MANIFEST_ENTRY_SCHEMAS[NEWEST],
        types={-1: ManifestEntry, 2: DataFile},
        enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )
    for entry in entries:
        if entry.status is ManifestEntryStatus.DELETED:
            continue
        _inherit(entry, manifest)
        file = entry.data_file
        if following is None:
            file[FIRST_ROW_ID] = None
        elif file[FIRST_ROW_ID] is None and file.content is DataFileContent.DATA:
            file[FIRST_ROW_ID] = following
            following += file.record_count
        yield entry


def _inherit(entry: ManifestEntry, manifest: ManifestFile) -> None:
    if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
        entry.snapshot_id = manifest.added_snapshot_id
    # Files of version 1 have no sequence numbers: they count as 0, and so does their manifest.
    if entry.sequence_number is None:
        entry.sequence_number = manifest.sequence_number or 0
    entry.data_file.spec_id = manifest.partition_spec_id


def _read(location: str, *, table: str, schema: Any, types: Any, enums: Any) -> Iterator[Any]:
    """The records of a file."""
    raw = _raw(location, table=table)
    try:
        with _BoundedAvro(raw, schema, types, enums) as reader:
            for number, record in enumerate(reader):
                if number >= MOST_ENTRIES:
                    break
                yield record
            else:
                return
    except _TooLarge:
        pass
    except _BROKEN as error:
        message = f"The manifest {location} is damaged"
        raise DamagedTable(message) from error
    message = f"{location} holds more than this server reads; plan this scan on the client"
    raise Unsupported(message)


def _raw(location: str, *, table: str) -> bytes:
    check_file(location, location=table, what="manifest")
    try:
        raw: bytes = metadata_files.store_of(location).read_foreign(location, root=table, at_most=LARGEST_FILE)
    except Absent as error:
        message = f"The manifest {location} is missing or cannot be read"
        raise DamagedTable(message) from error
    if len(raw) > LARGEST_FILE:
        message = f"{location} is larger than {LARGEST_FILE} bytes; plan this scan on the client"
        raise Unsupported(message)
    return raw


def _decompress(codec: str, raw: bytes) -> bytes:
    if codec == "null":
        return raw
    if codec != "deflate":
        message = f"Manifests compressed with {codec} are not read by the server; plan this scan on the client"
        raise Unsupported(message)
    decompressor = zlib.decompressobj(-15)
    plain = decompressor.decompress(raw, LARGEST_BLOCK)
    if decompressor.unconsumed_tail:
        raise _TooLarge
    return plain
