"""Manifests as writers make them, of version 3, without the data files that they tell of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StructType

UNPARTITIONED = StructType()
BY_ID = StructType(NestedField(1000, "id", LongType(), required=False))
CODEC = {"avro.codec": "deflate"}


def data_entry(
    path: str, *, partition: Sequence[Any] = (), sequence: int | None = None, **fields: Any
) -> ManifestEntry:
    """An entry of a file; a data file with ten rows, if nothing else is said."""
    file = DataFile.from_args(
        _table_format_version=3,
        **{
            "content": DataFileContent.DATA,
            "file_path": path,
            "file_format": FileFormat.PARQUET,
            "partition": Record(*partition),
            "record_count": 10,
            "file_size_in_bytes": 1000,
            **fields,
        },
    )
    return ManifestEntry.from_args(
        _table_format_version=3,
        status=ManifestEntryStatus.ADDED,
        snapshot_id=None,
        sequence_number=sequence,
        data_file=file,
    )


def write_manifest(
    path: str,
    entries: Sequence[ManifestEntry],
    *,
    snapshot_id: int,
    sequence: int,
    partition: StructType = UNPARTITIONED,
    spec_id: int = 0,
    content: ManifestContent = ManifestContent.DATA,
    first_row_id: int | None = None,
) -> ManifestFile:
    """Write a manifest; answers what a manifest list says of it."""
    schema = manifest_entry_schema_with_data_file(3, data_file_with_partition(partition, 3))
    target = PyArrowFileIO().new_output(path)
    with AvroOutputFile[ManifestEntry](
        target, file_schema=schema, schema_name="manifest_entry", record_schema=schema, metadata=CODEC
    ) as writer:
        for entry in entries:
            writer.write_block([entry])
    rows = sum(entry.data_file.record_count for entry in entries)
    return ManifestFile.from_args(
        _table_format_version=3,
        manifest_path=path,
        manifest_length=len(target),
        partition_spec_id=spec_id,
        content=content,
        sequence_number=sequence,
        min_sequence_number=min([sequence, *(entry.sequence_number or sequence for entry in entries)]),
        added_snapshot_id=snapshot_id,
        added_files_count=len(entries),
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=rows,
        existing_rows_count=0,
        deleted_rows_count=0,
        first_row_id=first_row_id,
    )


def write_manifest_list(path: str, manifests: Sequence[ManifestFile]) -> None:
    """Write a manifest list."""
    schema = MANIFEST_LIST_FILE_SCHEMAS[3]
    with AvroOutputFile[ManifestFile](
        PyArrowFileIO().new_output(path),
        file_schema=schema,
        schema_name="manifest_file",
        record_schema=schema,
        metadata=CODEC,
    ) as writer:
        writer.write_block(list(manifests))
