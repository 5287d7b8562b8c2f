"""One commit from requirements and updates to new metadata: which branch it is for, checked and applied in that branch's view."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webapp.catalog.rules import lens
from webapp.catalog.rules.branch_properties import MAIN_REF, MASTER, branch_of_ref, is_reserved, tracked_branches
from webapp.catalog.rules.errors import AlreadyExists, CommitFailed, Forbidden, Malformed
from webapp.catalog.rules.field_ids import FieldIds
from webapp.catalog.rules.held_files import check_moved
from webapp.catalog.rules.iceberg import Metadata, PartitionSpec, Schema, SortOrder
from webapp.catalog.rules.metadata import (
    DEFAULT_VERSION,
    UNSTORED_PROPERTIES,
    blank,
    check_schema,
    field,
    no_snapshot,
    objects,
    optional_field,
    schema_of,
    texts,
)
from webapp.catalog.rules.partition_names import settle_partition_names, store_partition_names
from webapp.catalog.rules.pointers import BranchState
from webapp.catalog.rules.protection import REMOVALS, check_branch_update, check_protected, check_ref_name
from webapp.catalog.rules.readable import check_partition_names
from webapp.catalog.rules.refs import is_internal
from webapp.catalog.rules.requirements import check_requirements, is_create
from webapp.catalog.rules.table_properties import check_from_branch, check_values
from webapp.catalog.rules.updates import apply_updates
from webapp.core.names import find_branch_problem

REF_UPDATES = frozenset({"set-snapshot-ref", "remove-snapshot-ref"})
NAMING = frozenset({"add-schema", "set-current-schema", "add-spec"})
DEFAULT_PROPERTIES = {"write.parquet.compression-codec": "zstd"}


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """What a client sends to change a table.

    `branch` is the branch of the header (None without one), `chain` its fallbacks on this table.
    """

    requirements: Sequence[dict[str, Any]]
    updates: Sequence[dict[str, Any]]
    branch: str | None = None
    chain: tuple[str, ...] = (MASTER,)

    @classmethod
    def parse(cls, body: dict[str, Any], *, branch: str | None = None) -> "CommitRequest":
        """Read the request from a JSON body."""
        requirements = objects(body, "requirements") if body.get("requirements") is not None else []
        updates = objects(body, "updates")
        for item, kind, ref in (
            *((requirement, "type", "ref") for requirement in requirements),
            *((update, "action", "ref-name") for update in updates),
        ):
            field(item, kind, str)
            optional_field(item, ref, str)
        return cls(requirements=requirements, updates=updates, branch=branch)

    @property
    def creates(self) -> bool:
        """Whether this commit makes the table."""
        return is_create(self.requirements)

    def with_chain(self, chain: tuple[str, ...]) -> "CommitRequest":
        """Return the same commit with the fallbacks of its branch."""
        return replace(self, chain=chain)


def target_branch(metadata: Metadata | None, request: CommitRequest) -> str:
    """Return the one branch that a commit with the header is checked and applied in."""
    home = request.branch or MASTER
    named = named_branches(metadata, request)
    if not named:
        return home
    if len(named) > 1:
        message = f"One commit with the branch header is for one branch, this one names {' and '.join(sorted(named))}"
        raise Malformed(message)
    return next(iter(named))


def named_branches(metadata: Metadata | None, request: CommitRequest) -> set[str]:
    """Return the branches that a commit names by refs; tags are none."""
    refs = metadata["refs"] if metadata is not None else {}
    set_kinds = {
        update.get("ref-name"): str(update.get("type")).lower()
        for update in request.updates
        if update.get("action") == "set-snapshot-ref"
    }
    removed = {update.get("ref-name") for update in request.updates if update.get("action") == "remove-snapshot-ref"}
    asserted = {
        requirement.get("ref")
        for requirement in request.requirements
        if requirement.get("type") == "assert-ref-snapshot-id"
    }
    names: set[str] = set()
    for name in {*set_kinds, *removed, *asserted}:
        if not isinstance(name, str):
            continue
        kind = set_kinds.get(name) or (refs[name]["type"] if name in refs else None)
        # A branch without a snapshot has no ref, and is a branch all the same.
        is_tracked = metadata is not None and kind is None and name in tracked_branches(metadata["properties"])
        if kind == "branch" or is_tracked or name in (MAIN_REF, MASTER, request.branch):
            names.add(_branch_named(name, request.branch))
    return names


def touched_branches(metadata: Metadata | None, request: CommitRequest) -> set[str]:
    """Return the branches that a commit may change: who sends it needs the right to write each of them."""
    if request.branch is not None:
        # A tag is everybody's: it keeps its snapshot from being expired, and its name from being a branch's.
        tagged = {MASTER} if _changes_tag(metadata, request) else set()
        return {target_branch(metadata, request)} | tagged
    named = named_branches(metadata, replace(request, requirements=()))
    only_refs = all(update.get("action") in REF_UPDATES | {"add-snapshot"} for update in request.updates)
    return named if named and only_refs else named | {MASTER}


def _changes_tag(metadata: Metadata | None, request: CommitRequest) -> bool:
    """Return whether a commit moves or removes a tag, or makes one of what is only staged."""
    tags = {name for name, ref in metadata["refs"].items() if ref["type"] == "tag"} if metadata is not None else set()
    is_staging = request.branch is not None and is_internal(request.branch)
    return any(
        update.get("ref-name") in tags or (is_staging and str(update.get("type")).lower() == "tag")
        for update in request.updates
        if update.get("action") in REF_UPDATES
    )


def commit(metadata: Metadata, request: CommitRequest, *, now_ms: int, place: str = "") -> Metadata:
    """Return the table's metadata after a commit; the same object when it changes nothing. It may move to `place`."""
    _check_refs(metadata, request)
    if request.branch is None:
        return _commit_plainly(metadata, request, now_ms=now_ms, place=place)
    return _commit_on_branch(metadata, request, now_ms=now_ms)


def _commit_plainly(metadata: Metadata, request: CommitRequest, *, now_ms: int, place: str) -> Metadata:
    check_requirements(request.requirements, metadata)
    after = apply_updates(metadata, store_partition_names(request.updates, metadata), now_ms=now_ms, place=place)
    gone = {
        update["ref-name"]
        for update in request.updates
        if update["action"] == "remove-snapshot-ref" and update["ref-name"] not in after["refs"]
    } - {MAIN_REF}
    if gone & tracked_branches(metadata["properties"]):
        after = lens.forget(after, gone)
    if any(update["action"] in NAMING for update in request.updates):
        after = settle_partition_names(after)
    return _checked(metadata, after, request)


def _commit_on_branch(metadata: Metadata, request: CommitRequest, *, now_ms: int) -> Metadata:
    target = target_branch(metadata, request)
    for update in request.updates:
        check_branch_update(update, metadata, creating=False)
    view = _commit_view(metadata, request, target)
    check_requirements(_as_main(request.requirements, "ref", target, request.branch), view)
    updates = _as_main(request.updates, "ref-name", target, request.branch)
    after = apply_updates(view, store_partition_names(updates, view), now_ms=now_ms)
    check_from_branch(view["properties"], after["properties"])
    if target != request.branch and MAIN_REF in view["refs"] and MAIN_REF not in after["refs"]:
        return _checked(metadata, _delete_third(metadata, after, target), request)
    if after is view and lens.own_state(metadata, target) is not None:
        return metadata
    if not request.updates:
        return metadata
    return _checked(metadata, lens.put(metadata, after, target), request)


def _commit_view(metadata: Metadata, request: CommitRequest, target: str) -> Metadata:
    """Return the view to apply a commit to; in it the target is `main` and nothing else."""
    if target == MASTER:
        return metadata
    if target == request.branch or lens.own_state(metadata, target) is not None:
        view = lens.get(metadata, target, request.chain)
    else:
        # A third branch that is not there yet starts as the writer sees the table, without a head of its own.
        home = lens.resolve(metadata, request.branch or MASTER, request.chain)
        rooted, state = (metadata, home[1]) if home is not None else lens.with_empty_state(metadata)
        view = lens.show(rooted, BranchState(head=None, ids=state.ids))
    return {**view, "refs": {name: ref for name, ref in view["refs"].items() if name != target}}


def _delete_third(metadata: Metadata, after: Metadata, target: str) -> Metadata:
    if target == MASTER:
        message = "Branch master cannot be removed"
        raise Forbidden(message)
    return lens.forget(lens.put(metadata, after, target), {target})


def _as_main(items: Iterable[dict[str, Any]], key: str, target: str, home: str | None) -> list[dict[str, Any]]:
    """Return requirements or updates in which every name of the target reads `main`, as in the target's view."""
    return [
        {**item, key: MAIN_REF} if isinstance(item.get(key), str) and _branch_named(item[key], home) == target else item
        for item in items
    ]


def _branch_named(name: str, home: str | None) -> str:
    """Return the branch a client means by a ref's name: with a header, `main` is the header's branch."""
    return home if name == MAIN_REF and home is not None else branch_of_ref(name)


def _checked(before: Metadata, after: Metadata, request: CommitRequest) -> Metadata:
    check_moved(before, after, chain=(request.branch or MASTER, *request.chain))
    actions = {update["action"] for update in request.updates}
    if actions & REMOVALS:
        check_protected(after)
    if actions & NAMING:
        check_partition_names(after)
    return after


def _check_refs(metadata: Metadata, request: CommitRequest) -> None:
    for update in request.updates:
        name = update.get("ref-name")
        if update.get("action") not in REF_UPDATES or not isinstance(name, str):
            continue
        if name.startswith("_") and name != request.branch:
            message = (
                f"Branch {name} belongs to a job, an open transaction or a deleted branch, which alone may change it"
            )
            raise Forbidden(message)
        if update["action"] == "set-snapshot-ref" and name not in (MAIN_REF, request.branch):
            _check_new_ref(metadata, name, str(update.get("type")).lower(), with_header=request.branch is not None)
        if update["action"] == "set-snapshot-ref" and name == request.branch and update.get("type") == "tag":
            message = f"{name} is a branch and cannot become a tag"
            raise Malformed(message)


def _check_new_ref(metadata: Metadata, name: str, kind: str, *, with_header: bool) -> None:
    if name in metadata["refs"] or (with_header and name == MASTER and kind == "branch"):
        return
    check_ref_name(name, kind=kind, problem=find_branch_problem(name))
    branches = lens.branches_of(metadata)
    taken = next(
        (other for other in branches if other.lower() == name.lower() and (other != name or kind == "tag")), None
    )
    if taken is not None:
        message = f"Cannot create {kind} {name}: branch {taken} exists"
        raise Malformed(message)


# --- making a table ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """What a client sends to make a table."""

    name: str
    schema: Schema
    spec: PartitionSpec | None
    order: SortOrder | None
    properties: dict[str, str]
    location: str | None
    stage: bool

    @classmethod
    def parse(cls, body: dict[str, Any]) -> "CreateRequest":
        """Read the request from a JSON body."""
        return cls(
            name=field(body, "name", str),
            schema=field(body, "schema", dict),
            spec=optional_field(body, "partition-spec", dict),
            order=optional_field(body, "write-order", dict),
            properties=texts(body, "properties") if body.get("properties") is not None else {},
            location=optional_field(body, "location", str),
            stage=optional_field(body, "stage-create", bool) or False,
        )

    @property
    def version(self) -> int:
        """The format version asked for; it travels as a property."""
        text = self.properties.get("format-version", str(DEFAULT_VERSION))
        if not text.isdigit():
            message = f"Invalid format-version: {text!r}"
            raise Malformed(message)
        return int(text)


def creation_updates(request: CreateRequest, base: Metadata | None) -> list[dict[str, Any]]:
    """Return the updates by which the server would make the table; columns get ids that the history leaves free."""
    check_schema(request.schema, version=request.version)
    ids = FieldIds(last_id=0) if base is None else FieldIds.after(base)
    schema = {key: value for key, value in ids.assign(request.schema).items() if key != "schema-id"}
    properties = {key: value for key, value in request.properties.items() if key not in UNSTORED_PROPERTIES}
    if base is None:
        properties = DEFAULT_PROPERTIES | properties
    return [
        {"action": "upgrade-format-version", "format-version": request.version},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": _renumbered(request.spec, "field-id", ids)}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"fields": _renumbered(request.order, None, ids)}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        *([{"action": "set-properties", "updates": properties}] if properties else []),
    ]


def _renumbered(body: PartitionSpec | SortOrder | None, dropped: str | None, ids: FieldIds) -> list[dict[str, Any]]:
    """Return partition or sort fields whose sources are the columns' new ids; the server gives them their own."""
    if body is None:
        return []
    fields = []
    for item in objects(body, "fields", where="partition spec or sort order"):
        entry = {key: value for key, value in item.items() if key != dropped}
        if entry.get("source-ids") is not None:
            entry["source-ids"] = [ids.new_by_old.get(number, number) for number in field(entry, "source-ids", list)]
        else:
            entry["source-id"] = ids.new_by_old.get(field(entry, "source-id", int, where="field"), -1)
        fields.append(entry)
    return fields


def create(
    request: CommitRequest, *, uuid: str, location: str, version: int = DEFAULT_VERSION, now_ms: int
) -> Metadata:
    """Return the metadata of a new table. Made on a branch, it exists on main with an empty schema and no data."""
    check_requirements(request.requirements, None)
    start = blank(uuid=uuid, location=location, version=version, now_ms=now_ms)
    updates = _as_main(request.updates, "ref-name", request.branch or MASTER, request.branch)
    view = _complete(apply_updates(start, updates, now_ms=now_ms, creating=True))
    return _checked(start, view if request.branch is None else _only_on_branch(view, request.branch), request)


def create_on_branch(metadata: Metadata, request: CommitRequest, *, now_ms: int) -> Metadata:
    """Make a table that is only a placeholder for this branch a real one on it; answer 409 where it is more."""
    check_requirements(request.requirements, None)
    branch = placeholder_for(metadata, request.branch, request.chain)
    updates = []
    for update in request.updates:
        if update.get("action") == "assign-uuid" and update.get("uuid") != metadata["table-uuid"]:
            message = "Requirement failed: table already exists, it was created concurrently"
            raise CommitFailed(message)
        if update.get("action") == "upgrade-format-version" and metadata["snapshots"]:
            # Nobody may change the version of a table that others have data in; asking for less is no reason to fail.
            continue
        updates.append(update)
    view = _commit_view(metadata, request, branch)
    after = apply_updates(view, _as_main(updates, "ref-name", branch, branch), now_ms=now_ms)
    check_values(view["properties"], after["properties"])
    return _checked(metadata, lens.put(metadata, after, branch), request)


def staged(view: Metadata) -> Metadata:
    """Return what a client that stages a table gets: what it will send back to make it, and none of its history.

    Clients repeat all they are given, properties included, and take the highest number for the one added last.
    """
    return {
        **view,
        "schemas": [schema_of(view, view["current-schema-id"])],
        "partition-specs": [spec for spec in view["partition-specs"] if spec["spec-id"] == view["default-spec-id"]],
        "sort-orders": [order for order in view["sort-orders"] if order["order-id"] == view["default-sort-order-id"]],
        "properties": {key: value for key, value in view["properties"].items() if not is_reserved(key)},
        "snapshots": [],
        "refs": {},
        "snapshot-log": [],
        "metadata-log": [],
    }


def placeholder_for(metadata: Metadata, branch: str | None, chain: Iterable[str]) -> str:
    """Return the branch, if the table is only a placeholder for it."""
    if branch is not None and lens.own_state(metadata, branch) is None:
        source = lens.resolve(metadata, branch, chain)
        if source is None or lens.is_empty(metadata, source[1]):
            return branch
    message = "Table already exists"
    raise AlreadyExists(message)


def _complete(metadata: Metadata) -> Metadata:
    if metadata["current-schema-id"] < 0:
        message = "A table needs a schema: none was set"
        raise Malformed(message)
    rooted, state = lens.with_empty_state(metadata)
    if metadata["default-spec-id"] < 0:
        specs = rooted["partition-specs"]
        metadata = {**metadata, "partition-specs": specs, "default-spec-id": state.ids.spec_id}
    if metadata["default-sort-order-id"] < 0:
        orders = rooted["sort-orders"]
        metadata = {**metadata, "sort-orders": orders, "default-sort-order-id": state.ids.order_id}
    return metadata


def _only_on_branch(view: Metadata, branch: str) -> Metadata:
    # The ids are the client's own: its data files already carry them. So it is main that gets the next ones.
    rooted, state = lens.with_empty_state(view)
    main: Metadata = {
        **rooted,
        "refs": {},
        "current-snapshot-id": no_snapshot(rooted),
        "current-schema-id": state.ids.schema_id,
        "default-spec-id": state.ids.spec_id,
        "default-sort-order-id": state.ids.order_id,
        "snapshot-log": [],
    }
    return lens.put(main, rooted, branch)
