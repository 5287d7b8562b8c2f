"""Table metadata as Iceberg's specification writes it, as types: at run time all of it is plain dictionaries.

What a client sends becomes one of these when it has been checked. Members that a writer adds and that are not named here are
kept all the same.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class Struct(TypedDict):
    """Columns within a column."""

    type: Literal["struct"]
    fields: list[SchemaField]


ListType = TypedDict(
    "ListType",
    {"type": Literal["list"], "element-id": int, "element": "ColumnType", "element-required": bool},
)
MapType = TypedDict(
    "MapType",
    {
        "type": Literal["map"],
        "key-id": int,
        "key": "ColumnType",
        "value-id": int,
        "value": "ColumnType",
        "value-required": bool,
    },
)
ColumnType = str | Struct | ListType | MapType
SchemaField = TypedDict(
    "SchemaField",
    {
        "id": int,
        "name": str,
        "type": ColumnType,
        "required": bool,
        "doc": NotRequired[str | None],
        "initial-default": NotRequired[object],
        "write-default": NotRequired[object],
    },
)
Schema = TypedDict(
    "Schema",
    {
        "type": Literal["struct"],
        "schema-id": int,
        "fields": list[SchemaField],
        "identifier-field-ids": NotRequired[list[int] | None],
    },
)
PartitionField = TypedDict(
    "PartitionField",
    {
        "field-id": int,
        "name": str,
        "transform": str,
        "source-id": NotRequired[int],
        "source-ids": NotRequired[list[int] | None],
    },
)
"""It names its source, or of version 3 on its sources."""
PartitionSpec = TypedDict("PartitionSpec", {"spec-id": int, "fields": list[PartitionField]})
SortField = TypedDict(
    "SortField",
    {
        "transform": str,
        "direction": Literal["asc", "desc"],
        "null-order": Literal["nulls-first", "nulls-last"],
        "source-id": NotRequired[int],
        "source-ids": NotRequired[list[int] | None],
    },
)
SortOrder = TypedDict("SortOrder", {"order-id": int, "fields": list[SortField]})
Snapshot = TypedDict(
    "Snapshot",
    {
        "snapshot-id": int,
        "timestamp-ms": int,
        "parent-snapshot-id": NotRequired[int | None],
        "sequence-number": NotRequired[int],
        "summary": NotRequired[dict[str, str]],
        "manifest-list": NotRequired[str],
        "manifests": NotRequired[list[str]],
        "schema-id": NotRequired[int | None],
        "first-row-id": NotRequired[int],
        "added-rows": NotRequired[int],
    },
)
"""One of version 1 has no sequence number, and may list its manifests itself."""
SnapshotRef = TypedDict(
    "SnapshotRef",
    {
        "snapshot-id": int,
        "type": Literal["branch", "tag"],
        "max-ref-age-ms": NotRequired[int],
        "max-snapshot-age-ms": NotRequired[int],
        "min-snapshots-to-keep": NotRequired[int],
    },
)
SnapshotLogEntry = TypedDict("SnapshotLogEntry", {"snapshot-id": int, "timestamp-ms": int})
MetadataLogEntry = TypedDict("MetadataLogEntry", {"metadata-file": str, "timestamp-ms": int})
StatisticsFile = TypedDict("StatisticsFile", {"snapshot-id": int, "statistics-path": str})
"""Of a snapshot, or of its partitions; the catalog needs no more of it."""
EncryptionKey = TypedDict("EncryptionKey", {"key-id": str, "encrypted-key-metadata": str})
History = Literal["schemas", "partition-specs", "sort-orders"]
Statistics = Literal["statistics", "partition-statistics"]
Metadata = TypedDict(
    "Metadata",
    {
        "format-version": int,
        "table-uuid": str,
        "location": str,
        "last-sequence-number": int,
        "last-updated-ms": int,
        "last-column-id": int,
        "current-schema-id": int,
        "schemas": list[Schema],
        "default-spec-id": int,
        "partition-specs": list[PartitionSpec],
        "last-partition-id": int,
        "default-sort-order-id": int,
        "sort-orders": list[SortOrder],
        "properties": dict[str, str],
        "current-snapshot-id": int | None,
        "refs": dict[str, SnapshotRef],
        "snapshots": list[Snapshot],
        "statistics": list[StatisticsFile],
        "partition-statistics": list[StatisticsFile],
        "snapshot-log": list[SnapshotLogEntry],
        "metadata-log": list[MetadataLogEntry],
        "next-row-id": NotRequired[int],
        "encryption-keys": NotRequired[list[EncryptionKey]],
        "schema": NotRequired[Schema],
        "partition-spec": NotRequired[list[PartitionField]],
    },
)
"""Of a table. The last two repeat the current schema and spec for readers of version 1, in what is written for them."""
