"""What every reader must be able to parse is checked before it enters the metadata.

One part that a client's parser refuses closes the whole table to that client, on all branches: a commit on one branch could
take the table away from everybody. The reference implementation refuses such a request while it parses it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webapp.catalog.rules.branch_properties import MAIN_REF, PREFIX, SUFFIXES, tracked_branches, tracked_ids
from webapp.catalog.rules.column_types import is_int
from webapp.catalog.rules.errors import Invalid, Malformed
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.locations import check_file, check_path_properties
from webapp.catalog.rules.metadata import (
    blank,
    current_ids,
    current_snapshot_id,
    field,
    find,
    numbers,
    objects,
    optional_field,
    texts,
)
from webapp.catalog.rules.partition_names import find_clash
from webapp.catalog.rules.table_properties import LONGEST_NAME, check_properties
from webapp.core.numbers import read_count

OPERATIONS = frozenset({"append", "replace", "overwrite", "delete"})
MINUTE_MS = 60_000
_TRANSFORM = re.compile(r"(?:bucket|truncate)\[0*[1-9]\d{0,8}\]|(?!bucket|truncate)\w+", re.ASCII)
_RETENTION = ("max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep")
_FOR_BRANCHES = ("max-snapshot-age-ms", "min-snapshots-to-keep")
_MEMBERS = {
    "schemas": {"schema-id", "type", "fields"},
    "partition-specs": {"spec-id", "fields"},
    "sort-orders": {"order-id", "fields"},
    "snapshots": {"snapshot-id", "timestamp-ms"},
    "snapshot-log": {"snapshot-id", "timestamp-ms"},
    "metadata-log": {"metadata-file", "timestamp-ms"},
    "statistics": {"snapshot-id"},
    "partition-statistics": {"snapshot-id"},
}
_CURRENT = (
    ("schemas", "schema-id", "current-schema-id"),
    ("partition-specs", "spec-id", "default-spec-id"),
    ("sort-orders", "order-id", "default-sort-order-id"),
)
_TABLE = frozenset(blank(uuid="", location="", version=1, now_ms=0)) - {"current-snapshot-id"}
_VIEW = frozenset({"view-uuid", "location", "schemas", "versions", "version-log", "current-version-id", "properties"})


def is_whole(metadata: Mapping[str, Any]) -> bool:
    """Return whether metadata of this catalog still has the parts that it works with: a disk may have damaged it."""
    if metadata.keys() >= _VIEW:
        return True
    if not metadata.keys() >= _TABLE or not isinstance(metadata["properties"], dict):
        return False
    refs = list(metadata["refs"].values()) if isinstance(metadata["refs"], dict) else None
    has_parts = _have({"snapshot-id", "type"}, refs) and all(
        _have(members, metadata[key]) for key, members in _MEMBERS.items()
    )
    return has_parts and all(
        any(item[id_key] == metadata[current] for item in metadata[key]) for key, id_key, current in _CURRENT
    )


def _have(members: set[str], items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(item, dict) and item.keys() >= members for item in items)


def check_snapshot(snapshot: Mapping[str, Any]) -> None:
    """Refuse a snapshot whose members are of the wrong kind."""
    where = "snapshot"
    for key in ("snapshot-id", "timestamp-ms"):
        if field(snapshot, key, int, where=where) < 0:
            message = f"Cannot parse snapshot: '{key}' must not be negative"
            raise Malformed(message)
    for key in ("parent-snapshot-id", "sequence-number", "first-row-id", "added-rows"):
        optional_field(snapshot, key, int, where=where)
    _small(snapshot, "schema-id", where=where)
    optional_field(snapshot, "key-id", str, where=where)
    if "summary" not in snapshot:
        return
    operation = texts(snapshot, "summary", where=where).get("operation")
    if operation is not None and operation not in OPERATIONS:
        message = f"Cannot parse snapshot: unknown operation {operation!r}"
        raise Malformed(message)


def check_ref(name: str, ref: Mapping[str, Any]) -> None:
    """Refuse a branch or tag with retention that means nothing."""
    if not name or len(name) > LONGEST_NAME:
        message = f"Invalid ref name: {name[:100]!r}"
        raise Malformed(message)
    kind = ref["type"]
    for key in _RETENTION:
        value = optional_field(ref, key, int, where=f"ref {name}")
        if value is not None and (value <= 0 or (kind == "tag" and key in _FOR_BRANCHES)):
            message = f"Cannot set {key} of {kind} {name} to {value}"
            raise Invalid(message)
    _small(ref, "min-snapshots-to-keep", where=f"ref {name}")


def check_statistics(statistics: Mapping[str, Any]) -> None:
    """Refuse an incomplete entry for a statistics file."""
    where = "statistics"
    for key in ("file-size-in-bytes", "file-footer-size-in-bytes"):
        field(statistics, key, int, where=where)
    optional_field(statistics, "key-metadata", str, where=where)
    for blob in objects(statistics, "blob-metadata", where=where):
        field(blob, "type", str, where=where)
        field(blob, "snapshot-id", int, where=where)
        field(blob, "sequence-number", int, where=where)
        if not all(map(is_int, numbers(blob, "fields", where=where))):
            message = "Cannot parse statistics: a field id is too large"
            raise Malformed(message)
        if blob.get("properties") is not None:
            texts(blob, "properties", where=where)


def check_partition_statistics(statistics: Mapping[str, Any]) -> None:
    """Refuse an incomplete entry for a partition statistics file."""
    field(statistics, "file-size-in-bytes", int, where="partition statistics")


def check_encryption_key(key: Mapping[str, Any]) -> None:
    """Refuse an incomplete encryption key."""
    where = "encryption key"
    field(key, "encrypted-key-metadata", str, where=where)
    optional_field(key, "encrypted-by-id", str, where=where)
    if key.get("properties") is not None:
        texts(key, "properties", where=where)


def check_partition_fields(fields: Iterable[Mapping[str, Any]]) -> None:
    """Refuse a partition spec whose fields have bad names or transforms."""
    names: set[str] = set()
    for item in fields:
        name = field(item, "name", str, where="partition field")
        if not name or name in names:
            message = f"Invalid partition spec: the name {name!r} is empty or used more than once"
            raise Invalid(message)
        names.add(name)
        _small(item, "field-id", where="partition field")
        _check_source(item, where="partition field")


def check_sort_fields(fields: Iterable[Mapping[str, Any]]) -> None:
    """Refuse a sort order that says nothing that a reader knows."""
    for item in fields:
        _check_source(item, where="sort field")
        for key, words in (("direction", ("asc", "desc")), ("null-order", ("nulls-first", "nulls-last"))):
            if field(item, key, str, where="sort field") not in words:
                message = f"Cannot parse sort field: unknown {key} {item[key]!r}"
                raise Malformed(message)


def check_partition_names(metadata: Metadata) -> None:
    """Refuse metadata in which a branch has a partition field with the name of a column that it is not made of.

    Java and PyIceberg bind specs to the schema they read, and give up where such a name is another column's.
    """
    main = current_ids(metadata)
    branches = {"master": main}
    for branch in tracked_branches(metadata["properties"]):
        branches[branch] = tracked_ids(metadata["properties"], branch, default=main) or main
    for branch, ids in branches.items():
        name = find_clash({**metadata, "current-schema-id": ids.schema_id, "default-spec-id": ids.spec_id})
        if name is not None:
            message = (
                f"A partition field and a column on branch {branch} cannot both be called {name}: choose another name"
            )
            raise Invalid(message)


def check_foreign(metadata: Metadata, *, now_ms: int) -> None:
    """Refuse metadata of another writer that some reader, or this catalog, could not use."""
    where = "table metadata"
    for key in ("last-sequence-number", "last-updated-ms", "last-partition-id"):
        field(metadata, key, int, where=where)
    _check_known(metadata)
    check_properties(metadata["properties"])
    check_path_properties(metadata["properties"], location=metadata["location"])
    _check_tracked(metadata)
    for spec in metadata["partition-specs"]:
        check_partition_fields(objects(spec, "fields", where=where))
    for order in metadata["sort-orders"]:
        check_sort_fields(objects(order, "fields", where=where))
    check_partition_names(metadata)
    for snapshot in metadata["snapshots"]:
        check_snapshot(snapshot)
        if (snapshot.get("sequence-number") or 0) > metadata["last-sequence-number"]:
            message = (
                f"Invalid table metadata: snapshot {snapshot['snapshot-id']} is newer than the last sequence number"
            )
            raise Invalid(message)
        if "manifests" not in snapshot or metadata["format-version"] > 1:
            path = field(snapshot, "manifest-list", str, where="snapshot")
            check_file(path, location=metadata["location"], what="manifest list")
    for key, check in (("statistics", check_statistics), ("partition-statistics", check_partition_statistics)):
        for item in objects(metadata, key, where=where):
            field(item, "snapshot-id", int, where=key)
            field(item, "statistics-path", str, where=key)
            check(item)
    for item in objects(metadata, "encryption-keys", where=where) if metadata.get("encryption-keys") else []:
        field(item, "key-id", str, where="encryption key")
        check_encryption_key(item)
    _check_refs(metadata)
    _check_logs(metadata)
    logs = [*metadata["snapshots"], *metadata["snapshot-log"], *metadata["metadata-log"]]
    newest = max([metadata["last-updated-ms"], *(entry["timestamp-ms"] for entry in logs)])
    if newest > now_ms + MINUTE_MS:
        message = f"Invalid table metadata: it is dated {newest}, more than a minute in the future"
        raise Invalid(message)


def _check_known(metadata: Metadata) -> None:
    """Refuse ids that are not unique, and current ones that are not among them."""
    ids = current_ids(metadata)
    parts: tuple[tuple[str, Sequence[Mapping[str, Any]], str, int | None], ...] = (
        ("schemas", metadata["schemas"], "schema-id", ids.schema_id),
        ("partition-specs", metadata["partition-specs"], "spec-id", ids.spec_id),
        ("sort-orders", metadata["sort-orders"], "order-id", ids.order_id),
        ("snapshots", metadata["snapshots"], "snapshot-id", current_snapshot_id(metadata)),
    )
    for key, items, id_key, current in parts:
        numbers = [field(item, id_key, int, where=key) for item in items]
        if len(set(numbers)) != len(numbers):
            message = f"Invalid table metadata: two {key} with one {id_key}"
            raise Invalid(message)
        if current is not None and current not in numbers:
            message = f"Invalid table metadata: the current {id_key} {current} is not there"
            raise Invalid(message)


def _check_tracked(metadata: Metadata) -> None:
    for branch in tracked_branches(metadata["properties"]):
        for suffix in SUFFIXES:
            text = metadata["properties"].get(f"{PREFIX}{branch}{suffix}")
            if text is not None and read_count(text) is None:
                message = f"Property {PREFIX}{branch}{suffix} is not a number: {text!r}"
                raise Malformed(message)
        ids = tracked_ids(metadata["properties"], branch, default=current_ids(metadata))
        if ids is None:
            continue
        parts: tuple[tuple[Sequence[Mapping[str, Any]], str, int], ...] = (
            (metadata["schemas"], "schema-id", ids.schema_id),
            (metadata["partition-specs"], "spec-id", ids.spec_id),
            (metadata["sort-orders"], "order-id", ids.order_id),
        )
        for items, id_key, number in parts:
            if find(items, id_key, number) is None:
                message = f"Invalid table metadata: branch {branch} uses {id_key} {number}, which is not there"
                raise Invalid(message)


def _check_refs(metadata: Metadata) -> None:
    snapshots = {snapshot["snapshot-id"] for snapshot in metadata["snapshots"]}
    for name, ref in metadata["refs"].items():
        kind = field(ref, "type", str, where=f"ref {name}")
        if kind not in ("branch", "tag") or field(ref, "snapshot-id", int, where=f"ref {name}") not in snapshots:
            message = f"Invalid table metadata: ref {name} is neither branch nor tag of a snapshot that is there"
            raise Invalid(message)
        check_ref(name, ref)
    main = metadata["refs"].get(MAIN_REF)
    head = None if main is None else main["snapshot-id"]
    if head != current_snapshot_id(metadata) or (main is not None and main["type"] != "branch"):
        message = (
            f"Invalid table metadata: main is not a branch at the current snapshot {current_snapshot_id(metadata)}"
        )
        raise Invalid(message)


def _check_logs(metadata: Metadata) -> None:
    for key, kind, member in (("snapshot-log", int, "snapshot-id"), ("metadata-log", str, "metadata-file")):
        stamps = [0]
        for entry in objects(metadata, key, where="table metadata"):
            field(entry, member, kind, where=key)
            stamps.append(field(entry, "timestamp-ms", int, where=key))
        if stamps != sorted(stamps):
            message = f"Invalid table metadata: the {key} runs backwards"
            raise Invalid(message)


def _check_source(item: Mapping[str, Any], *, where: str) -> None:
    transform = field(item, "transform", str, where=where)
    if _TRANSFORM.fullmatch(transform) is None:
        message = f"Cannot parse {where}: unknown transform {transform!r}"
        raise Malformed(message)
    if item.get("source-ids") is None:
        field(item, "source-id", int, where=where)
    else:
        numbers(item, "source-ids", where=where)


def _small(body: Mapping[str, Any], key: str, *, where: str) -> None:
    value = optional_field(body, key, int, where=where)
    if value is not None and not is_int(value):
        message = f"Cannot parse {where}: '{key}' is too large"
        raise Malformed(message)
