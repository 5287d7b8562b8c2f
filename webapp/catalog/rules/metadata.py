"""Table metadata as plain dictionaries: reading parts of it, making a new one, bringing an old one into today's form.

Metadata is never changed in place: it may be shared with a cache and with other requests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast, overload

from webapp.catalog.rules.branch_properties import MAIN_REF, TrackedIds
from webapp.catalog.rules.column_types import identifier_candidates, is_default, is_int, is_long, is_primitive
from webapp.catalog.rules.errors import Invalid, Malformed
from webapp.catalog.rules.iceberg import History, Metadata, PartitionSpec, Schema, Snapshot, SortOrder

Value = TypeVar("Value")
Item = TypeVar("Item", bound=Mapping[str, Any])

SUPPORTED_VERSIONS = (1, 2, 3)
DEFAULT_VERSION = 2
FIRST_PARTITION_FIELD_ID = 1000
MAX_SCHEMA_DEPTH = 64
UUID_CHARACTERS = 100
"""Maximum length of a UUID as rows keep it; a longer one is cut."""
HISTORIES: Mapping[History, str] = {"schemas": "schema-id", "partition-specs": "spec-id", "sort-orders": "order-id"}
"""What a branch tracks one of, with the member that numbers it."""
EMPTY_SPEC: PartitionSpec = {"spec-id": 0, "fields": []}
UNSORTED: SortOrder = {"order-id": 0, "fields": []}
# Written by clients as properties, kept by the format elsewhere: never stored as properties.
UNSTORED_PROPERTIES = frozenset(
    {
        "format-version",
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
V3_TYPES = ("timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography")


@overload
def field(body: Mapping[str, Any], key: str, kind: type[dict[Any, Any]], *, where: str = "request") -> Any: ...
@overload
def field(body: Mapping[str, Any], key: str, kind: type[Value], *, where: str = "request") -> Value: ...
def field(body: Mapping[str, Any], key: str, kind: type[Any], *, where: str = "request") -> Any:
    """Return a required member of a JSON object, of the right kind."""
    value = body.get(key)
    if not _is(value, kind):
        message = f"Cannot parse {where}: '{key}' must be {_name(kind)}"
        raise Malformed(message)
    return value


@overload
def optional_field(body: Mapping[str, Any], key: str, kind: type[dict[Any, Any]], *, where: str = "request") -> Any: ...
@overload
def optional_field(body: Mapping[str, Any], key: str, kind: type[Value], *, where: str = "request") -> Value | None: ...
def optional_field(body: Mapping[str, Any], key: str, kind: type[Any], *, where: str = "request") -> Any:
    """Return a member of a JSON object that may be absent or null."""
    return None if body.get(key) is None else field(body, key, kind, where=where)


def objects(body: Mapping[str, Any], key: str, *, where: str = "request") -> list[Any]:
    """Return a required list of JSON objects."""
    items: list[Any] = field(body, key, list, where=where)
    if not all(isinstance(item, dict) for item in items):
        message = f"Cannot parse {where}: '{key}' must be a list of objects"
        raise Malformed(message)
    return items


def numbers(body: Mapping[str, Any], key: str, *, where: str = "request") -> list[int]:
    """Return a required list of integers."""
    items = field(body, key, list, where=where)
    if not all(_is(item, int) for item in items):
        message = f"Cannot parse {where}: '{key}' must be a list of integers"
        raise Malformed(message)
    return items


def texts(body: Mapping[str, Any], key: str, *, where: str = "request") -> dict[str, str]:
    """Return a required object whose values are all strings."""
    items: dict[str, str] = field(body, key, dict, where=where)
    if not all(isinstance(value, str) for value in items.values()):
        message = f"Cannot parse {where}: the values of '{key}' must be strings"
        raise Malformed(message)
    return items


def current_snapshot_id(metadata: Metadata) -> int | None:
    """Return the head of main; both `-1` and null mean that there is none."""
    head = metadata.get("current-snapshot-id")
    return None if head in (None, -1) else head


def no_snapshot(metadata: Metadata) -> int | None:
    """Return how this format version writes that there is no current snapshot."""
    return None if metadata["format-version"] >= 3 else -1


def current_ids(metadata: Metadata) -> TrackedIds:
    """Return the ids that main tracks."""
    return TrackedIds(
        schema_id=metadata["current-schema-id"],
        spec_id=metadata["default-spec-id"],
        order_id=metadata["default-sort-order-id"],
    )


def find(items: Iterable[Item], key: str, value: int) -> Item | None:
    """Find the one item with this id."""
    return next((item for item in items if item[key] == value), None)


def schema_of(metadata: Metadata, schema_id: int) -> Schema:
    """Return the schema with this id."""
    schema = find(metadata["schemas"], "schema-id", schema_id)
    if schema is None:
        message = f"Cannot find schema {schema_id} in the table's schemas"
        raise Invalid(message)
    return schema


def snapshot_of(metadata: Metadata, snapshot_id: int) -> Snapshot | None:
    """Return the snapshot with this id; the newest come last and are asked for most."""
    return find(reversed(metadata["snapshots"]), "snapshot-id", snapshot_id)


def ancestry(metadata: Metadata, head: int | None) -> list[Snapshot]:
    """Return the snapshots from the oldest known ancestor of a head to the head."""
    return list(walk_back(metadata["snapshots"], head))[::-1]


def comes_from(snapshots: Sequence[Snapshot], head: int | None, ancestor: int | None) -> bool:
    """Return whether a snapshot goes back to another one, also where the history between them has expired."""
    line = list(walk_back(snapshots, head))
    if any(snapshot["snapshot-id"] == ancestor for snapshot in line):
        return True
    older = next((snapshot for snapshot in snapshots if snapshot["snapshot-id"] == ancestor), None)
    if older is None or not line or line[-1].get("parent-snapshot-id") is None:
        return False
    return _age(line[-1]) > _age(older)


def _age(snapshot: Snapshot) -> tuple[int, int]:
    """Return the key that orders snapshots; those of version 1 have no sequence number."""
    return snapshot.get("sequence-number") or 0, snapshot["timestamp-ms"]


def walk_back(snapshots: Sequence[Snapshot], head: int | None) -> Iterator[Snapshot]:
    """Yield a head and its known ancestors, the newest first."""
    passed: list[int] = []
    # Writers add a snapshot after its parent, so one pass from the newest finds them all.
    for snapshot in reversed(snapshots):
        if snapshot["snapshot-id"] == head:
            yield snapshot
            passed.append(snapshot["snapshot-id"])
            head = snapshot.get("parent-snapshot-id")
            if head is None:
                return
    # What is left is gone, or somebody else has put the snapshots into another order.
    left = {snapshot["snapshot-id"]: snapshot for snapshot in snapshots}
    for number in passed:
        del left[number]
    while head in left:
        snapshot = left.pop(head)
        yield snapshot
        head = snapshot.get("parent-snapshot-id")


def walk_fields(kind: Any, *, path: str = "", depth: int = 0) -> Iterator[tuple[int, str, Any]]:
    """Yield every field of a type as (id, full name, type), outer before inner; refuse what is not a type."""
    if depth > MAX_SCHEMA_DEPTH:
        message = f"Cannot parse schema: more than {MAX_SCHEMA_DEPTH} levels"
        raise Malformed(message)
    if isinstance(kind, str):
        return
    if not isinstance(kind, dict):
        message = "Cannot parse type: neither a string nor an object"
        raise Malformed(message)
    children = list(_children(kind))
    for number, name, inner in children:
        yield number, f"{path}.{name}" if path else name, inner
    for _number, name, inner in children:
        yield from walk_fields(inner, path=f"{path}.{name}" if path else name, depth=depth + 1)


def list_defaults(kind: Any) -> Iterator[tuple[int, Any]]:
    """Yield the id and initial default of each field of a type that has one."""
    if isinstance(kind, str):
        return
    for item in kind["fields"] if kind["type"] == "struct" else ():
        if item.get("initial-default") is not None:
            yield item["id"], item["initial-default"]
    for _number, _name, inner in _children(kind):
        yield from list_defaults(inner)


def check_schema(schema: Schema, *, version: int) -> None:
    """Refuse a schema that no reader could use."""
    if schema.get("type") != "struct":
        message = "Cannot parse schema: a schema is a struct"
        raise Malformed(message)
    ids: set[int] = set()
    names: set[str] = set()
    for number, name, kind in walk_fields(schema):
        if number in ids:
            message = f"Invalid schema: multiple fields for id {number}"
            raise Invalid(message)
        if name in names:
            message = f"Invalid schema: multiple fields for name {name}"
            raise Invalid(message)
        if not is_int(number):
            message = f"Invalid schema: the field id {number} is too large"
            raise Invalid(message)
        if isinstance(kind, str) and not is_primitive(kind):
            message = f"Cannot parse type: {kind!r} of {name}"
            raise Malformed(message)
        if isinstance(kind, str) and kind.startswith(V3_TYPES) and version < 3:
            message = f"Invalid type for v{version} schema: {name} {kind} is not supported until v3"
            raise Invalid(message)
        ids.add(number)
        names.add(name)
    identifiers = numbers(schema, "identifier-field-ids", where="schema") if schema.get("identifier-field-ids") else []
    candidates = set(identifier_candidates(schema)) if identifiers else set()
    for number in identifiers:
        if number not in candidates:
            reason = "not a required column of a comparable type" if number in ids else "not found in schema"
            message = f"Cannot add field {number} as an identifier field: {reason}"
            raise Invalid(message)


def same_schema(schema: Schema, other: Schema) -> bool:
    """Return whether two schemas differ in nothing but their number."""
    return schema["fields"] == other["fields"] and set(schema.get("identifier-field-ids") or ()) == set(
        other.get("identifier-field-ids") or ()
    )


def highest_field_id(schema: Schema) -> int:
    """Return the highest column id in a schema; 0 for an empty one."""
    return max((number for number, _, _ in walk_fields(schema)), default=0)


def not_after(metadata: Metadata, until_ms: int) -> Metadata:
    """Return the metadata with nothing in it dated later, for clients that refuse what is dated after their own commit.

    A clock that was ahead has dated it. What is stored keeps those times: if it is this clock that is behind, they are right.
    """
    return {
        **metadata,
        "snapshot-log": [
            {**entry, "timestamp-ms": min(entry["timestamp-ms"], until_ms)} for entry in metadata["snapshot-log"]
        ],
        "metadata-log": [
            {**entry, "timestamp-ms": min(entry["timestamp-ms"], until_ms)} for entry in metadata["metadata-log"]
        ],
        "last-updated-ms": min(metadata["last-updated-ms"], until_ms),
    }


def blank(*, uuid: str, location: str, version: int, now_ms: int) -> Metadata:
    """Return the metadata of a table that has nothing yet, not even a schema: a create applies its updates to this."""
    if version not in SUPPORTED_VERSIONS:
        message = f"Unsupported format version: v{version} (supported: v1 to v3)"
        raise Invalid(message)
    metadata: Metadata = {
        "format-version": version,
        "table-uuid": uuid,
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": now_ms,
        "last-column-id": 0,
        "current-schema-id": -1,
        "schemas": [],
        "default-spec-id": -1,
        "partition-specs": [],
        "last-partition-id": FIRST_PARTITION_FIELD_ID - 1,
        "default-sort-order-id": -1,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": None,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    metadata["current-snapshot-id"] = no_snapshot(metadata)
    if version >= 3:
        metadata["next-row-id"] = 0
    return metadata


def uuid_of(content: Mapping[str, Any]) -> str:
    """Return the UUID of the metadata of a table or view, as rows keep it."""
    return str(content.get("table-uuid", content.get("view-uuid")))[:UUID_CHARACTERS]


def placeholder(*, uuid: str, location: str, version: int, now_ms: int) -> Metadata:
    """Return the metadata of a table that is there but has no columns and no data."""
    return {
        **blank(uuid=uuid, location=location, version=version, now_ms=now_ms),
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "default-spec-id": 0,
        "partition-specs": [EMPTY_SPEC],
        "default-sort-order-id": 0,
        "sort-orders": [UNSORTED],
    }


def with_legacy_fields(metadata: Metadata) -> Metadata:
    """Return what goes over the wire and to disk: readers of v1 expect the current schema and spec once more."""
    if metadata["format-version"] != 1:
        return metadata
    spec = find(metadata["partition-specs"], "spec-id", metadata["default-spec-id"])
    return {
        **metadata,
        "schema": schema_of(metadata, metadata["current-schema-id"]),
        "partition-spec": spec["fields"] if spec else [],
    }


def normalise(raw: dict[str, Any], *, new_uuid: str = "") -> Metadata:
    """Bring metadata that another writer made into the form used here; refuses what is not table metadata.

    Version 1 may have no UUID: such a table gets the new one.
    """
    where = "table metadata"
    version = field(raw, "format-version", int, where=where)
    if version not in SUPPORTED_VERSIONS:
        message = f"Cannot read unsupported version {version}"
        raise Invalid(message)
    has_none = version == 1 and raw.get("table-uuid") is None and new_uuid
    base = blank(
        uuid=new_uuid if has_none else field(raw, "table-uuid", str, where=where),
        location=field(raw, "location", str, where=where),
        version=version,
        now_ms=field(raw, "last-updated-ms", int, where=where),
    )
    parts = {key: value for key, value in raw.items() if value is not None}
    metadata = cast("Metadata", {**base, **_modern(raw), **parts})
    for ref in field(metadata, "refs", dict, where=where).values():
        if not isinstance(ref, dict):
            message = "Cannot parse table metadata: 'refs' must hold objects"
            raise Malformed(message)
    metadata.pop("schema", None)
    metadata.pop("partition-spec", None)
    for key in ("schemas", "partition-specs", "sort-orders", "snapshots"):
        objects(metadata, key, where=where)
    for schema in metadata["schemas"]:
        field(schema, "schema-id", int, where=where)
        check_schema(schema, version=version)
    for key in ("last-column-id", "current-schema-id", "default-spec-id", "default-sort-order-id"):
        field(metadata, key, int, where=where)
    schema_of(metadata, metadata["current-schema-id"])
    texts(metadata, "properties", where=where)
    head = current_snapshot_id(metadata)
    if head is not None and MAIN_REF not in metadata["refs"]:
        metadata["refs"] = {**metadata["refs"], MAIN_REF: {"snapshot-id": head, "type": "branch"}}
    if metadata["refs"].get(MAIN_REF) is None:
        metadata["current-snapshot-id"] = no_snapshot(metadata)
    return metadata


def _modern(raw: dict[str, Any]) -> dict[str, Any]:
    """Make lists of schemas, specs and orders for a file of version 1 that has only the current ones."""
    parts: dict[str, Any] = {}
    schema = raw.get("schema")
    if "schemas" not in raw and isinstance(schema, dict):
        number = schema.get("schema-id", 0)
        parts |= {"schemas": [{**schema, "schema-id": number}], "current-schema-id": number}
    if "partition-specs" not in raw:
        fields = raw.get("partition-spec") or []
        if not isinstance(fields, list) or not all(isinstance(item, dict) for item in fields):
            message = "Cannot parse table metadata: 'partition-spec' must be a list of objects"
            raise Malformed(message)
        numbered = [{"field-id": FIRST_PARTITION_FIELD_ID + n, **item} for n, item in enumerate(fields)]
        parts |= {"partition-specs": [{"spec-id": 0, "fields": numbered}], "default-spec-id": 0}
        parts["last-partition-id"] = max((item["field-id"] for item in numbered), default=FIRST_PARTITION_FIELD_ID - 1)
    if "sort-orders" not in raw:
        parts |= {"sort-orders": [UNSORTED], "default-sort-order-id": 0}
    return parts


def _children(kind: dict[str, Any]) -> Iterator[tuple[int, str, Any]]:
    match kind.get("type"):
        case "struct":
            for item in objects(kind, "fields", where="struct"):
                name = field(item, "name", str, where="field")
                field(item, "required", bool, where=f"field {name}")
                _check_column(item, name)
                yield field(item, "id", int, where=f"field {name}"), name, item.get("type")
        case "list":
            field(kind, "element-required", bool, where="list")
            yield field(kind, "element-id", int, where="list"), "element", kind.get("element")
        case "map":
            field(kind, "value-required", bool, where="map")
            yield field(kind, "key-id", int, where="map"), "key", kind.get("key")
            yield field(kind, "value-id", int, where="map"), "value", kind.get("value")
        case other:
            message = f"Cannot parse type: {other!r}"
            raise Malformed(message)


def _check_column(item: Mapping[str, Any], name: str) -> None:
    optional_field(item, "doc", str, where=f"field {name}")
    for key in ("initial-default", "write-default"):
        value = item.get(key)
        if value is not None and not is_default(item.get("type"), value):
            message = f"Cannot parse field {name}: {value!r} is no {key} of {item.get('type')}"
            raise Malformed(message)


def _is(value: object, kind: type) -> bool:
    if kind is int:
        # bool is an int in Python and never a number in JSON; a number of more than 64 bits is none to Java's clients.
        return isinstance(value, int) and not isinstance(value, bool) and is_long(value)
    return isinstance(value, kind)


def _name(kind: type) -> str:
    return {int: "an integer", str: "a string", bool: "a boolean", dict: "an object", list: "a list"}[kind]
