"""What a branch sees and what its writes leave: every state of a branch on a table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories.catalog import NOW, add_column, append, change, columns, head, make_table, set_ref
from webapp.catalog.rules import lens
from webapp.catalog.rules.branch_logs import derived_log, walk_log
from webapp.catalog.rules.branch_properties import TrackedIds, tracked_branches
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import comes_from, current_snapshot_id, walk_back
from webapp.catalog.rules.pointers import BranchState, Pointer


def test_master_is_the_metadata_itself() -> None:
    table = append(make_table())
    assert lens.get(table, "master") is table
    assert lens.put(table, table, "master") is table


def test_untracked_without_ref_reads_as_its_fallback() -> None:
    table = append(make_table())
    view = lens.get(table, "b")
    assert current_snapshot_id(view) == head(table)
    assert view["refs"]["b"] == view["refs"]["main"] == view["refs"]["master"]
    assert lens.own_state(table, "b") is None
    assert lens.resolve(table, "b") == ("master", lens.own_state(table, "master"))


def test_the_nearest_existing_branch_of_the_chain_wins() -> None:
    table = append(append(make_table()), "a")
    assert head(table, "a") != head(table)
    found = lens.resolve(table, "c", ("b", "a", "master"))
    assert found is not None
    assert found[0] == "a"
    assert current_snapshot_id(lens.get(table, "c", ("b", "a", "master"))) == head(table, "a")


def test_a_chain_that_ends_gives_an_empty_root() -> None:
    table = append(make_table())
    view = lens.get(table, "b", ())
    assert current_snapshot_id(view) is None
    assert columns(table, "b", ()) == []
    assert "b" not in view["refs"]
    assert [schema["schema-id"] for schema in view["schemas"]] == [0, 1]
    again = lens.with_empty_state(view)
    assert again[0]["schemas"] is view["schemas"]


def test_first_write_stamps_the_ids_and_makes_the_ref() -> None:
    table = append(make_table())
    after = change(table, *add_column(table, "score"), branch="b")
    assert lens.own_state(after, "b") == BranchState(head(table), TrackedIds(1, 0, 0))
    assert after["refs"]["b"] == {"snapshot-id": head(table), "type": "branch"}
    assert columns(after) == ["id", "name"]
    assert columns(after, "b") == ["id", "name", "score"]


def test_tracked_without_ref_is_empty_and_never_falls_back() -> None:
    table = append(make_table())
    written = append(table, "b")
    emptied = change(written, {"action": "remove-snapshot-ref", "ref-name": "main"}, branch="b")
    assert lens.own_state(emptied, "b") == BranchState(None, TrackedIds(0, 0, 0))
    assert head(emptied, "b") is None
    assert lens.get(emptied, "b")["snapshot-log"] == []
    assert head(emptied) == head(table)


def test_ref_made_by_a_plain_client_has_the_current_schema_until_the_first_write_with_the_header() -> None:
    table = append(make_table())
    table = change(table, set_ref("b", head(table) or 0))
    assert tracked_branches(table["properties"]) == set()
    table = change(table, *add_column(table, "later"))
    assert columns(table, "b") == ["id", "name", "later"]
    table = append(table, "b")
    assert tracked_branches(table["properties"]) == {"b"}
    table = change(table, *add_column(table, "still_later"))
    assert columns(table, "b") == ["id", "name", "later"]


def test_a_tag_is_not_a_branch() -> None:
    table = append(make_table())
    table = change(table, set_ref("v1", head(table) or 0, "tag"))
    with pytest.raises(Malformed, match="v1 is a tag"):
        lens.get(table, "v1")


def test_view_log_is_the_ancestry_and_never_runs_backwards() -> None:
    table = append(append(make_table()), "b", **{"timestamp-ms": NOW - 500_000})
    log = lens.get(table, "b")["snapshot-log"]
    assert [entry["snapshot-id"] for entry in log] == [head(table), head(table, "b")]
    assert [entry["timestamp-ms"] for entry in log] == [NOW, NOW]
    assert lens.get(table, "master")["snapshot-log"] == table["snapshot-log"]


def test_ancestry_survives_missing_parents_and_loops() -> None:
    table = append(make_table(), **{"parent-snapshot-id": 77})
    looped = {**table, "snapshots": [{**table["snapshots"][0], "parent-snapshot-id": head(table)}]}
    assert len(derived_log(table, head(table))) == len(derived_log(looped, head(table))) == 1


@given(st.permutations(range(5)), st.sets(st.integers(0, 4)), st.integers(0, 4))
def test_ancestry_is_found_in_any_order_and_ends_where_history_was_removed(
    order: list[int], gone: set[int], head: int
) -> None:
    parents = {0: None, 1: 0, 2: 1, 3: 1, 4: 3}
    snapshots = [{"snapshot-id": n, "parent-snapshot-id": parents[n]} for n in order if n not in gone]
    expected: list[int] = []
    at: int | None = head
    while at is not None and at not in gone:
        expected.append(at)
        at = parents[at]
    assert [snapshot["snapshot-id"] for snapshot in walk_back(snapshots, head)] == expected


def test_ref_retention_of_a_branch_stays_with_it() -> None:
    table = append(append(make_table()), "b")
    kept = set_ref("main", head(table, "b") or 0, **{"min-snapshots-to-keep": 3})
    table = change(table, kept, branch="b")
    assert table["refs"]["b"]["min-snapshots-to-keep"] == 3
    assert lens.get(table, "b")["refs"]["main"]["min-snapshots-to-keep"] == 3
    assert "min-snapshots-to-keep" not in table["refs"]["main"]


def test_set_state_moves_master_with_a_line_in_the_log() -> None:
    table = append(append(make_table()), "b")
    state = lens.own_state(table, "b")
    assert state is not None
    moved = lens.set_state(table, "master", state, now_ms=1)
    assert head(moved) == head(table, "b")
    assert moved["snapshot-log"][-1] == {"snapshot-id": head(table, "b"), "timestamp-ms": NOW}
    assert lens.set_state(moved, "master", state, now_ms=1)["snapshot-log"] == moved["snapshot-log"]
    emptied = lens.set_state(moved, "master", BranchState(None, state.ids), now_ms=1)
    assert head(emptied) is None
    assert "main" not in emptied["refs"]
    assert lens.set_state(emptied, "master", state, now_ms=5)["snapshot-log"][-1]["timestamp-ms"] == NOW


def test_set_state_of_a_branch_keeps_its_retention() -> None:
    table = append(append(make_table()), "b")
    table = change(table, set_ref("main", head(table, "b") or 0, **{"max-ref-age-ms": 9}), branch="b")
    state = lens.own_state(table, "master")
    assert state is not None
    moved = lens.set_state(table, "b", state, now_ms=1)
    assert moved["refs"]["b"] == {"snapshot-id": head(table), "type": "branch", "max-ref-age-ms": 9}


def test_forget_leaves_no_trace_and_spares_master() -> None:
    table = append(append(make_table()), "b")
    assert lens.branches_of(table) == {"b"}
    gone = lens.forget(table, {"b", "master", "main"})
    assert lens.branches_of(gone) == set()
    assert head(gone) == head(table)
    assert "foundry" not in str(gone["properties"])


def list_ids(table: Metadata) -> list[int]:
    return [snapshot["snapshot-id"] for snapshot in table["snapshots"]]


def test_what_is_given_up_is_named_by_nothing_and_all_else_stays() -> None:
    before = append(append(make_table()), "other")
    staged = append(append(before, "_job/1"), "_job/1")
    made = set(list_ids(staged)) - set(list_ids(before))
    assert len(made) == 2
    gone = lens.give_up(staged, "_job/1", is_own=lambda snapshot: snapshot["snapshot-id"] in made)
    assert list_ids(gone) == list_ids(before)
    assert lens.branches_of(gone) == {"other"}
    kept = lens.give_up(staged, "_job/1", is_own=lambda _snapshot: False)
    assert list_ids(kept) == list_ids(staged)
    assert lens.give_up(gone, "_job/1", is_own=lambda _snapshot: True) == gone


def test_what_others_stand_on_is_not_given_up() -> None:
    staged = append(append(make_table()), "_job/1")
    first = head(staged, "_job/1")
    tagged = lens.keep(append(staged, "_job/1"), "_kept", first)
    gone = lens.give_up(tagged, "_job/1", is_own=lambda _snapshot: True)
    assert list_ids(gone) == list_ids(staged), "what is kept, and what it stands on"
    # Another one's snapshot, whose ref is gone, goes back to it.
    built_on = lens.forget(append(lens.set_state(staged, "b", lens.own_state(staged, "_job/1"), now_ms=1), "b"), {"b"})
    gone = lens.give_up(built_on, "_job/1", is_own=lambda snapshot: snapshot["snapshot-id"] == first)
    assert list_ids(gone) == list_ids(built_on)


def test_pointers_are_states_in_flat_form() -> None:
    table = append(append(make_table()), "b")
    pointer = lens.pointer(table, "b")
    assert pointer == Pointer(head(table, "b"), 0, 0, 0)
    assert pointer.state == lens.own_state(table, "b")
    assert lens.pointer(table, "c") is None


def test_placeholder_is_a_state_without_columns_and_snapshot() -> None:
    table = make_table(branch="b")
    main = lens.own_state(table, "master")
    own = lens.own_state(table, "b")
    assert main is not None
    assert own is not None
    assert lens.is_empty(table, main)
    assert not lens.is_empty(table, own)


def test_pinned_view_has_no_alias() -> None:
    table = append(append(make_table()), "b")
    state = lens.own_state(table, "b")
    assert state is not None
    view = lens.show(table, state)
    assert view["refs"]["main"]["snapshot-id"] == head(table, "b")
    assert view["refs"]["b"] == table["refs"]["b"]
    assert view["refs"]["master"] == table["refs"]["main"]


def test_a_log_is_remembered_only_while_its_history_is_the_same() -> None:
    def table(**parents: int | None) -> Metadata:
        snapshots = [
            {"snapshot-id": int(name[1:]), "parent-snapshot-id": parent, "timestamp-ms": NOW}
            for name, parent in parents.items()
        ]
        return {"table-uuid": "uuid-logs", "snapshots": snapshots}

    def numbers(metadata: Metadata, head: int) -> list[int]:
        found = derived_log(metadata, head)
        assert found == walk_log(metadata, head)
        return [line["snapshot-id"] for line in found]

    def with_more(metadata: Metadata, **parents: int | None) -> Metadata:
        return {**metadata, "snapshots": [*metadata["snapshots"], *table(**parents)["snapshots"]]}

    first = table(s1=None, s2=1, s3=2)
    assert numbers(first, 3) == [1, 2, 3]
    longer = with_more(first, s4=3, s5=2)
    assert [numbers(longer, head) for head in (4, 5, 3)] == [[1, 2, 3, 4], [1, 2, 5], [1, 2, 3]]
    expired = {**longer, "snapshots": longer["snapshots"][2:]}
    assert [numbers(expired, head) for head in (4, 3)] == [[3, 4], [3]]
    assert numbers(with_more(expired, s6=4), 6) == [3, 4, 6]
    assert numbers(with_more(expired, s2=None), 4) == [2, 3, 4], "what was missing has come back"
    assert numbers(table(s3=None), 3) == [3], "another table's history under the same names"
    looped = table(s1=2, s2=1)
    assert [numbers(looped, head) for head in (1, 2, 1)] == [[2, 1], [1, 2], [2, 1]]
    assert numbers(table(), 9) == []


@pytest.mark.parametrize("numbered", [True, False])
def test_a_snapshot_comes_from_what_is_left_of_its_history(numbered: bool) -> None:
    def snapshot(number: int, parent: int | None) -> dict[str, Any]:
        found = {"snapshot-id": number, "timestamp-ms": number, "parent-snapshot-id": parent}
        return found | ({"sequence-number": number} if numbered else {})

    # 1 - 2 - 3 - 4 and 1 - 5, of which 2 has expired
    snapshots = [snapshot(1, None), snapshot(3, 2), snapshot(4, 3), snapshot(5, 1)]
    assert comes_from(snapshots, 4, 1)
    assert comes_from(snapshots, 4, 3)
    assert comes_from(snapshots, 5, 1)
    assert not comes_from(snapshots, 5, 4)
    assert not comes_from(snapshots, 3, 4)
    assert not comes_from(snapshots, 4, 2)
    assert not comes_from(snapshots, None, 1)
