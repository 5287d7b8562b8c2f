"""What a branch still needs cannot be removed, by nobody and by no way round; deleting the branch lifts it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from webapp.catalog.rules.branch_properties import MAIN_REF, branch_of_ref, tracked_branches, tracked_ids
from webapp.catalog.rules.errors import Forbidden, Invalid, Malformed
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import current_ids
from webapp.catalog.rules.refs import is_internal

REMOVALS = frozenset({"remove-schemas", "remove-partition-specs", "remove-snapshots"})
NOT_FROM_A_BRANCH = frozenset({*REMOVALS, "remove-encryption-key", "upgrade-format-version", "set-location"})


@dataclass(frozen=True, slots=True)
class Lost:
    """Something that a branch or a tag needs and the metadata does not have."""

    kind: str
    """branch or tag"""
    name: str
    what: str
    """For example `schema 3`."""
    verb: str = "uses"


def check_protected(metadata: Metadata) -> None:
    """Refuse metadata in which a branch or a tag has lost something that it points to."""
    for lost in find_lost(metadata):
        if is_internal(lost.name):
            way_out = f"{lost.name} belongs to an open transaction, or to a deleted branch that can still be restored"
        else:
            way_out = f"Delete the {lost.kind} first"
        message = f"Cannot remove {lost.what}: {lost.kind} {lost.name} {lost.verb} it. {way_out}."
        raise Invalid(message)


def find_lost(metadata: Metadata) -> Iterator[Lost]:
    """Yield what branches and tags need and the metadata does not have."""
    snapshots = {snapshot["snapshot-id"] for snapshot in metadata["snapshots"]}
    for name, ref in metadata["refs"].items():
        if ref["snapshot-id"] not in snapshots:
            shown = branch_of_ref(name) if name == MAIN_REF else name
            yield Lost(ref["type"], shown, f"snapshot {ref['snapshot-id']}", "points to")
    numbers = {
        "schema": {schema["schema-id"] for schema in metadata["schemas"]},
        "partition spec": {spec["spec-id"] for spec in metadata["partition-specs"]},
        "sort order": {order["order-id"] for order in metadata["sort-orders"]},
    }
    for branch in sorted(tracked_branches(metadata["properties"])):
        ids = tracked_ids(metadata["properties"], branch, default=current_ids(metadata))
        if ids is None:
            continue
        for kind, number in zip(numbers, (ids.schema_id, ids.spec_id, ids.order_id), strict=True):
            if number not in numbers[kind]:
                yield Lost("branch", branch, f"{kind} {number}")


def check_branch_update(update: dict[str, Any], metadata: Metadata, *, creating: bool) -> None:
    """Refuse from a branch what would change the table for everybody."""
    action = update.get("action")
    if action not in NOT_FROM_A_BRANCH or creating:
        return
    if action == "upgrade-format-version" and update.get("format-version") == metadata["format-version"]:
        return
    if action == "set-location" and str(update.get("location")).rstrip("/") == metadata["location"]:
        return
    message = (
        f"{action} changes the whole table and cannot be called from a branch: "
        "run maintenance on master, without the X-PLTR-Branch header."
    )
    raise Forbidden(message)


def check_ref_name(name: str, *, kind: str, problem: str | None) -> None:
    """Refuse a new ref whose name nobody could address, or that would be taken for another."""
    if name.lower() == "master":
        message = f"A {kind} cannot be called {name}: master is the branch that Iceberg calls main"
        raise Malformed(message)
    if kind == "branch" and problem is not None:
        message = f"Cannot create branch {name}: {problem}"
        raise Malformed(message)
