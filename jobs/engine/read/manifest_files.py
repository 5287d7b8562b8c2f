"""Manifest lists and manifests, read under limits: clients wrote them, and they say whatever their writer wanted.

Sizes are bounded before and after decompression, and so is the number of entries.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import AvroFile, AvroFileHeader, Block
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.exceptions import ResolveError
from pyiceberg.io import FileIO
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
from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

LARGEST_FILE = 64 * 1024 * 1024
LARGEST_BLOCK = 64 * 1024 * 1024
MOST_ENTRIES = 250_000
NEWEST = 3
MOST_SCHEMAS = 8
MAGIC = b"Obj\x01"
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


@dataclass(frozen=True, eq=False)
class _Records:
    """What the records of a file become."""

    schema: Schema
    types: Mapping[int, type]
    enums: Mapping[int, type]


_LIST = _Records(
    MANIFEST_LIST_FILE_SCHEMAS[NEWEST],
    types={-1: ManifestFile, 508: PartitionFieldSummary},
    enums={517: ManifestContent},
)
_ENTRIES = _Records(
    MANIFEST_ENTRY_SCHEMAS[NEWEST],
    types={-1: ManifestEntry, 2: DataFile},
    enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
)


class DamagedManifest(Exception):
    """A manifest is damaged, missing or cannot be read."""


class UnreadableManifest(Exception):
    """A manifest is larger than anything that is read here, or written in another way."""


class _TooLarge(Exception):
    """Decompressed it would be larger than anything a writer makes."""


class _BoundedAvro(AvroFile[ManifestEntry]):  # type: ignore[misc]  # PyIceberg is not checked
    """PyIceberg's reader for files that nobody vouches for.

    Its compiled decoder believes the lengths in a file and reads beyond its end, so the one in Python is used; a block
    cannot grow without end; and nothing can be counted without limit because it takes no space.
    """

    block: Block[ManifestEntry] | None

    def __init__(self, content: bytes, kind: _Records) -> None:
        super().__init__(content, kind.schema)
        self._kind = kind

    def __enter__(self) -> Self:
        self.decoder = StreamingBinaryDecoder(self.input_file)
        self.header = self._read_header()
        self.reader = _resolve(self.header.meta["avro.schema"], self._kind)
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


@lru_cache(maxsize=MOST_SCHEMAS)
def _resolve(written: str, kind: _Records) -> Reader:
    """Return what reads records of a written Avro schema; most files of a kind have the same one."""
    schema = json.loads(written)
    _check_avro(schema)
    return resolve_reader(AvroSchemaConversion().avro_to_iceberg(schema), kind.schema, kind.types, kind.enums)


def _check_avro(kind: Any) -> bool:
    """Return whether a value of an Avro type takes space; refuse lists of those that take none: they have no end."""
    match kind:
        case list():
            return any([_check_avro(choice) for choice in kind])  # noqa: C419 - each is to be checked
        case {"type": "record", "fields": fields}:
            return any([_check_avro(field["type"]) for field in fields])  # noqa: C419
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


def read_manifest_list(location: str, files: FileIO) -> list[ManifestFile]:
    """Read the manifests of a snapshot.

    Raises:
        Damaged: it cannot be read.
        Beyond: it is more than is read here.

    """
    return list(_read(location, files, _LIST))


def read_live_entries(location: str, files: FileIO) -> Iterator[ManifestEntry]:
    """Return the live entries of a manifest, as they are written.

    Raises:
        Damaged: it cannot be read.
        Beyond: it is more than is read here.

    """
    entries = _read(location, files, _ENTRIES)
    return (entry for entry in entries if entry.status is not ManifestEntryStatus.DELETED)


def _read(location: str, files: FileIO, kind: _Records) -> Iterator[Any]:
    """Yield the records of a file."""
    raw = _raw(location, files)
    try:
        with _BoundedAvro(raw, kind) as reader:
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
        raise DamagedManifest(message) from error
    message = f"{location} holds more than this server reads"
    raise UnreadableManifest(message)


def _raw(location: str, files: FileIO) -> bytes:
    try:
        with files.new_input(location).open() as file:
            raw = _read_whole(file)
    except OSError as error:
        message = f"The manifest {location} is missing or cannot be read"
        raise DamagedManifest(message) from error
    if len(raw) > LARGEST_FILE:
        message = f"{location} is larger than {LARGEST_FILE} bytes"
        raise UnreadableManifest(message)
    return raw


def _read_whole(file: Any) -> bytes:
    """Read the content, one byte more than allowed at most; one call may give less than there is."""
    raw = bytearray()
    while len(raw) <= LARGEST_FILE and (part := file.read(LARGEST_FILE + 1 - len(raw))):
        raw += part
    return bytes(raw)


def _decompress(codec: str, raw: bytes) -> bytes:
    if codec == "null":
        return raw
    if codec != "deflate":
        message = f"Manifests compressed with {codec} are not read by the server"
        raise UnreadableManifest(message)
    decompressor = zlib.decompressobj(-15)
    plain = decompressor.decompress(raw, LARGEST_BLOCK)
    if decompressor.unconsumed_tail:
        raise _TooLarge
    return plain
