"""View metadata: versions of a query with its schema. Applied as table updates are, by a fold over plain dictionaries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.locations import is_inside
from webapp.catalog.rules.access import METADATA_PATH
from webapp.catalog.rules.errors import CommitFailed, IllegalArgument, Invalid, Malformed
from webapp.catalog.rules.locations import check_path_properties
from webapp.catalog.rules.metadata import check_schema, field, find, objects, optional_field, same_schema, texts

ViewMetadata = dict[str, Any]
FORMAT_VERSION = 1
LAST_ADDED = -1
KEPT_VERSIONS = 10
KEPT_PROPERTY = "version.history.num-entries"
DROP_DIALECT_PROPERTY = "replace.drop-dialect.allowed"
NEWEST_SCHEMA_TYPES = 3


@dataclass(slots=True)
class _Fold:
    metadata: ViewMetadata
    now_ms: int
    place: str = ""
    last_schema: int | None = None
    last_version: int | None = None


@dataclass(frozen=True, slots=True)
class CreateViewRequest:
    """What a client sends to make a view."""

    name: str
    schema: dict[str, Any]
    version: dict[str, Any]
    properties: dict[str, str]
    location: str | None

    @classmethod
    def parse(cls, body: dict[str, Any]) -> "CreateViewRequest":
        """Read the request from a JSON body."""
        return cls(
            name=field(body, "name", str),
            schema=field(body, "schema", dict),
            version=field(body, "view-version", dict),
            properties=texts(body, "properties") if body.get("properties") is not None else {},
            location=optional_field(body, "location", str),
        )


def create_view(request: CreateViewRequest, *, uuid: str, location: str, now_ms: int) -> ViewMetadata:
    """Return the metadata of a new view."""
    start: ViewMetadata = {
        "view-uuid": uuid,
        "format-version": FORMAT_VERSION,
        "location": location,
        "schemas": [],
        "current-version-id": LAST_ADDED,
        "versions": [],
        "version-log": [],
        "properties": {},
    }
    updates: list[dict[str, Any]] = [
        {"action": "add-schema", "schema": request.schema},
        {"action": "add-view-version", "view-version": {**request.version, "schema-id": LAST_ADDED}},
        {"action": "set-current-view-version", "view-version-id": LAST_ADDED},
        {"action": "set-properties", "updates": request.properties},
    ]
    return replace_view(start, requirements=(), updates=updates, now_ms=now_ms)


def replace_view(
    metadata: ViewMetadata,
    *,
    requirements: Sequence[dict[str, Any]],
    updates: Sequence[dict[str, Any]],
    place: str = "",
    now_ms: int,
) -> ViewMetadata:
    """Return the metadata after a commit; the same object if nothing changes. `place` is where the view may move to."""
    for requirement in requirements:
        _check_requirement(requirement, metadata)
    fold = _Fold(metadata=dict(metadata), now_ms=now_ms, place=place)
    for update in updates:
        action = field(update, "action", str, where="update")
        apply = UPDATES.get(action)
        if apply is None:
            message = f"Cannot apply unknown view update: {action}"
            raise Malformed(message)
        apply(fold, update)
    if fold.metadata == metadata:
        return metadata
    _check_dialects(metadata, fold.metadata)
    return _without_old_versions(fold.metadata)


def normalise_view(raw: dict[str, Any]) -> ViewMetadata:
    """Read view metadata that another writer made; refuse what is none."""
    where = "view metadata"
    if field(raw, "format-version", int, where=where) != FORMAT_VERSION:
        message = f"Cannot read unsupported view version {raw['format-version']}"
        raise Invalid(message)
    for key in ("view-uuid", "location"):
        field(raw, key, str, where=where)
    for key in ("versions", "version-log", "schemas"):
        objects(raw, key, where=where)
    current = field(raw, "current-version-id", int, where=where)
    if not any(version.get("version-id") == current for version in raw["versions"]):
        message = f"Cannot find current version {current} in view versions"
        raise Invalid(message)
    return {**raw, "properties": texts(raw, "properties", where=where) if raw.get("properties") is not None else {}}


def metadata_folder(metadata: ViewMetadata) -> str | None:
    """Return the folder that a view's property names for its metadata files; None for `metadata` in its location."""
    named = metadata["properties"].get(METADATA_PATH, "").rstrip("/")
    return named if named and is_inside(named, metadata["location"]) else None


def _check_requirement(requirement: dict[str, Any], metadata: ViewMetadata) -> None:
    kind = field(requirement, "type", str, where="requirement")
    if kind != "assert-view-uuid":
        message = f"Cannot check unknown requirement: {kind}"
        raise Malformed(message)
    uuid = field(requirement, "uuid", str, where="requirement")
    if uuid.lower() != str(metadata["view-uuid"]).lower():
        message = f"Requirement failed: view UUID does not match: expected {metadata['view-uuid']} != {uuid}"
        raise CommitFailed(message)


def _assign_uuid(fold: _Fold, update: dict[str, Any]) -> None:
    if field(update, "uuid", str, where="assign-uuid") != fold.metadata["view-uuid"]:
        message = "Cannot reassign the uuid of a view"
        raise Invalid(message)


def _upgrade_format_version(_fold: _Fold, update: dict[str, Any]) -> None:
    version = field(update, "format-version", int, where="upgrade-format-version")
    if version != FORMAT_VERSION:
        message = f"Cannot upgrade view to unsupported format version: v{version}"
        raise Invalid(message)


def _add_schema(fold: _Fold, update: dict[str, Any]) -> None:
    schema = field(update, "schema", dict, where="add-schema")
    check_schema(schema, version=NEWEST_SCHEMA_TYPES)
    schemas = fold.metadata["schemas"]
    number = next((old["schema-id"] for old in schemas if same_schema(old, schema)), None)
    if number is None:
        number = 1 + max((old["schema-id"] for old in schemas), default=-1)
        fold.metadata["schemas"] = [*schemas, {**schema, "schema-id": number}]
    fold.last_schema = number


def _set_location(fold: _Fold, update: dict[str, Any]) -> None:
    location = field(update, "location", str, where="set-location").rstrip("/")
    if location not in (fold.metadata["location"], fold.place):
        message = "The catalog gives views their location; it cannot be set"
        raise Malformed(message)
    fold.metadata["location"] = location


def _set_properties(fold: _Fold, update: dict[str, Any]) -> None:
    updates = texts(update, "updates", where="set-properties")
    check_path_properties(updates, location=fold.place or fold.metadata["location"])
    fold.metadata["properties"] = {**fold.metadata["properties"], **updates}


def _remove_properties(fold: _Fold, update: dict[str, Any]) -> None:
    removals = field(update, "removals", list, where="remove-properties")
    fold.metadata["properties"] = {
        key: value for key, value in fold.metadata["properties"].items() if key not in removals
    }


def _add_version(fold: _Fold, update: dict[str, Any]) -> None:
    version = dict(field(update, "view-version", dict, where="add-view-version"))
    field(version, "timestamp-ms", int, where="view version")
    field(version, "default-namespace", list, where="view version")
    texts(version, "summary", where="view version")
    representations = objects(version, "representations", where="view version")
    if field(version, "schema-id", int, where="view version") == LAST_ADDED:
        if fold.last_schema is None:
            message = "Cannot set last added schema: no schema has been added"
            raise Invalid(message)
        version["schema-id"] = fold.last_schema
    if find(fold.metadata["schemas"], "schema-id", version["schema-id"]) is None:
        message = f"Cannot add version with unknown schema: {version['schema-id']}"
        raise Invalid(message)
    dialects = [field(item, "dialect", str, where="representation").lower() for item in representations]
    if len(set(dialects)) != len(dialects):
        message = f"Invalid view version: Cannot add multiple queries for dialect {dialects[0]}"
        raise IllegalArgument(message)
    versions = fold.metadata["versions"]
    number = next((old["version-id"] for old in versions if _same_version(old, version)), None)
    if number is None:
        number = 1 + max((old["version-id"] for old in versions), default=0)
        fold.metadata["versions"] = [*versions, {**version, "version-id": number}]
    fold.last_version = number


def _set_current_version(fold: _Fold, update: dict[str, Any]) -> None:
    number: int | None = field(update, "view-version-id", int, where="set-current-view-version")
    if number == LAST_ADDED:
        number = fold.last_version
    version = None if number is None else find(fold.metadata["versions"], "version-id", number)
    if version is None:
        message = f"Cannot set current version to unknown version: {number}"
        raise Invalid(message)
    if fold.metadata["current-version-id"] == number:
        return
    fold.metadata["current-version-id"] = number
    stamp = version["timestamp-ms"] if number == fold.last_version else fold.now_ms
    fold.metadata["version-log"] = [*fold.metadata["version-log"], {"version-id": number, "timestamp-ms": stamp}]


UPDATES: dict[str, Callable[[_Fold, dict[str, Any]], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_schema,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-view-version": _add_version,
    "set-current-view-version": _set_current_version,
}


def _same_version(version: dict[str, Any], other: dict[str, Any]) -> bool:
    keys = ("schema-id", "summary", "representations", "default-catalog", "default-namespace")
    return all(version.get(key) == other.get(key) for key in keys)


def _check_dialects(before: ViewMetadata, after: ViewMetadata) -> None:
    """Refuse a replace that forgets a dialect, which breaks its readers; the owner can allow it by a property."""
    old = find(before["versions"], "version-id", before["current-version-id"])
    new = find(after["versions"], "version-id", after["current-version-id"])
    if old is None or new is None or after["properties"].get(DROP_DIALECT_PROPERTY, "false").lower() == "true":
        return
    lost = _dialects(old) - _dialects(new)
    if lost:
        message = f"Cannot replace view due to loss of view dialects ({DROP_DIALECT_PROPERTY}=false): {', '.join(sorted(lost))}"
        raise Invalid(message)


def _dialects(version: dict[str, Any]) -> set[str]:
    return {item["dialect"].lower() for item in version["representations"]}


def _without_old_versions(metadata: ViewMetadata) -> ViewMetadata:
    text = metadata["properties"].get(KEPT_PROPERTY, "")
    limit = max(int(text), 1) if text.isdigit() else KEPT_VERSIONS
    if len(metadata["versions"]) <= limit:
        return metadata
    newest = sorted((version["version-id"] for version in metadata["versions"]), reverse=True)[:limit]
    ids = (
        {*newest[: limit - 1], metadata["current-version-id"]}
        if metadata["current-version-id"] not in newest
        else set(newest)
    )
    log: list[dict[str, Any]] = []
    for entry in metadata["version-log"]:
        # A gap cuts what came before it: history with holes would tell wrong times.
        log = [*log, entry] if entry["version-id"] in ids else []
    versions = [version for version in metadata["versions"] if version["version-id"] in ids]
    return {**metadata, "versions": versions, "version-log": log}
