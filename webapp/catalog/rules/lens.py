"""get(metadata, branch) → view, put(metadata, view, branch) → metadata: what a branch sees, and what its writes leave.

Stored metadata is ordinary Iceberg. The view of branch b is what the table would look like if b were its main. A commit is
applied to the view as any catalog would apply it, and `put` carries the result home: the pointers, ids and log of main stay
as they were, those of b come from the view, and everything shared comes from the view. So no update needs a special case.

A branch on a table is in one of three states:

- *untracked, no ref*: it reads as the nearest existing branch of its fallback chain; the first write makes it its own.
- *tracked, no ref*: an empty branch that has a schema; it never falls back.
- *ref but untracked* (a plain client made it): the table's current schema, as standard Iceberg has it, until the first write
  with the header.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from webapp.catalog.rules.branch_logs import derived_log
from webapp.catalog.rules.branch_properties import (
    MAIN_REF,
    MASTER,
    TrackedIds,
    ref_of_branch,
    stamp,
    strip,
    tracked_branches,
    tracked_ids,
)
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.rules.iceberg import Metadata, Snapshot, SnapshotRef
from webapp.catalog.rules.metadata import (
    EMPTY_SPEC,
    HISTORIES,
    UNSORTED,
    current_ids,
    current_snapshot_id,
    find,
    no_snapshot,
    schema_of,
    walk_back,
)
from webapp.catalog.rules.partition_names import show_partition_names
from webapp.catalog.rules.pointers import BranchPlace, BranchState, Pointer


def pointer(metadata: Metadata, branch: str) -> Pointer | None:
    """Return where a branch itself points on this table; None when it has nothing here."""
    state = own_state(metadata, branch)
    return None if state is None else Pointer.of(state)


def place(metadata: Metadata, branch: str) -> BranchPlace | None:
    """Return where a branch itself stands and what its ids mean; None when it has nothing here."""
    stands = pointer(metadata, branch)
    if stands is None:
        return None
    definitions = {
        history: find(metadata[history], key, getattr(stands, key.replace("-", "_")))
        for history, key in HISTORIES.items()
    }
    return BranchPlace(stands, {history: item for history, item in definitions.items() if item is not None})


def bring_back(metadata: Metadata, place: BranchPlace) -> tuple[Metadata, Pointer]:
    """Return the metadata with everything that a place needs, and the pointer to it.

    What maintenance removed comes back under its old number, or under a new one where that means something else by now.
    """
    whole = metadata.copy()
    numbers = {}
    for history, definition in place.definitions.items():
        key = HISTORIES[history]
        whole[history], number = _with_definition(metadata[history], key, definition)
        numbers[key.replace("-", "_")] = number
    return whole, replace(place.pointer, **numbers)


def own_state(metadata: Metadata, branch: str) -> BranchState | None:
    """Return what the branch itself has on this table; None when it has neither a ref nor tracked ids."""
    main = current_ids(metadata)
    if branch == MASTER:
        return BranchState(head=current_snapshot_id(metadata), ids=main)
    ref = metadata["refs"].get(branch)
    if ref is not None and ref["type"] != "branch":
        message = f"{branch} is a tag of this table, not a branch"
        raise Malformed(message)
    ids = tracked_ids(metadata["properties"], branch, default=main)
    if ref is None and ids is None:
        return None
    return BranchState(head=ref["snapshot-id"] if ref else None, ids=ids or main)


def resolve(metadata: Metadata, branch: str, chain: Iterable[str] = (MASTER,)) -> tuple[str, BranchState] | None:
    """Return the branch itself or the first of its fallback chain that exists on the table, and its state."""
    for candidate in (branch, *chain):
        state = own_state(metadata, candidate)
        if state is not None:
            return candidate, state
    return None


def get(metadata: Metadata, branch: str, chain: Iterable[str] = (MASTER,)) -> Metadata:
    """Return the view of a branch; for master the metadata itself."""
    if branch == MASTER:
        return metadata
    source = resolve(metadata, branch, chain)
    if source is not None:
        return show(metadata, source[1], alias=branch)
    rooted, state = with_empty_state(metadata)
    return show(rooted, state, alias=branch)


def show(metadata: Metadata, state: BranchState, *, alias: str | None = None) -> Metadata:
    """Return the metadata with a given state as its main; `alias` is a second name for that main."""
    refs = {name: ref for name, ref in metadata["refs"].items() if name not in (MAIN_REF, alias)}
    main = metadata["refs"].get(MAIN_REF)
    if main is not None:
        # Else clients would take the head of master for a snapshot that nothing refers to.
        refs[MASTER] = main
    if state.head is not None:
        own = metadata["refs"].get(alias) if alias is not None else None
        head = own if own is not None and own["snapshot-id"] == state.head else _branch_ref(state.head)
        refs[MAIN_REF] = head
        if alias is not None:
            refs[alias] = head
    return {
        **metadata,
        "current-snapshot-id": no_snapshot(metadata) if state.head is None else state.head,
        "current-schema-id": state.ids.schema_id,
        "default-spec-id": state.ids.spec_id,
        "default-sort-order-id": state.ids.order_id,
        "refs": refs,
        "snapshot-log": derived_log(metadata, state.head),
    }


def put(metadata: Metadata, view: Metadata, branch: str) -> Metadata:
    """Return the metadata after a write to the view of a branch."""
    if branch == MASTER:
        return view
    refs = {name: ref for name, ref in view["refs"].items() if name not in (MAIN_REF, MASTER, branch)}
    if MAIN_REF in metadata["refs"]:
        refs[MAIN_REF] = metadata["refs"][MAIN_REF]
    if MAIN_REF in view["refs"]:
        refs[branch] = view["refs"][MAIN_REF]
    head = current_snapshot_id(metadata)
    ids = current_ids(metadata)
    return {
        **view,
        "current-snapshot-id": no_snapshot(view) if head is None else head,
        "current-schema-id": ids.schema_id,
        "default-spec-id": ids.spec_id,
        "default-sort-order-id": ids.order_id,
        "refs": refs,
        "snapshot-log": metadata["snapshot-log"],
        "properties": stamp(view["properties"], branch, current_ids(view)),
    }


def set_state(metadata: Metadata, branch: str, state: BranchState, *, now_ms: int) -> Metadata:
    """Point a branch somewhere; on master this is an ordinary move of main, with its line in the log."""
    ref = ref_of_branch(branch)
    refs = {name: pointer for name, pointer in metadata["refs"].items() if name != ref}
    if state.head is not None:
        old = metadata["refs"].get(ref)
        refs[ref] = _branch_ref(state.head) if old is None else {**old, **_branch_ref(state.head)}
    if branch != MASTER:
        return {**metadata, "refs": refs, "properties": stamp(metadata["properties"], branch, state.ids)}
    log = metadata["snapshot-log"]
    if state.head is not None and state.head != current_snapshot_id(metadata):
        at = max(now_ms, log[-1]["timestamp-ms"] if log else 0)
        log = [*log, {"snapshot-id": state.head, "timestamp-ms": at}]
    return {
        **metadata,
        "refs": refs,
        "current-snapshot-id": no_snapshot(metadata) if state.head is None else state.head,
        "current-schema-id": state.ids.schema_id,
        "default-spec-id": state.ids.spec_id,
        "default-sort-order-id": state.ids.order_id,
        "snapshot-log": log,
    }


def forget(metadata: Metadata, branches: Iterable[str]) -> Metadata:
    """Return the metadata without these branches: neither refs nor tracked ids, so nothing protects what they used."""
    gone = set(branches) - {MASTER, MAIN_REF}
    rest: Metadata = {
        **metadata,
        "refs": {name: ref for name, ref in metadata["refs"].items() if name not in gone},
        "properties": strip(metadata["properties"], gone),
    }
    if tracked_branches(rest["properties"]):
        return rest
    # A table without branches is shown as it is stored, and may be given any column: no name that a branch leaves is in its way.
    return {**rest, "partition-specs": show_partition_names(metadata)["partition-specs"]}


def give_up(metadata: Metadata, staging: str, *, is_own: Callable[[Snapshot], bool]) -> Metadata:
    """Return the metadata without a staging branch and what was written for it alone, so that nothing names its files.

    A plain client keeps the snapshots of a branch that it removes until they are expired. Nobody has seen these, and the
    files of a job that was ended may be gone.

    Args:
        metadata: what is stored.
        staging: the branch.
        is_own: whether only its job can have made a snapshot.

    """
    state = own_state(metadata, staging)
    if state is None:
        return metadata
    rest = forget(metadata, {staging})
    line = list(takewhile(is_own, _walk(metadata, state.head)))
    own_ids = {snapshot["snapshot-id"] for snapshot in line}
    needed: set[int | None] = {ref["snapshot-id"] for ref in rest["refs"].values()}
    needed |= {item.get("parent-snapshot-id") for item in rest["snapshots"] if item["snapshot-id"] not in own_ids}
    gone = {item["snapshot-id"] for item in takewhile(lambda item: item["snapshot-id"] not in needed, line)}
    return {
        **rest,
        "snapshots": [item for item in rest["snapshots"] if item["snapshot-id"] not in gone],
        "statistics": [item for item in rest["statistics"] if item["snapshot-id"] not in gone],
        "partition-statistics": [item for item in rest["partition-statistics"] if item["snapshot-id"] not in gone],
    }


def _walk(metadata: Metadata, head: int | None) -> Iterator[Snapshot]:
    return iter(()) if head is None else walk_back(metadata["snapshots"], head)


def keep(metadata: Metadata, name: str, head: int | None) -> Metadata:
    """Return the metadata with a ref of an internal name that keeps a snapshot from expiry; it tracks nothing."""
    return metadata if head is None else {**metadata, "refs": {**metadata["refs"], name: _branch_ref(head)}}


def branches_of(metadata: Metadata) -> set[str]:
    """List the branches that exist on the table besides master."""
    refs = {name for name, ref in metadata["refs"].items() if ref["type"] == "branch" and name != MAIN_REF}
    return refs | tracked_branches(metadata["properties"])


def list_followers(metadata: Metadata) -> set[str]:
    """List the branches that have a ref and track no ids: they have the schema, spec and order that master has now."""
    return branches_of(metadata) - tracked_branches(metadata["properties"])


def is_empty(metadata: Metadata, state: BranchState) -> bool:
    """Return whether a state is a mere placeholder: no columns and no snapshot."""
    return state.head is None and not schema_of(metadata, state.ids.schema_id)["fields"]


def with_empty_state(metadata: Metadata) -> tuple[Metadata, BranchState]:
    """Return the metadata with an empty schema, an unpartitioned spec and no order in its histories, and that state."""
    schemas, schema_id = _with_blank(metadata["schemas"], "schema-id", {"type": "struct", "fields": []})
    specs, spec_id = _with_blank(metadata["partition-specs"], "spec-id", EMPTY_SPEC)
    orders, order_id = _with_blank(metadata["sort-orders"], "order-id", UNSORTED)
    rooted: Metadata = {**metadata, "schemas": schemas, "partition-specs": specs, "sort-orders": orders}
    return rooted, BranchState(head=None, ids=TrackedIds(schema_id, spec_id, order_id))


def _with_definition(items: list[Any], key: str, definition: Mapping[str, Any]) -> tuple[list[Any], int]:
    meaning = {**definition, key: None}
    same = [item[key] for item in items if {**item, key: None} == meaning]
    if same:
        return items, definition[key] if definition[key] in same else same[0]
    taken = {item[key] for item in items}
    number = definition[key] if definition[key] not in taken else 1 + max(taken)
    return [*items, {**definition, key: number}], number


def _branch_ref(head: int) -> SnapshotRef:
    return {"snapshot-id": head, "type": "branch"}


def _with_blank(items: list[Any], key: str, empty: Mapping[str, Any]) -> tuple[list[Any], int]:
    blank = next((item[key] for item in items if not item["fields"]), None)
    if blank is not None:
        return items, blank
    # Order 0 is the unsorted one by definition; the others are simply numbered on.
    number = 0 if key == "order-id" else 1 + max((item[key] for item in items), default=-1)
    return [*items, {**empty, key: number}], number
