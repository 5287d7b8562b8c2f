"""Check the requirements of a commit against what its writer saw. One that fails is a 409: refresh and try again."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from webapp.catalog.rules.errors import CommitFailed, Malformed
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import field, optional_field

Number = Literal["last-column-id", "current-schema-id", "last-partition-id", "default-spec-id", "default-sort-order-id"]


def check_requirements(requirements: Iterable[dict[str, Any]], metadata: Metadata | None) -> None:
    """Check each requirement; `metadata` is None for a table that is not there yet."""
    for requirement in requirements:
        kind = field(requirement, "type", str, where="requirement")
        if kind == "assert-create":
            if metadata is not None:
                _fail("table already exists")
            continue
        check = REQUIREMENTS.get(kind)
        if check is None:
            message = f"Cannot check unknown requirement: {kind}"
            raise Malformed(message)
        if metadata is None:
            _fail("table does not exist")
        else:
            check(requirement, metadata)


def is_create(requirements: Iterable[dict[str, Any]]) -> bool:
    """Return whether a commit makes its table."""
    return any(requirement.get("type") == "assert-create" for requirement in requirements)


def _check_uuid(requirement: dict[str, Any], metadata: Metadata) -> None:
    uuid = field(requirement, "uuid", str, where="requirement")
    if uuid.lower() != str(metadata["table-uuid"]).lower():
        _fail(f"UUID does not match: expected {metadata['table-uuid']} != {uuid}")


def _check_ref(requirement: dict[str, Any], metadata: Metadata) -> None:
    name = field(requirement, "ref", str, where="requirement")
    snapshot_id = optional_field(requirement, "snapshot-id", int, where="requirement")
    ref = metadata["refs"].get(name)
    if ref is None:
        if snapshot_id is not None:
            _fail(f"branch or tag {name} is missing, expected {snapshot_id}")
        return
    if snapshot_id is None:
        _fail(f"{ref['type']} {name} was created concurrently")
    if snapshot_id != ref["snapshot-id"]:
        _fail(f"{ref['type']} {name} has changed: expected id {snapshot_id} != {ref['snapshot-id']}")


def _number_check(key: str, actual: Number, what: str) -> Callable[[dict[str, Any], Metadata], None]:
    def check(requirement: dict[str, Any], metadata: Metadata) -> None:
        number = field(requirement, key, int, where="requirement")
        if number != metadata[actual]:
            _fail(f"{what} changed: expected id {number} != {metadata[actual]}")

    return check


REQUIREMENTS: dict[str, Callable[[dict[str, Any], Metadata], None]] = {
    "assert-table-uuid": _check_uuid,
    "assert-ref-snapshot-id": _check_ref,
    "assert-last-assigned-field-id": _number_check(
        "last-assigned-field-id", "last-column-id", "last assigned field id"
    ),
    "assert-current-schema-id": _number_check("current-schema-id", "current-schema-id", "current schema"),
    "assert-last-assigned-partition-id": _number_check(
        "last-assigned-partition-id", "last-partition-id", "last assigned partition id"
    ),
    "assert-default-spec-id": _number_check("default-spec-id", "default-spec-id", "default partition spec"),
    "assert-default-sort-order-id": _number_check(
        "default-sort-order-id", "default-sort-order-id", "default sort order"
    ),
}


def _fail(reason: str) -> None:
    message = f"Requirement failed: {reason}"
    raise CommitFailed(message)
