"""A branch that is forgotten and made again shows what it showed, whatever maintenance did to the table meanwhile."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.factories import catalog as make
from webapp.catalog.rules import lens
from webapp.catalog.rules.branch_properties import MASTER
from webapp.catalog.rules.errors import Invalid
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import HISTORIES, current_snapshot_id, find, schema_of

NUMBERS = {"remove-schemas": "schema-ids", "remove-partition-specs": "spec-ids"}
KINDS = {"remove-schemas": ("schemas", "schema-id"), "remove-partition-specs": ("partition-specs", "spec-id")}
Step = tuple[str, str]
names = st.sampled_from("pqrs")
steps = st.tuples(st.sampled_from(["append", "column", "spec", "order"]), names)


def write(table: Metadata, branch: str | None, step: Step) -> Metadata:
    """One commit of a client; what the table has already is not added again."""
    kind, name = step
    view = lens.get(table, branch or MASTER)
    fields = schema_of(view, view["current-schema-id"])["fields"]
    if kind == "append":
        return make.append(table, branch)
    if kind == "column":
        is_known = name in {column["name"] for column in fields}
        return table if is_known else make.change(table, *make.add_column(view, name), branch=branch)
    source = fields[-1]["id"]
    if kind == "spec":
        spec = {"fields": [{"name": f"{name}_by", "source-id": source, "transform": "identity"}]}
        updates: list[dict[str, Any]] = [
            {"action": "add-spec", "spec": spec},
            {"action": "set-default-spec", "spec-id": -1},
        ]
    else:
        field = {"source-id": source, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
        updates = [
            {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [field]}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ]
    try:
        return make.change(table, *updates, branch=branch)
    except Invalid:
        return table


def maintain(table: Metadata) -> Metadata:
    """Remove every schema and spec that is not protected."""
    for action, (history, key) in KINDS.items():
        for item in table[history]:
            try:
                table = make.change(table, {"action": action, NUMBERS[action]: [item[key]]})
            except Invalid:
                continue
    return table


def show(table: Metadata, branch: str) -> tuple[Any, ...]:
    """What a reader of the branch sees, without the numbers that the histories give."""
    view = lens.get(table, branch)
    schema = schema_of(view, view["current-schema-id"])
    spec = find(view["partition-specs"], "spec-id", view["default-spec-id"])
    order = find(view["sort-orders"], "order-id", view["default-sort-order-id"])
    assert spec is not None
    assert order is not None
    return current_snapshot_id(view), schema["fields"], spec["fields"], order["fields"]


@given(
    version=st.sampled_from([1, 2, 3]),
    before=st.lists(st.tuples(st.sampled_from([None, "b"]), steps), max_size=6),
    after=st.lists(steps, max_size=4),
    late=st.lists(steps, max_size=2),
)
def test_a_branch_made_again_shows_what_it_showed(
    version: int, before: list[tuple[str | None, Step]], after: list[Step], late: list[Step]
) -> None:
    table = write(make.make_table(version=version), "b", ("column", "own"))
    for branch, step in before:
        table = write(table, branch, step)
    shown, place = show(table, "b"), lens.place(table, "b")
    assert place is not None
    table = lens.keep(lens.forget(table, {"b"}), "_deleted/1", place.pointer.snapshot_id)
    for step in after:
        table = write(table, None, step)
    table = maintain(table)
    for step in late:
        table = write(table, None, step)
    master = show(table, MASTER)
    whole, pointer = lens.bring_back(lens.forget(table, {"_deleted/1"}), place)
    table = lens.set_state(whole, "b", pointer.state, now_ms=make.NOW)
    assert show(table, "b") == shown
    assert show(table, MASTER) == master
    for history, key in HISTORIES.items():
        ids = [item[key] for item in table[history]]
        assert len(ids) == len(set(ids))
