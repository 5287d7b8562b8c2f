"""Files of a scan in the specification's form.

Bounds are shown as hexadecimal text of their binary form, as the reference implementation writes and reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.types import NestedField

from webapp.catalog.rules.single_values import single_value

CONTENT = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position-deletes",
    DataFileContent.EQUALITY_DELETES: "equality-deletes",
}
STATISTICS = (
    (6, "column-sizes"),
    (7, "value-counts"),
    (8, "null-value-counts"),
    (9, "nan-value-counts"),
    (10, "lower-bounds"),
    (11, "upper-bounds"),
)
# Positions in PyIceberg's record of a file of version 3, which names only the fields of version 2.
FIRST_ROW_ID, REFERENCED_FILE, CONTENT_OFFSET, CONTENT_SIZE = 16, 17, 18, 19


def file_json(
    entry: ManifestEntry, partition: Sequence[NestedField], *, columns: Collection[int] = frozenset()
) -> dict[str, Any]:
    """Write a data or delete file as JSON; `columns` are the ids of the columns whose statistics are wanted."""
    file = entry.data_file
    values = list(file.partition)
    shown: dict[str, Any] = {
        "spec-id": file.spec_id,
        "content": CONTENT[file.content],
        "file-path": file.file_path,
        "file-format": file.file_format.value.lower(),
        "partition": [single_value(field.field_type, value) for field, value in zip(partition, values, strict=True)],
        "file-size-in-bytes": file.file_size_in_bytes,
        "record-count": file.record_count,
    }
    shown |= _present(
        {
            "key-metadata": None if file.key_metadata is None else file.key_metadata.hex().upper(),
            "split-offsets": file.split_offsets,
            "sort-order-id": file.sort_order_id,
        }
    )
    if file.content is DataFileContent.DATA:
        return shown | _data_fields(entry) | _statistics(file, columns)
    return shown | _delete_fields(file)


def _data_fields(entry: ManifestEntry) -> dict[str, Any]:
    first = extra(entry.data_file, FIRST_ROW_ID)
    # Readers of row lineage give rows that carry none the sequence number of their file.
    return {} if first is None else {"first-row-id": first, "data-sequence-number": entry.sequence_number}


def _delete_fields(file: DataFile) -> dict[str, Any]:
    return _present(
        {
            "equality-ids": file.equality_ids if file.content is DataFileContent.EQUALITY_DELETES else None,
            "referenced-data-file": extra(file, REFERENCED_FILE),
            "content-offset": extra(file, CONTENT_OFFSET),
            "content-size-in-bytes": extra(file, CONTENT_SIZE),
        }
    )


def _statistics(file: DataFile, columns: Collection[int]) -> dict[str, Any]:
    statistics = {}
    for position, name in STATISTICS if columns else ():
        values_by_key = {key: value for key, value in (extra(file, position) or {}).items() if key in columns}
        if values_by_key:
            values = [value.hex().upper() if isinstance(value, bytes) else value for value in values_by_key.values()]
            statistics[name] = {"keys": list(values_by_key), "values": values}
    return statistics


def extra(file: DataFile, position: int) -> Any:
    """Return a field of a file by its position."""
    return file[position]


def _present(items: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in items.items() if value is not None}
