"""Reads an empty manifest list and an empty manifest, so that what reads their records is there before jobs are forked.

PyIceberg makes schemas and readers from the schema that is written in a file; most files have the ones that are used here.
"""

from __future__ import annotations

import io
import json
from typing import Any, NoReturn

from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.io import FileIO, InputFile
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.schema import Schema
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from jobs.engine.read.manifest_files import MAGIC, read_live_entries, read_manifest_list

VERSION = 2
"""The format that tables have unless somebody wants another."""


class _Content(InputFile):  # type: ignore[misc]  # PyIceberg is not checked
    """A file in memory."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> io.BytesIO:  # noqa: ARG002 - every file is
        return io.BytesIO(self._content)


class _Contents(FileIO):  # type: ignore[misc]
    """Files in memory, for reading alone."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        super().__init__({})
        self._contents = contents

    def new_input(self, location: str) -> _Content:
        return _Content(location, self._contents[location])

    def new_output(self, location: str) -> NoReturn:
        raise PermissionError(location)

    def delete(self, location: Any) -> NoReturn:
        raise PermissionError(location)


def rehearse() -> None:
    """Read one file of each kind, as PyIceberg writes it for a table without partitions."""
    entries = manifest_entry_schema_with_data_file(VERSION, data_file_with_partition(StructType(), VERSION))
    files = _Contents(
        {
            "list": _make_empty(MANIFEST_LIST_FILE_SCHEMAS[VERSION], "manifest_file"),
            "entries": _make_empty(entries, "manifest_entry"),
        }
    )
    read_manifest_list("list", files)
    list(read_live_entries("entries", files))


def _make_empty(schema: Schema, name: str) -> bytes:
    """Return an Avro file without a record."""
    content = io.BytesIO()
    written = json.dumps(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name))
    header = AvroFileHeader(MAGIC, {"avro.schema": written, "avro.codec": "null"}, bytes(16))
    construct_writer(META_SCHEMA).write(BinaryEncoder(content), header)
    return content.getvalue()
