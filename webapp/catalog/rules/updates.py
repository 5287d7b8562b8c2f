"""Apply updates to table metadata, as the reference implementation's server does: a fold over plain dictionaries.

Ids of schemas, specs and orders are reused where the same one is known and otherwise created here, whatever number the
client proposed; `-1` means "the one added last". A client may prepare a commit on numbers that another branch has taken
meanwhile: stale numbers are a retryable 409, because nothing is wrong with the request but its age.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, cast

from webapp.catalog.rules import readable
from webapp.catalog.rules.branch_properties import MAIN_REF, is_reserved
from webapp.catalog.rules.column_types import same_default
from webapp.catalog.rules.errors import CommitFailed, Invalid, Malformed
from webapp.catalog.rules.field_ids import check_field_ids
from webapp.catalog.rules.iceberg import (
    EncryptionKey,
    Metadata,
    PartitionField,
    PartitionSpec,
    Schema,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    SortField,
    SortOrder,
    Statistics,
    StatisticsFile,
)
from webapp.catalog.rules.locations import check_file, check_path_properties
from webapp.catalog.rules.metadata import (
    HISTORIES,
    SUPPORTED_VERSIONS,
    UNSTORED_PROPERTIES,
    check_schema,
    current_ids,
    current_snapshot_id,
    field,
    find,
    highest_field_id,
    list_defaults,
    no_snapshot,
    numbers,
    objects,
    optional_field,
    same_schema,
    schema_of,
    snapshot_of,
    texts,
    walk_back,
    walk_fields,
)
from webapp.catalog.rules.table_properties import check_properties

LAST_ADDED = -1
Sourced = PartitionField | SortField
STATISTICS: tuple[Statistics, ...] = ("statistics", "partition-statistics")
ROW_LINEAGE_VERSION = 3
MOST_AHEAD = 1_000
"""So far beyond the newest number a writer that has read the table can be, behind what it adds: it counts on from there."""
MOST_ROWS = 10**12
"""Of one snapshot, where rows have numbers."""


@dataclass(slots=True)
class Fold:
    """Metadata on its way through the updates of one commit, and what this commit has added so far."""

    metadata: Metadata
    now_ms: int
    creating: bool = False
    place: str = ""
    """Where the table may move to."""
    last_schema: int | None = None
    last_spec: int | None = None
    last_order: int | None = None
    renumbered_schemas: dict[int, int] = dataclass_field(default_factory=dict)
    renumbered_files: list[str] = dataclass_field(default_factory=list)
    added_snapshots: dict[int, int] = dataclass_field(default_factory=dict)
    removed_snapshots: bool = False
    passed_heads: list[int] = dataclass_field(default_factory=list)


def find_location(updates: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the location that the updates of a commit name last, without a slash at its end; None if they name none."""
    named = [str(update.get("location")).rstrip("/") for update in updates if update.get("action") == "set-location"]
    return named[-1] if named else None


def apply_updates(
    metadata: Metadata, updates: Iterable[dict[str, Any]], *, now_ms: int, creating: bool = False, place: str = ""
) -> Metadata:
    """Return the metadata after the updates; the same object when they change nothing. The table may move to `place`."""
    fold = Fold(metadata=metadata.copy(), now_ms=now_ms, creating=creating, place=place)
    for update in updates:
        action = field(update, "action", str, where="update")
        apply = UPDATES.get(action)
        if apply is None:
            message = f"Cannot apply unknown update: {action}"
            raise Malformed(message)
        apply(fold, update)
    if fold.added_snapshots and fold.renumbered_files:
        # Manifests of this commit carry the numbers that the client expected.
        message = f"Another commit has taken {' and '.join(fold.renumbered_files)} meanwhile"
        raise CommitFailed(message)
    if fold.metadata == metadata:
        return metadata
    if current_ids(fold.metadata) != current_ids(metadata):
        _check_bound(fold.metadata)
        _check_defaults(metadata, fold.metadata)
    return _finish(fold)


def _check_bound(metadata: Metadata) -> None:
    """Refuse a current schema that lacks a column of the default spec or order: no Java reader could open the table.

    Clients check this themselves, but on what they saw: the spec may be newer than that.
    """
    schema = find(metadata["schemas"], "schema-id", metadata["current-schema-id"])
    spec = find(metadata["partition-specs"], "spec-id", metadata["default-spec-id"])
    order = find(metadata["sort-orders"], "order-id", metadata["default-sort-order-id"])
    columns = _column_ids(schema) if schema is not None else set()
    for kind, used in (("partition spec", spec), ("sort order", order)):
        for item in used["fields"] if used is not None else ():
            missing = set(_sources(item)) - columns
            if missing and item["transform"] != "void":
                message = f"The default {kind} needs column {min(missing)}, which the current schema does not have"
                raise Invalid(message)


def _check_defaults(before: Metadata, after: Metadata) -> None:
    """Refuse another initial default of a column whose rows stay: those older than the column would read another value.

    A table that is replaced has none of them left.
    """
    head = current_snapshot_id(before)
    if head is None or all(item["snapshot-id"] != head for item in _walk_head(after)):
        return
    old, new = (schema_of(metadata, metadata["current-schema-id"]) for metadata in (before, after))
    old_defaults, new_defaults = dict(list_defaults(old)), dict(list_defaults(new))
    old_kinds = {number: kind for number, _, kind in walk_fields(old)}
    for number, name, kind in walk_fields(new):
        defaults = new_defaults.get(number), old_defaults.get(number)
        if number in old_kinds and not same_default(kind, defaults[0], old_kinds[number], defaults[1]):
            message = (
                f"Cannot change the initial default of column {name}: rows that are older than the column would read "
                "another value. Change its write default, or add another column."
            )
            raise Invalid(message)


def _walk_head(metadata: Metadata) -> Iterator[Snapshot]:
    return walk_back(metadata["snapshots"], current_snapshot_id(metadata))


def last_updated(metadata: Metadata, *, now_ms: int) -> int:
    """Return a time not before any entry of the logs: readers refuse metadata that is older than its own history."""
    logs = (metadata["snapshot-log"], metadata["metadata-log"])
    newest: list[int] = [log[-1]["timestamp-ms"] for log in logs if log]
    return max([now_ms, *newest])


def _finish(fold: Fold) -> Metadata:
    metadata = fold.metadata
    head = current_snapshot_id(metadata)
    passed = {snapshot for snapshot in fold.passed_heads if snapshot != head}
    if passed or fold.removed_snapshots:
        metadata["snapshot-log"] = _clean_log(metadata, passed=passed)
    newest = max(fold.added_snapshots.values(), default=0)
    metadata["last-updated-ms"] = max(last_updated(metadata, now_ms=fold.now_ms), newest)
    return metadata


def _clean_log(metadata: Metadata, *, passed: set[int]) -> list[SnapshotLogEntry]:
    """Drop from the log heads that lasted only within this commit; a gap cuts everything before it."""
    snapshot_ids = {snapshot["snapshot-id"] for snapshot in metadata["snapshots"]}
    log: list[SnapshotLogEntry] = []
    for entry in metadata["snapshot-log"]:
        if entry["snapshot-id"] not in snapshot_ids:
            log.clear()
        elif entry["snapshot-id"] not in passed:
            log.append(entry)
    return log


def _assign_uuid(fold: Fold, update: dict[str, Any]) -> None:
    uuid = field(update, "uuid", str, where="assign-uuid")
    if uuid == fold.metadata["table-uuid"]:
        return
    if not fold.creating:
        message = f"Cannot reassign uuid {fold.metadata['table-uuid']} to {uuid}"
        raise Invalid(message)
    fold.metadata["table-uuid"] = uuid


def _upgrade_format_version(fold: Fold, update: dict[str, Any]) -> None:
    version = field(update, "format-version", int, where="upgrade-format-version")
    current = fold.metadata["format-version"]
    if version not in SUPPORTED_VERSIONS:
        message = (
            f"Cannot upgrade table to unsupported format version: v{version} (supported: v{SUPPORTED_VERSIONS[-1]})"
        )
        raise Invalid(message)
    if version < current and not (fold.creating and not fold.metadata["schemas"]):
        message = f"Cannot downgrade v{current} table to v{version}"
        raise Invalid(message)
    if version == current:
        return
    fold.metadata["format-version"] = version
    if version >= ROW_LINEAGE_VERSION:
        fold.metadata.setdefault("next-row-id", 0)
    else:
        fold.metadata.pop("next-row-id", None)
    if current_snapshot_id(fold.metadata) is None:
        fold.metadata["current-snapshot-id"] = no_snapshot(fold.metadata)


def _add_schema(fold: Fold, update: dict[str, Any]) -> None:
    metadata = fold.metadata
    schema: Schema = field(update, "schema", dict, where="add-schema")
    check_schema(schema, version=metadata["format-version"])
    proposed = optional_field(schema, "schema-id", int, where="schema")
    # Deprecated, and only the highest id of this schema: it goes down when the newest column is dropped. Whether the writer
    # knows the newest ids is what `assert-last-assigned-field-id` asks.
    stated = optional_field(update, "last-column-id", int, where="add-schema")
    number = next((old["schema-id"] for old in metadata["schemas"] if same_schema(old, schema)), None)
    if number is None:
        check_field_ids(metadata, schema)
        number = 1 + max((old["schema-id"] for old in metadata["schemas"]), default=-1)
        metadata["schemas"] = [*metadata["schemas"], {**schema, "schema-id": number}]
        highest = max(highest_field_id(schema), stated or 0)
        added = len(_column_ids(schema))
        metadata["last-column-id"] = _count_on(metadata["last-column-id"], highest, added=added, what="column id")
    if proposed is not None:
        fold.renumbered_schemas[proposed] = number
    fold.last_schema = number


def _set_current_schema(fold: Fold, update: dict[str, Any]) -> None:
    number = _resolve(update, "schema-id", fold.last_schema, what="schema")
    # The number is the client's; in this very commit the schema may have got another one.
    schema_id = fold.renumbered_schemas.get(number, number) if update["schema-id"] != LAST_ADDED else number
    if find(fold.metadata["schemas"], "schema-id", schema_id) is None:
        message = f"Cannot set current schema to unknown schema: {number}"
        raise Invalid(message)
    fold.metadata["current-schema-id"] = schema_id


def _add_spec(fold: Fold, update: dict[str, Any]) -> None:
    metadata = fold.metadata
    spec: PartitionSpec = field(update, "spec", dict, where="add-spec")
    fields: list[PartitionField] = objects(spec, "fields", where="partition spec")
    readable.check_partition_fields(fields)
    _check_sources(fold, fields, what="partition")
    proposed = optional_field(spec, "spec-id", int, where="partition spec")
    equal = next((old for old in metadata["partition-specs"] if _same_spec(old["fields"], fields)), None)
    if equal is None:
        numbered = _number_partition_fields(metadata, fields)
        number = 1 + max((old["spec-id"] for old in metadata["partition-specs"]), default=-1)
        metadata["partition-specs"] = [*metadata["partition-specs"], {"spec-id": number, "fields": numbered}]
        highest = max((item["field-id"] for item in numbered), default=0)
        last, added = metadata["last-partition-id"], len(numbered)
        metadata["last-partition-id"] = _count_on(last, highest, added=added, what="partition field id")
    else:
        number = equal["spec-id"]
    if proposed not in (None, LAST_ADDED, number):
        fold.renumbered_files.append(f"partition spec id {proposed}")
    fold.last_spec = number


def _check_sources(fold: Fold, fields: Sequence[Sourced], *, what: str) -> None:
    source_ids = {number for item in fields for number in _sources(item) if item["transform"] != "void"}
    if not source_ids:
        return
    for schema in reversed(fold.metadata["schemas"]):
        source_ids -= _column_ids(schema)
        if not source_ids:
            return
    message = f"Cannot find source column for {what} field: {sorted(source_ids)}"
    raise Invalid(message)


def _column_ids(schema: Schema) -> set[int]:
    return {number for number, _, _ in walk_fields(schema)}


def _sources(item: Sourced) -> tuple[int, ...]:
    many = item.get("source-ids")
    return tuple(many) if many is not None else (item["source-id"],)


def _same_spec(fields: list[PartitionField], other: list[PartitionField]) -> bool:
    return [(_sources(item), item["transform"], item["name"]) for item in fields] == [
        (_sources(item), item["transform"], item["name"]) for item in other
    ]


def _number_partition_fields(metadata: Metadata, fields: list[PartitionField]) -> list[PartitionField]:
    """Give fields their ids: the proposed one, else that of the same field in an older spec, else the next."""
    meanings = {
        item["field-id"]: (_sources(item), item["transform"])
        for spec in metadata["partition-specs"]
        for item in spec["fields"]
    }
    by_meaning = {meaning: number for number, meaning in meanings.items()}
    last = metadata["last-partition-id"]
    numbered: list[PartitionField] = []
    for item in fields:
        meaning = (_sources(item), item["transform"])
        number = item.get("field-id")
        if number is None:
            number = by_meaning.get(meaning)
        if number is None:
            last += 1
            number = last
        old = meanings.get(number)
        if old is not None and old != meaning and not (old[0] == meaning[0] and "void" in (old[1], meaning[1])):
            message = f"Partition field id {number} of {item['name']} already stands for another field in the history"
            raise CommitFailed(message)
        last = max(last, number)
        numbered.append({**item, "field-id": number})
    if len({item["field-id"] for item in numbered}) != len(numbered):
        message = "Invalid partition spec: multiple fields with one id"
        raise Invalid(message)
    return numbered


def _set_default_spec(fold: Fold, update: dict[str, Any]) -> None:
    number = _resolve(update, "spec-id", fold.last_spec, what="partition spec")
    if find(fold.metadata["partition-specs"], "spec-id", number) is None:
        message = f"Cannot set default partition spec to unknown spec: {number}"
        raise Invalid(message)
    fold.metadata["default-spec-id"] = number


def _add_sort_order(fold: Fold, update: dict[str, Any]) -> None:
    metadata = fold.metadata
    order: SortOrder = field(update, "sort-order", dict, where="add-sort-order")
    fields: list[SortField] = objects(order, "fields", where="sort order")
    readable.check_sort_fields(fields)
    _check_sources(fold, fields, what="sort")
    optional_field(order, "order-id", int, where="sort order")
    number = next((old["order-id"] for old in metadata["sort-orders"] if old["fields"] == fields), None)
    if number is None:
        highest = max((old["order-id"] for old in metadata["sort-orders"]), default=0)
        number = max(highest + 1, 1) if fields else 0
        metadata["sort-orders"] = [*metadata["sort-orders"], {"order-id": number, "fields": fields}]
    fold.last_order = number


def _set_default_sort_order(fold: Fold, update: dict[str, Any]) -> None:
    number = _resolve(update, "sort-order-id", fold.last_order, what="sort order")
    if find(fold.metadata["sort-orders"], "order-id", number) is None:
        message = f"Cannot set default sort order to unknown sort order: {number}"
        raise Invalid(message)
    fold.metadata["default-sort-order-id"] = number


def _add_snapshot(fold: Fold, update: dict[str, Any]) -> None:
    metadata = fold.metadata
    snapshot: Snapshot = field(update, "snapshot", dict, where="add-snapshot").copy()
    number = field(snapshot, "snapshot-id", int, where="snapshot")
    stamp = field(snapshot, "timestamp-ms", int, where="snapshot")
    parent = optional_field(snapshot, "parent-snapshot-id", int, where="snapshot")
    for key in HISTORIES:
        if not metadata[key]:
            message = f"Attempting to add a snapshot before {key} are added"
            raise Invalid(message)
    if snapshot_of(metadata, number) is not None:
        message = f"Snapshot already exists for id: {number}"
        raise Invalid(message)
    if stamp > fold.now_ms + readable.MINUTE_MS:
        # The writer's clock is ahead, or this one was set back: other clients refuse what is dated after their commits.
        stamp = snapshot["timestamp-ms"] = fold.now_ms
    readable.check_snapshot(snapshot)
    _check_manifest_list(metadata, snapshot)
    if metadata["format-version"] > 1:
        _advance_sequence(metadata, snapshot, parent)
    else:
        snapshot.pop("sequence-number", None)  # version 1 has none, and Java takes one for damage
    if metadata["format-version"] >= ROW_LINEAGE_VERSION:
        _advance_row_ids(metadata, snapshot)
    schema_id = optional_field(snapshot, "schema-id", int, where="snapshot")
    if schema_id is not None:
        snapshot["schema-id"] = fold.renumbered_schemas.get(schema_id, schema_id)
    metadata["snapshots"] = [*metadata["snapshots"], snapshot]
    fold.added_snapshots[number] = stamp


def _check_manifest_list(metadata: Metadata, snapshot: Snapshot) -> None:
    if "manifests" in snapshot and metadata["format-version"] == 1:
        return
    path = field(snapshot, "manifest-list", str, where="snapshot")
    check_file(path, location=metadata["location"], what="manifest list")


def _advance_sequence(metadata: Metadata, snapshot: Snapshot, parent: int | None) -> None:
    number = optional_field(snapshot, "sequence-number", int, where="snapshot") or 0
    last = metadata["last-sequence-number"]
    if number <= last and parent is not None:
        message = f"Cannot add snapshot with sequence number {number} older than last sequence number {last}"
        raise CommitFailed(message)
    metadata["last-sequence-number"] = _count_on(last, number, added=1, what="sequence number")


def _advance_row_ids(metadata: Metadata, snapshot: Snapshot) -> None:
    first = field(snapshot, "first-row-id", int, where="v3 snapshot")
    added = field(snapshot, "added-rows", int, where="v3 snapshot")
    following = metadata.get("next-row-id") or 0
    if first < following:
        message = f"Cannot add a snapshot, first-row-id is behind table next-row-id: {first} < {following}"
        raise CommitFailed(message)
    if added < 0:
        message = f"Cannot add a snapshot with negative added-rows: {added}"
        raise Invalid(message)
    if added > MOST_ROWS:
        message = f"Cannot add a snapshot with more than {MOST_ROWS} rows: {added}"
        raise Invalid(message)
    metadata["next-row-id"] = _count_on(following, first, added=0, what="first-row-id") + added


def _count_on(last: int, number: int, *, added: int, what: str) -> int:
    """Return the newest number after this one is taken.

    All branches of a table count on from it, and it never goes down: a branch that took one near the end of the range would
    leave none to the others.
    """
    if number > last + added + MOST_AHEAD:
        message = f"The {what} {number} is too far ahead of the table's newest, {last}: load the table and count on from there"
        raise Invalid(message)
    return max(last, number)


REF_FIELDS = ("snapshot-id", "type", "max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep")


def _set_snapshot_ref(fold: Fold, update: dict[str, Any]) -> None:
    metadata = fold.metadata
    name = field(update, "ref-name", str, where="set-snapshot-ref")
    number = field(update, "snapshot-id", int, where="set-snapshot-ref")
    kind = field(update, "type", str, where="set-snapshot-ref").lower()
    if kind not in ("branch", "tag"):
        message = f"Cannot parse set-snapshot-ref: unknown type {kind!r}"
        raise Malformed(message)
    if name == MAIN_REF and kind == "tag":
        message = "Cannot set main to a tag, it must be a branch"
        raise Invalid(message)
    if snapshot_of(metadata, number) is None:
        message = f"Cannot set {name} to unknown snapshot: {number}"
        raise Invalid(message)
    ref = cast("SnapshotRef", {key: update[key] for key in REF_FIELDS if update.get(key) is not None} | {"type": kind})
    readable.check_ref(name, ref)
    old = metadata["refs"].get(name)
    if old == ref:
        return
    if old is not None and old["type"] != kind:
        message = f"Cannot turn {old['type']} {name} into a {kind}"
        raise Invalid(message)
    metadata["refs"] = {**metadata["refs"], name: ref}
    if name == MAIN_REF and current_snapshot_id(metadata) != number:
        _move_main(fold, number)


def _move_main(fold: Fold, number: int) -> None:
    metadata = fold.metadata
    metadata["current-snapshot-id"] = number
    log = metadata["snapshot-log"]
    # Entries may not run backwards, whatever the clocks of the writers say.
    stamp = max(fold.added_snapshots.get(number, fold.now_ms), log[-1]["timestamp-ms"] if log else 0)
    metadata["snapshot-log"] = [*log, {"snapshot-id": number, "timestamp-ms": stamp}]
    if number in fold.added_snapshots:
        fold.passed_heads.append(number)


def _remove_snapshots(fold: Fold, update: dict[str, Any]) -> None:
    metadata = fold.metadata
    gone = set(numbers(update, "snapshot-ids", where="remove-snapshots"))
    metadata["snapshots"] = [item for item in metadata["snapshots"] if item["snapshot-id"] not in gone]
    for key in STATISTICS:
        metadata[key] = [item for item in metadata[key] if item["snapshot-id"] not in gone]
    fold.removed_snapshots = True


def _remove_snapshot_ref(fold: Fold, update: dict[str, Any]) -> None:
    name = field(update, "ref-name", str, where="remove-snapshot-ref")
    metadata = fold.metadata
    metadata["refs"] = {key: ref for key, ref in metadata["refs"].items() if key != name}
    if name == MAIN_REF:
        metadata["current-snapshot-id"] = no_snapshot(metadata)


def _set_location(fold: Fold, update: dict[str, Any]) -> None:
    location = field(update, "location", str, where="set-location").rstrip("/")
    if location == fold.metadata["location"]:
        return
    if location != fold.place:
        message = "The location of a table is chosen when it is made; only a table without snapshots can move"
        raise Malformed(message)
    check_path_properties(fold.metadata["properties"], location=location)
    fold.metadata["location"] = location


def _set_properties(fold: Fold, update: dict[str, Any]) -> None:
    # Before version 1.5 of the specification's text the member was called "updated".
    properties = texts(update, "updates" if "updates" in update else "updated", where="set-properties")
    _refuse_reserved(properties)
    check_properties(properties)
    check_path_properties(properties, location=fold.metadata["location"])
    stored = {key: value for key, value in properties.items() if key not in UNSTORED_PROPERTIES}
    fold.metadata["properties"] = {**fold.metadata["properties"], **stored}


def _remove_properties(fold: Fold, update: dict[str, Any]) -> None:
    removals = field(update, "removals" if "removals" in update else "removed", list, where="remove-properties")
    if not all(isinstance(key, str) for key in removals):
        message = "Cannot parse remove-properties: 'removals' must be a list of strings"
        raise Malformed(message)
    _refuse_reserved(removals)
    fold.metadata["properties"] = {
        key: value for key, value in fold.metadata["properties"].items() if key not in removals
    }


def _refuse_reserved(keys: Iterable[str]) -> None:
    for key in keys:
        if is_reserved(key):
            message = f"Property {key} belongs to the catalog: write with the branch header instead of setting it"
            raise Malformed(message)


def _set_statistics(fold: Fold, update: dict[str, Any]) -> None:
    statistics = field(update, "statistics", dict, where="set-statistics")
    readable.check_statistics(statistics)
    _replace_by_snapshot(fold, statistics, "statistics")


def _set_partition_statistics(fold: Fold, update: dict[str, Any]) -> None:
    statistics = field(update, "partition-statistics", dict, where="set-partition-statistics")
    readable.check_partition_statistics(statistics)
    _replace_by_snapshot(fold, statistics, "partition-statistics")


def _replace_by_snapshot(fold: Fold, statistics: StatisticsFile, key: Statistics) -> None:
    number = field(statistics, "snapshot-id", int, where=key)
    # The file may lie outside of the table, since nothing here ever opens or removes it.
    field(statistics, "statistics-path", str, where=key)
    others = [item for item in fold.metadata[key] if item["snapshot-id"] != number]
    fold.metadata[key] = [*others, statistics]


def _remove_statistics(fold: Fold, update: dict[str, Any]) -> None:
    _drop_by_snapshot(fold, field(update, "snapshot-id", int, where="remove-statistics"), "statistics")


def _remove_partition_statistics(fold: Fold, update: dict[str, Any]) -> None:
    number = field(update, "snapshot-id", int, where="remove-partition-statistics")
    _drop_by_snapshot(fold, number, "partition-statistics")


def _drop_by_snapshot(fold: Fold, number: int, key: Statistics) -> None:
    fold.metadata[key] = [item for item in fold.metadata[key] if item["snapshot-id"] != number]


def _remove_partition_specs(fold: Fold, update: dict[str, Any]) -> None:
    gone = set(numbers(update, "spec-ids", where="remove-partition-specs"))
    if fold.metadata["default-spec-id"] in gone:
        message = "Cannot remove the default partition spec"
        raise Invalid(message)
    fold.metadata["partition-specs"] = [
        spec for spec in fold.metadata["partition-specs"] if spec["spec-id"] not in gone
    ]


def _remove_schemas(fold: Fold, update: dict[str, Any]) -> None:
    gone = set(numbers(update, "schema-ids", where="remove-schemas"))
    if fold.metadata["current-schema-id"] in gone:
        message = "Cannot remove the current schema"
        raise Invalid(message)
    fold.metadata["schemas"] = [schema for schema in fold.metadata["schemas"] if schema["schema-id"] not in gone]


def _add_encryption_key(fold: Fold, update: dict[str, Any]) -> None:
    key: EncryptionKey = field(update, "encryption-key", dict, where="add-encryption-key")
    number = field(key, "key-id", str, where="encryption key")
    readable.check_encryption_key(key)
    keys = fold.metadata.get("encryption-keys") or []
    if any(old["key-id"] == number for old in keys):
        return
    fold.metadata["encryption-keys"] = [*keys, key]


def _remove_encryption_key(fold: Fold, update: dict[str, Any]) -> None:
    number = field(update, "key-id", str, where="remove-encryption-key")
    keys = fold.metadata.get("encryption-keys") or []
    if any(key["key-id"] == number for key in keys):
        fold.metadata["encryption-keys"] = [key for key in keys if key["key-id"] != number]


def _resolve(update: dict[str, Any], key: str, added: int | None, *, what: str) -> int:
    number = field(update, key, int, where=str(update["action"]))
    if number != LAST_ADDED:
        return number
    if added is None:
        message = f"Cannot set last added {what}: no {what} has been added"
        raise Invalid(message)
    return added


UPDATES: dict[str, Callable[[Fold, dict[str, Any]], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_schema,
    "set-current-schema": _set_current_schema,
    "add-spec": _add_spec,
    "set-default-spec": _set_default_spec,
    "add-sort-order": _add_sort_order,
    "set-default-sort-order": _set_default_sort_order,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_snapshot_ref,
    "remove-snapshots": _remove_snapshots,
    "remove-snapshot-ref": _remove_snapshot_ref,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "set-statistics": _set_statistics,
    "remove-statistics": _remove_statistics,
    "set-partition-statistics": _set_partition_statistics,
    "remove-partition-statistics": _remove_partition_statistics,
    "remove-partition-specs": _remove_partition_specs,
    "remove-schemas": _remove_schemas,
    "add-encryption-key": _add_encryption_key,
    "remove-encryption-key": _remove_encryption_key,
}
