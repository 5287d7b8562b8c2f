"""The laws of the lens over random histories of three branches and plain clients.

The model keeps each branch as a table of its own: a list of columns, a spec, an order, a head. Clients build their commits
from what they see, at once or on a view that has grown stale meanwhile. After every step each branch, and main without the
header, must look exactly as its own table in the model.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.factories import catalog as make
from webapp.catalog.rules import commits, lens
from webapp.catalog.rules.branch_logs import walk_log
from webapp.catalog.rules.branch_properties import MASTER, tracked_branches
from webapp.catalog.rules.commits import CommitRequest
from webapp.catalog.rules.errors import CommitFailed, Forbidden, Invalid, Malformed
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import current_snapshot_id, find, normalise, schema_of, walk_fields
from webapp.catalog.rules.partition_names import show_partition_names
from webapp.core import json_bytes
from webapp.core.json_members import Members

BRANCHES = ("a", "b", "feature/c.d")
SHARED = ("schemas", "partition-specs", "sort-orders", "snapshots", "properties", "last-column-id", "last-partition-id")
Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Own:
    """One branch as a table of its own."""

    columns: Columns = (("id", "long"), ("name", "string"))
    spec: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    head: int | None = None


@dataclass(frozen=True)
class Seen:
    """What a client loaded, and of which branch."""

    branch: str | None
    view: Metadata = field(compare=False)


def own_of(view: Metadata) -> Own:
    """A view as the model would write it."""
    names = {number: name for schema in view["schemas"] for number, name, _ in walk_fields(schema)}
    schema = schema_of(view, view["current-schema-id"])
    spec = find(view["partition-specs"], "spec-id", view["default-spec-id"])
    order = find(view["sort-orders"], "order-id", view["default-sort-order-id"])
    assert spec is not None
    assert order is not None
    return Own(
        columns=tuple((item["name"], item["type"]) for item in schema["fields"]),
        spec=tuple(names[item["source-id"]] for item in spec["fields"]),
        order=tuple(names[item["source-id"]] for item in order["fields"]),
        head=current_snapshot_id(view),
    )


def show(table: Metadata, branch: str) -> Metadata:
    """What a client of a branch gets."""
    return show_partition_names(lens.get(table, branch))


def partition_names(view: Metadata) -> set[str]:
    """The names that no column may have: those of the fields that the table is partitioned by now."""
    current = find(view["partition-specs"], "spec-id", view["default-spec-id"])
    return {item["name"] for item in current["fields"]} if current is not None else set()


def requirements_of(seen: Seen, *, ref: bool = False, schema: bool = False) -> list[dict[str, Any]]:
    """The assertions that real clients send."""
    view = seen.view
    found: list[dict[str, Any]] = [{"type": "assert-table-uuid", "uuid": view["table-uuid"]}]
    if ref:
        known = view["refs"].get("main", {}).get("snapshot-id")
        found.append({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": known})
    if schema:
        found.append({"type": "assert-current-schema-id", "current-schema-id": view["current-schema-id"]})
        found.append({"type": "assert-last-assigned-field-id", "last-assigned-field-id": view["last-column-id"]})
    return found


class LensMachine(RuleBasedStateMachine):
    """Random clients against the model."""

    views = Bundle("views")

    @initialize(version=st.sampled_from([1, 2, 3]))
    def create(self, version: int) -> None:
        """One table on main."""
        self.table = make.make_table(version=version)
        self.model: dict[str, Own] = {MASTER: Own()}
        self.lost = 0
        self.members = Members(self.table)

    # --- what clients do ------------------------------------------------------------------------------------------

    @rule(target=views, branch=st.sampled_from((None, *BRANCHES)))
    def load(self, branch: str | None) -> Any:
        """A client loads the table; commits made from it later may be stale."""
        return Seen(branch, show(self.table, branch or MASTER))

    @rule(seen=views, replace_all=st.booleans())
    def append(self, seen: Seen, *, replace_all: bool) -> None:
        """A data commit, or one that replaces everything and has no parent."""
        made = make.snapshot(seen.view, operation="overwrite" if replace_all else "append")
        if replace_all:
            made.pop("parent-snapshot-id", None)
        updates = [{"action": "add-snapshot", "snapshot": made}, make.set_ref("main", made["snapshot-id"])]
        if self.commit(seen, updates, requirements_of(seen, ref=True)):
            self.move(seen.branch, head=made["snapshot-id"])

    @rule(seen=views, name=st.sampled_from("pqr"), kind=st.sampled_from(["long", "string"]))
    def add_column(self, seen: Seen, name: str, kind: str) -> None:
        """A schema change as clients make it."""
        own = own_of(seen.view)
        if name in dict(own.columns) or name in partition_names(seen.view):
            return
        if self.commit(seen, make.add_column(seen.view, name, kind), requirements_of(seen, schema=True)):
            self.move(seen.branch, columns=(*own.columns, (name, kind)))

    @rule(seen=views, data=st.data())
    def drop_column(self, seen: Seen, data: st.DataObject) -> None:
        """Drop a column that neither spec nor order uses."""
        own = own_of(seen.view)
        free = [name for name, _ in own.columns if name not in (*own.spec, *own.order)]
        if not free:
            return
        name = data.draw(st.sampled_from(free))
        current = schema_of(seen.view, seen.view["current-schema-id"])
        kept = [item for item in current["fields"] if item["name"] != name]
        if self.commit(
            seen, make.set_schema(make.schema(*kept) | {"fields": kept}), requirements_of(seen, schema=True)
        ):
            self.move(seen.branch, columns=tuple(pair for pair in own.columns if pair[0] != name))

    @rule(seen=views, data=st.data())
    def partition_by(self, seen: Seen, data: st.DataObject) -> None:
        """Another partition spec."""
        own = own_of(seen.view)
        current = schema_of(seen.view, seen.view["current-schema-id"])
        chosen = (
            data.draw(st.lists(st.sampled_from(current["fields"]), max_size=2, unique_by=lambda c: c["id"]))
            if current["fields"]
            else []
        )
        taken = {item["name"] for item in current["fields"]}
        names = data.draw(st.permutations([name for name in (*"pqrst", "x_1000") if name not in taken]))
        fields = [
            {"source-id": item["id"], "name": name, "transform": "identity"}
            for item, name in zip(chosen, names, strict=False)
        ]
        updates = [{"action": "add-spec", "spec": {"fields": fields}}, {"action": "set-default-spec", "spec-id": -1}]
        checks = [
            *requirements_of(seen, schema=True),
            {"type": "assert-default-spec-id", "default-spec-id": seen.view["default-spec-id"]},
        ]
        if self.commit(seen, updates, checks):
            self.move(seen.branch, spec=tuple(item["name"] for item in chosen))
        assert own is not None

    @rule(seen=views, data=st.data())
    def order_by(self, seen: Seen, data: st.DataObject) -> None:
        """Another sort order."""
        current = schema_of(seen.view, seen.view["current-schema-id"])
        chosen = data.draw(st.lists(st.sampled_from(current["fields"]), max_size=1)) if current["fields"] else []
        fields = [
            {"source-id": item["id"], "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
            for item in chosen
        ]
        updates = [
            {"action": "add-sort-order", "sort-order": {"fields": fields}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ]
        if self.commit(seen, updates, requirements_of(seen, schema=True)):
            self.move(seen.branch, order=tuple(item["name"] for item in chosen))

    @rule(seen=views)
    def empty(self, seen: Seen) -> None:
        """A replace without data: the ref of main goes."""
        if self.commit(seen, [{"action": "remove-snapshot-ref", "ref-name": "main"}], requirements_of(seen, ref=True)):
            self.move(seen.branch, head=None)

    @rule(seen=views, data=st.data())
    def roll_back(self, seen: Seen, data: st.DataObject) -> None:
        """Point the branch to any snapshot that the client has seen."""
        if not seen.view["snapshots"]:
            return
        number = data.draw(st.sampled_from(seen.view["snapshots"]))["snapshot-id"]
        if self.commit(seen, [make.set_ref("main", number)], requirements_of(seen, ref=True)):
            self.move(seen.branch, head=number)

    @rule(seen=views, value=st.sampled_from("12"))
    def set_property(self, seen: Seen, value: str) -> None:
        """A property is the table's, not the branch's; but a first write with the header makes the branch."""
        if self.commit(seen, [{"action": "set-properties", "updates": {"owner": value}}], requirements_of(seen)):
            self.move(seen.branch)
            assert self.table["properties"]["owner"] == value

    @rule(seen=views, third=st.sampled_from((*BRANCHES, MASTER)))
    def write_third(self, seen: Seen, third: str) -> None:
        """A client with the header names another branch's ref."""
        if seen.branch is None or third == seen.branch:
            return
        known = seen.view["refs"].get(third, {}).get("snapshot-id")
        made = make.snapshot(seen.view, **{"parent-snapshot-id": known})
        updates = [{"action": "add-snapshot", "snapshot": made}, make.set_ref(third, made["snapshot-id"])]
        checks = [{"type": "assert-ref-snapshot-id", "ref": third, "snapshot-id": known}]
        before = self.model.get(third)
        if self.commit(seen, updates, checks):
            start = (
                before if before is not None else replace(self.model.get(seen.branch, self.model[MASTER]), head=None)
            )
            self.model[third] = replace(start, head=made["snapshot-id"])

    # --- plain clients and branches ---------------------------------------------------------------------------------

    @rule(branch=st.sampled_from(BRANCHES))
    def make_ref_plainly(self, branch: str) -> None:
        """A plain client makes or moves a branch: only its head is its own until somebody writes with the header."""
        number = current_snapshot_id(self.table)
        if number is None:
            return
        self.table = make.change(self.table, make.set_ref(branch, number))
        if branch not in tracked_branches(self.table["properties"]):
            self.model[branch] = replace(self.model[MASTER], head=number)
        else:
            self.model[branch] = replace(self.model[branch], head=number)

    @rule(branch=st.sampled_from(BRANCHES))
    def remove_ref_plainly(self, branch: str) -> None:
        """A plain client removes a branch with all that it tracked; one without a ref it cannot see."""
        had_ref = branch in self.table["refs"]
        self.table = make.change(self.table, {"action": "remove-snapshot-ref", "ref-name": branch})
        if had_ref or branch in self.model:
            self.model.pop(branch, None)

    @rule(branch=st.sampled_from(BRANCHES))
    def forget(self, branch: str) -> None:
        """The branch is deleted."""
        self.table = lens.forget(self.table, {branch})
        self.model.pop(branch, None)

    @rule(staging=st.sampled_from(BRANCHES), onto=st.sampled_from((*BRANCHES, MASTER)))
    def publish(self, staging: str, onto: str) -> None:
        """What one branch has becomes what another has."""
        state = lens.own_state(self.table, staging)
        if state is None or staging == onto:
            return
        own = self.model[staging]
        self.table = lens.forget(lens.set_state(self.table, onto, state, now_ms=make.NOW), {staging})
        del self.model[staging]
        self.model[onto] = own
        self.follow_main()

    @rule(data=st.data())
    def remove_schema_plainly(self, data: st.DataObject) -> None:
        """Maintenance on main: what a branch uses stays, what nobody uses goes."""
        number = data.draw(st.sampled_from(self.table["schemas"]))["schema-id"]
        used = {lens.get(self.table, branch)["current-schema-id"] for branch in (MASTER, *BRANCHES)}
        try:
            self.table = make.change(self.table, {"action": "remove-schemas", "schema-ids": [number]})
        except Invalid:
            assert number in used
        else:
            assert number not in used

    @precondition(lambda self: self.table["snapshots"])
    @rule(data=st.data())
    def remove_snapshot_plainly(self, data: st.DataObject) -> None:
        """Expiry on main: a head stays, and no branch loses anything but history."""
        number = data.draw(st.sampled_from(self.table["snapshots"]))["snapshot-id"]
        heads = {ref["snapshot-id"] for ref in self.table["refs"].values()}
        try:
            self.table = make.change(self.table, {"action": "remove-snapshots", "snapshot-ids": [number]})
        except Invalid:
            assert number in heads
        else:
            assert number not in heads

    # --- bookkeeping ------------------------------------------------------------------------------------------------

    def commit(self, seen: Seen, updates: list[dict[str, Any]], requirements: list[dict[str, Any]]) -> bool:
        """Send a commit; a stale one may only be a conflict, a fresh one is taken."""
        fresh = seen.view == show(self.table, seen.branch or MASTER)
        before = copy.deepcopy(self.table)
        request = CommitRequest(requirements, updates, seen.branch)
        try:
            after = commits.commit(self.table, request, now_ms=make.NOW)
        except (CommitFailed, Invalid, Malformed) as error:
            assert self.table == before, "a refused commit leaves nothing"
            assert not fresh or self.may_fail(seen, updates), error
            assert isinstance(error, CommitFailed) or not fresh or self.may_fail(seen, updates), error
            self.lost += 1
            return False
        assert self.table == before, "metadata is never changed in place"
        self.table = after
        self.check_only_target_moved(before, seen, updates)
        return True

    def may_fail(self, seen: Seen, updates: list[dict[str, Any]]) -> bool:
        """Fresh commits that are refused all the same: a third branch has moved on, or its view has not these columns."""
        return seen.branch is not None and any(
            update.get("ref-name") not in (None, "main", seen.branch) for update in updates
        )

    def check_only_target_moved(self, before: Metadata, seen: Seen, updates: list[dict[str, Any]]) -> None:
        """Isolation: what others see is what they saw, shared histories apart."""
        request = CommitRequest([], updates, seen.branch)
        touched = commits.touched_branches(before, request)
        for branch in (MASTER, *BRANCHES):
            if branch in touched or (MASTER in touched and branch not in tracked_branches(before["properties"])):
                continue
            if lens.own_state(before, branch) is None and MASTER in touched:
                continue
            assert own_of(lens.get(before, branch)) == own_of(lens.get(self.table, branch))

    def move(self, branch: str | None, **changes: Any) -> None:
        """The model's table of one branch changes; the first write makes it."""
        name = branch or MASTER
        start = self.model.get(name, self.model[MASTER])
        self.model[name] = replace(start, **changes)
        self.follow_main()

    def follow_main(self) -> None:
        """A branch that a plain client made has main's schema until it is written with the header."""
        tracked = tracked_branches(self.table["properties"])
        for name in set(self.model) - {MASTER} - tracked:
            self.model[name] = replace(self.model[MASTER], head=self.model[name].head)

    # --- laws -------------------------------------------------------------------------------------------------------

    @invariant()
    def every_branch_is_as_its_own_table(self) -> None:
        """The heart of it."""
        for branch in (MASTER, *BRANCHES):
            assert own_of(lens.get(self.table, branch)) == self.model.get(branch, self.model[MASTER]), branch

    @invariant()
    def every_reader_can_bind_what_it_is_shown(self) -> None:
        """No partition field has the name of a column it is not made of, and a branch's own spec has its own names."""
        for branch in (MASTER, *BRANCHES):
            view, shown = lens.get(self.table, branch), show(self.table, branch)
            columns = {item["name"]: item["id"] for item in schema_of(view, view["current-schema-id"])["fields"]}
            for spec in shown["partition-specs"]:
                assert all(columns.get(item["name"]) in (None, item["source-id"]) for item in spec["fields"])
            specs = [find(table["partition-specs"], "spec-id", view["default-spec-id"]) for table in (view, shown)]
            assert specs[0] == specs[1]
            meanings = [
                [[{**item, "name": ""} for item in spec["fields"]] for spec in table["partition-specs"]]
                for table in (view, shown)
            ]
            assert meanings[0] == meanings[1]

    @invariant()
    def every_view_is_written_from_the_parts_of_the_file(self) -> None:
        """And each file from those of the one before: the text is as if nothing had been known."""
        self.members = Members(self.table, like=self.members)
        assert self.members.text == json_bytes.dump(self.table)
        for branch in BRANCHES:
            view = lens.get(self.table, branch)
            assert b"".join(self.members.splice(view)) == json_bytes.dump(view), branch

    @invariant()
    def the_log_of_a_branch_is_the_way_to_its_head(self) -> None:
        """However much of it is remembered from versions before."""
        for branch in BRANCHES:
            head = current_snapshot_id(lens.get(self.table, branch))
            assert lens.get(self.table, branch)["snapshot-log"] == walk_log(self.table, head), branch

    @invariant()
    def put_after_get_changes_nothing(self) -> None:
        """put(M, get(M, b), b) = M once b is tracked."""
        for branch in (MASTER, *(tracked_branches(self.table["properties"]) & set(BRANCHES))):
            assert lens.put(self.table, lens.get(self.table, branch), branch) == self.table

    @invariant()
    def get_after_put_gives_back_the_view(self) -> None:
        """get(put(M, V, b), b) = V, but for b's own three properties."""
        for branch in BRANCHES:
            view = lens.get(self.table, branch)
            again = lens.get(lens.put(self.table, view, branch), branch)
            assert {**again, "properties": None} == {**view, "properties": None}

    @invariant()
    def columns_keep_their_ids(self) -> None:
        """One id never stands for two columns."""
        known: dict[int, tuple[str, Any]] = {}
        for schema in self.table["schemas"]:
            for number, name, kind in walk_fields(schema):
                assert known.setdefault(number, (name, kind)) == (name, kind)
                assert number <= self.table["last-column-id"]

    @invariant()
    def numbers_are_unique_and_the_table_is_whole(self) -> None:
        """Every id once, every pointer at something."""
        for key, number in (
            ("schemas", "schema-id"),
            ("partition-specs", "spec-id"),
            ("sort-orders", "order-id"),
            ("snapshots", "snapshot-id"),
        ):
            numbers = [item[number] for item in self.table[key]]
            assert len(numbers) == len(set(numbers))
        snapshots = {item["snapshot-id"] for item in self.table["snapshots"]}
        assert all(ref["snapshot-id"] in snapshots for ref in self.table["refs"].values())
        assert normalise(self.table) == self.table
        stamps = [entry["timestamp-ms"] for entry in self.table["snapshot-log"]]
        assert stamps == sorted(stamps)


@pytest.mark.parametrize("examples", [120, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(14400)])])
def test_every_branch_shows_what_the_model_says(examples: int) -> None:
    run_state_machine_as_test(
        LensMachine,
        settings=settings(max_examples=examples, stateful_step_count=25),
    )


def write(table: Metadata, branch: str, act: str) -> Metadata:
    """One write of a client that sees the newest state."""
    view = lens.get(table, branch)
    if act == "append":
        return make.append(table, branch)
    if act == "empty":
        return make.change(table, {"action": "remove-snapshot-ref", "ref-name": "main"}, branch=branch)
    if act in dict(own_of(view).columns):
        return table
    return make.change(table, *make.add_column(view, act), branch=branch)


acts = st.lists(st.sampled_from(["append", "empty", "p", "q"]), max_size=4)


@given(ours=acts, theirs=acts)
def test_writes_on_two_branches_commute_up_to_numbers(ours: list[str], theirs: list[str]) -> None:
    start = make.append(make.make_table())

    def run(*order: tuple[str, list[str]]) -> dict[str, tuple[Any, ...]]:
        table = start
        for branch, done in order:
            for act in done:
                table = write(table, branch, act)
        return {branch: shape(table, branch) for branch in ("a", "b", MASTER)}

    def shape(table: Metadata, branch: str) -> tuple[Any, ...]:
        own = own_of(lens.get(table, branch))
        depth = len(walk_log(table, own.head))
        return own.columns, own.spec, own.order, depth

    assert run(("a", ours), ("b", theirs)) == run(("b", theirs), ("a", ours))


@given(name=st.text(max_size=30))
def test_a_header_is_a_branch_or_a_400(name: str) -> None:
    from webapp.catalog.rules.refs import read_branch

    try:
        found = read_branch([name])
    except Malformed:
        return
    assert found is None or found == name
    assert found is not None or name in ("master", "main")


@pytest.mark.parametrize("action", ["remove-snapshots", "remove-schemas", "remove-partition-specs"])
def test_removals_from_a_branch_are_refused_whatever_they_name(action: str) -> None:
    with pytest.raises(Forbidden):
        make.change(make.make_table(), {"action": action}, branch="a")
