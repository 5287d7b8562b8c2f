"""One commit: which branch it is for, what it may do there, and what it leaves to the others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.catalog import (
    NOW,
    add_column,
    append,
    change,
    columns,
    field,
    head,
    make_table,
    schema,
    set_ref,
    set_schema,
    snapshot,
)
from webapp.catalog.rules import commits, lens
from webapp.catalog.rules.branch_properties import tracked_branches
from webapp.catalog.rules.commits import CommitRequest, CreateRequest
from webapp.catalog.rules.errors import AlreadyExists, CommitFailed, Forbidden, Invalid, Malformed
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import current_snapshot_id
from webapp.catalog.rules.requirements import check_requirements

CREATE = {"type": "assert-create"}


def assert_ref(name: str, number: int | None) -> dict[str, Any]:
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": number}


def remove(name: str) -> dict[str, Any]:
    return {"action": "remove-snapshot-ref", "ref-name": name}


def two_branches() -> Metadata:
    return append(append(append(make_table()), "a"), "b")


def test_a_commit_moves_its_branch_and_nothing_else() -> None:
    table = two_branches()
    after = append(change(table, *add_column(lens.get(table, "a"), "score"), branch="a"), "a")
    assert columns(after, "a") == ["id", "name", "score"]
    for other in ("master", "b"):
        before, now = lens.get(table, other), lens.get(after, other)
        for key in (
            "current-snapshot-id",
            "current-schema-id",
            "default-spec-id",
            "default-sort-order-id",
            "snapshot-log",
        ):
            assert now[key] == before[key]
        assert columns(after, other) == ["id", "name"]
        assert now["refs"]["main"] == before["refs"]["main"]


def test_both_names_of_the_branch_mean_the_branch() -> None:
    table = two_branches()
    for name in ("main", "a"):
        after = append(table, "a", ref=name)
        assert head(after, "a") != head(table, "a")
        assert head(after) == head(table)
    emptied = change(table, remove("a"), branch="a")
    assert head(emptied, "a") is None
    assert "a" in tracked_branches(emptied["properties"])


def test_without_the_header_everything_is_standard() -> None:
    table = two_branches()
    after = append(change(table, *add_column(table, "later")), None)
    assert columns(after) == ["id", "name", "later"]
    assert columns(after, "a") == ["id", "name"]
    moved = change(table, set_ref("a", head(table) or 0), requirements=[assert_ref("a", head(table, "a"))])
    assert head(moved, "a") == head(table)
    many = change(table, set_ref("a", head(table) or 0), set_ref("new", head(table) or 0))
    assert {"a", "b", "new"} <= set(many["refs"])


def test_requirements_are_checked_in_the_branch_view() -> None:
    table = two_branches()
    with pytest.raises(CommitFailed, match="branch main has changed"):
        change(table, set_ref("main", head(table) or 0), branch="a", requirements=[assert_ref("main", head(table))])
    with pytest.raises(CommitFailed, match="table already exists"):
        change(table, branch="a", requirements=[CREATE])


def test_a_third_branch_is_checked_and_applied_in_its_own_view() -> None:
    table = change(two_branches(), *add_column(two_branches(), "of_b"), branch="b")
    view = lens.get(table, "b")
    made = snapshot(view)
    after = change(
        table,
        {"action": "add-snapshot", "snapshot": made},
        set_ref("b", made["snapshot-id"]),
        branch="a",
        requirements=[assert_ref("b", head(table, "b"))],
    )
    assert head(after, "b") == made["snapshot-id"]
    assert columns(after, "b") == ["id", "name", "of_b"]
    assert head(after, "a") == head(table, "a")


def test_a_new_third_branch_starts_as_its_maker_sees_the_table() -> None:
    table = change(two_branches(), *add_column(two_branches(), "of_a"), branch="a")
    start = set_ref("c", head(table, "a") or 0)
    after = change(table, start, branch="a", requirements=[assert_ref("c", None)])
    assert head(after, "c") == head(table, "a")
    assert columns(after, "c") == ["id", "name", "of_a"]
    with pytest.raises(CommitFailed, match="created concurrently"):
        change(after, start, branch="a", requirements=[assert_ref("c", None)])


def test_a_new_third_branch_of_a_writer_without_anything_is_empty_but_for_its_head() -> None:
    table = append(make_table())
    after = change(table, set_ref("c", head(table) or 0), branch="z", chain=())
    assert head(after, "c") == head(table)
    assert columns(after, "c") == []


def test_master_as_a_third_branch_is_main() -> None:
    table = two_branches()
    after = change(
        table, set_ref("master", head(table, "a") or 0), branch="a", requirements=[assert_ref("master", head(table))]
    )
    assert head(after) == head(table, "a")
    assert after["snapshot-log"][-1]["snapshot-id"] == head(table, "a")
    with pytest.raises(Forbidden, match="cannot be removed"):
        change(table, remove("master"), branch="a")


def test_removing_a_third_branch_deletes_it() -> None:
    table = two_branches()
    after = change(table, remove("b"), branch="a")
    assert lens.branches_of(after) == {"a"}
    assert lens.own_state(after, "b") is None


def test_one_commit_is_for_one_branch() -> None:
    table = two_branches()
    with pytest.raises(Malformed, match="names a and b"):
        change(table, set_ref("main", head(table) or 0), set_ref("b", head(table) or 0), branch="a")
    with pytest.raises(Malformed, match="names a and b"):
        change(table, set_ref("main", head(table) or 0), branch="a", requirements=[assert_ref("b", head(table, "b"))])


def test_tags_are_shared_and_do_not_choose_a_branch() -> None:
    table = two_branches()
    tagged = change(
        table, set_ref("v1", head(table, "a") or 0, "tag"), branch="a", requirements=[assert_ref("v1", None)]
    )
    assert tagged["refs"]["v1"]["snapshot-id"] == head(table, "a")
    assert commits.touched_branches(tagged, CommitRequest([], [remove("v1")])) == {"master"}
    assert commits.touched_branches(tagged, CommitRequest([], [remove("v1")], "b")) == {"b", "master"}
    assert commits.touched_branches(tagged, CommitRequest([], [set_ref("v2", 1, "tag")], "b")) == {"b"}
    assert "v1" not in change(tagged, remove("v1"), branch="b")["refs"]
    assert change(tagged, {"action": "set-properties", "updates": {"x": "1"}}, branch="b")["refs"]["v1"]


def test_removing_a_branch_without_the_header_lifts_its_protection() -> None:
    table = two_branches()
    after = change(table, remove("a"))
    assert lens.branches_of(after) == {"b"}
    assert "foundry.branch.a.schema-id" not in after["properties"]
    plain = change(table, set_ref("c", head(table) or 0))
    assert change(plain, remove("c"))["properties"] == table["properties"]
    assert current_snapshot_id(change(table, remove("main"))) is None


@pytest.mark.parametrize("name", ["master", "Master", "_job/1", "a b", "A", "main2/", "B"])
def test_refs_that_may_not_be_made(name: str) -> None:
    table = two_branches()
    with pytest.raises((Malformed, Forbidden)):
        change(table, set_ref(name, head(table) or 0))
    if name not in ("master", "a b", "main2/"):
        with pytest.raises((Malformed, Forbidden)):
            change(table, set_ref(name, head(table) or 0, "tag"), branch="c")


def test_a_branch_name_is_taken_for_tags_too() -> None:
    table = change(two_branches(), remove("main"), branch="a")
    with pytest.raises(Malformed, match="branch a exists"):
        change(table, set_ref("a", head(table) or 0, "tag"))
    with pytest.raises(Malformed, match="cannot become a tag"):
        change(table, set_ref("a", head(table) or 0, "tag"), branch="a")


@pytest.mark.parametrize(
    "update",
    [
        {"action": "remove-snapshots", "snapshot-ids": [1]},
        {"action": "remove-schemas", "schema-ids": [1]},
        {"action": "remove-partition-specs", "spec-ids": [1]},
        {"action": "remove-encryption-key", "key-id": "k"},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "set-location", "location": "file:///x"},
    ],
)
def test_maintenance_is_refused_from_a_branch(update: dict[str, Any]) -> None:
    with pytest.raises(Forbidden, match="run maintenance on master"):
        change(two_branches(), update, branch="a")


def test_repeating_what_is_so_is_no_maintenance() -> None:
    table = two_branches()
    same = [
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "set-location", "location": table["location"]},
    ]
    assert change(table, *same, branch="a") is table
    assert change(table, branch="new") is table


def test_what_a_branch_tracks_cannot_be_removed_by_anyone() -> None:
    table = two_branches()
    table = change(table, *add_column(lens.get(table, "a"), "score"), branch="a")
    with pytest.raises(Invalid, match="schema 1: branch a uses it"):
        change(table, {"action": "remove-schemas", "schema-ids": [1]})
    spec = {"fields": [{"source-id": 1, "name": "id", "transform": "identity"}]}
    table = change(
        table, {"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}, branch="a"
    )
    with pytest.raises(Invalid, match="partition spec 1: branch a uses it"):
        change(table, {"action": "remove-partition-specs", "spec-ids": [1]})
    with pytest.raises(Invalid, match="branch a points to it"):
        change(table, {"action": "remove-snapshots", "snapshot-ids": [head(table, "a")]})
    with pytest.raises(Invalid, match="branch master points to it"):
        change(table, {"action": "remove-snapshots", "snapshot-ids": [head(table)]})
    free = change(table, remove("a"))
    assert len(change(free, {"action": "remove-schemas", "schema-ids": [1]})["schemas"]) == 1
    together = change(table, remove("a"), {"action": "remove-snapshots", "snapshot-ids": [head(table, "a")]})
    assert len(together["snapshots"]) == 2


def test_stale_field_ids_are_a_conflict_and_a_column_that_comes_back_keeps_its_id() -> None:
    table = append(make_table())
    on_a = change(table, *add_column(table, "score"), branch="a")
    with pytest.raises(CommitFailed, match="Column id 3 of new column other"):
        change(on_a, *add_column(table, "other"), branch="b")
    with pytest.raises(CommitFailed, match="Column id 3 of new column score"):
        change(on_a, *add_column(table, "score", "string"), branch="b")
    adopted = change(on_a, *add_column(table, "score"))
    assert adopted["current-schema-id"] == 1
    renamed = change(on_a, *set_schema(schema(field(1, "number"), field(2, "name", "int"))), branch="b")
    assert columns(renamed, "b") == ["number", "name"]


def test_touched_branches_decide_whose_rights_are_needed() -> None:
    table = two_branches()
    new = {"action": "add-snapshot", "snapshot": {}}

    def touched(*updates: dict[str, Any], branch: str | None = None) -> set[str]:
        return commits.touched_branches(table, CommitRequest([], updates, branch))

    assert touched(new, set_ref("a", 1)) == {"a"}
    assert touched(new, set_ref("main", 1)) == {"master"}
    assert touched(set_ref("a", 1), {"action": "set-properties"}) == {"a", "master"}
    assert touched({"action": "add-schema"}) == {"master"}
    assert touched() == {"master"}
    assert touched({"action": "add-schema"}, branch="a") == {"a"}
    assert touched(set_ref("b", 1), branch="a") == {"b"}
    assert touched(set_ref("master", 1), branch="a") == {"master"}
    assert touched(remove("nowhere")) == {"master"}
    assert commits.touched_branches(None, CommitRequest([CREATE], [], "a")) == {"a"}
    assert touched({"action": "set-snapshot-ref", "ref-name": 7}) == {"master"}


# --- making tables ----------------------------------------------------------------------------------------------------


def create(request: CreateRequest, branch: str | None = None, base: Metadata | None = None) -> Metadata:
    updates = commits.creation_updates(request, base)
    if base is None:
        return commits.create(CommitRequest((), updates, branch), uuid="u", location="file:///w/t", now_ms=NOW)
    return commits.create_on_branch(base, CommitRequest([CREATE], updates, branch), now_ms=NOW)


def parse(*fields: dict[str, Any], **body: Any) -> CreateRequest:
    return CreateRequest.parse({"name": "t", "schema": schema(*fields), **body})


def test_created_on_a_branch_main_is_empty() -> None:
    spec = {"fields": [{"source-id": 1, "name": "id", "transform": "identity"}]}
    order = {"fields": [{"source-id": 2, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}]}
    table = create(parse(**{"partition-spec": spec, "write-order": order}), "b")
    main, own = lens.own_state(table, "master"), lens.own_state(table, "b")
    assert main is not None
    assert own is not None
    assert (main.ids.schema_id, main.ids.spec_id, main.ids.order_id) == (1, 1, 0)
    assert (own.ids.schema_id, own.ids.spec_id, own.ids.order_id) == (0, 0, 1)
    assert columns(table) == []
    assert columns(table, "b") == ["id", "name"]
    assert table["refs"] == {}
    assert table["snapshot-log"] == []


def test_ctas_on_a_branch_keeps_the_numbers_its_files_carry() -> None:
    staged = create(parse(**{"partition-spec": {"fields": [{"source-id": 1, "name": "id", "transform": "identity"}]}}))
    made = snapshot(staged)
    updates = [
        {"action": "assign-uuid", "uuid": "u2"},
        {"action": "set-location", "location": "file:///w/t2"},
        {"action": "upgrade-format-version", "format-version": 2},
        *set_schema(staged["schemas"][0]),
        {"action": "add-spec", "spec": staged["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": staged["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "add-snapshot", "snapshot": made},
        set_ref("main", made["snapshot-id"]),
    ]
    updates[-2]["snapshot"]["manifest-list"] = "file:///w/t2/metadata/x.avro"
    table = commits.create(CommitRequest([CREATE], updates, "b"), uuid="u", location="file:///w/t2", now_ms=NOW)
    assert (table["table-uuid"], table["location"]) == ("u2", "file:///w/t2")
    assert head(table, "b") == made["snapshot-id"]
    assert lens.get(table, "b")["default-spec-id"] == 0
    assert head(table) is None
    assert table["refs"] == {"b": {"snapshot-id": made["snapshot-id"], "type": "branch"}}
    elsewhere = [*updates, {"action": "set-location", "location": "file:///w/t3"}]
    with pytest.raises(Malformed, match="only a table without snapshots can move"):
        commits.create(CommitRequest([CREATE], elsewhere, "b"), uuid="u", location="file:///w/t2", now_ms=NOW)


def test_creating_needs_a_schema_and_fills_in_the_rest() -> None:
    request = CommitRequest([CREATE], set_schema(schema()))
    table = commits.create(request, uuid="u", location="file:///w/t", now_ms=NOW)
    assert table["default-spec-id"] == table["default-sort-order-id"] == 0
    with pytest.raises(Malformed, match="needs a schema"):
        commits.create(CommitRequest([CREATE], []), uuid="u", location="file:///w/t", now_ms=NOW)
    with pytest.raises(CommitFailed, match="table does not exist"):
        commits.create(CommitRequest([assert_ref("main", 1)], []), uuid="u", location="file:///w/t", now_ms=NOW)
    downgraded = CommitRequest(
        [CREATE], [{"action": "upgrade-format-version", "format-version": 1}, *set_schema(schema())]
    )
    assert commits.create(downgraded, uuid="u", location="file:///w", now_ms=NOW)["format-version"] == 1
    upgraded = CommitRequest(
        [CREATE], [{"action": "upgrade-format-version", "format-version": 3}, *set_schema(schema())]
    )
    made = commits.create(upgraded, uuid="u", location="file:///w", version=2, now_ms=NOW)
    assert made["next-row-id"] == 0
    back = CommitRequest([CREATE], [{"action": "upgrade-format-version", "format-version": 2}, *set_schema(schema())])
    assert "next-row-id" not in commits.create(back, uuid="u", location="file:///w", version=3, now_ms=NOW)


def test_a_placeholder_can_be_filled_on_another_branch() -> None:
    table = create(parse(), "a")
    spec = {"fields": [{"source-id": 1, "name": "id", "transform": "identity"}]}
    filled = create(parse(field(1, "id"), field(2, "other"), **{"partition-spec": spec}), "b", table)
    assert columns(filled, "b") == ["id", "other"]
    ids = {item["name"]: item["id"] for item in lens.get(filled, "b")["schemas"][-1]["fields"]}
    assert ids == {"id": 1, "other": 3}
    assert columns(filled, "a") == ["id", "name"]
    assert columns(filled) == []
    for branch in ("a", "b"):
        with pytest.raises(AlreadyExists):
            create(parse(), branch, filled)
    with pytest.raises(AlreadyExists):
        commits.placeholder_for(filled, None, ())


def test_a_table_with_data_is_no_placeholder_but_for_a_chain_that_does_not_reach_it() -> None:
    table = append(make_table())
    with pytest.raises(AlreadyExists):
        commits.placeholder_for(table, "b", ("master",))
    assert commits.placeholder_for(table, "b", ()) == "b"


def test_a_ctas_staged_before_somebody_else_created_fails() -> None:
    table = create(parse(), "a")
    with pytest.raises(CommitFailed, match="created concurrently"):
        commits.create_on_branch(
            table, CommitRequest([CREATE], [{"action": "assign-uuid", "uuid": "x"}], "b"), now_ms=NOW
        )
    mine = [{"action": "assign-uuid", "uuid": "u"}, {"action": "upgrade-format-version", "format-version": 3}]
    filled = commits.create_on_branch(table, CommitRequest([CREATE], [*mine, *set_schema(schema())], "b"), now_ms=NOW)
    assert filled["format-version"] == 3
    written = append(make_table(), "a")
    updates = [{"action": "upgrade-format-version", "format-version": 1}, *set_schema(schema())]
    made = commits.create_on_branch(written, CommitRequest([CREATE], updates, "b", ()), now_ms=NOW)
    assert made["format-version"] == 2


def test_column_ids_follow_the_reference_order_and_the_identifiers() -> None:
    point = {"type": "struct", "fields": [field(7, "x", required=True), field(8, "y")]}
    items = {"type": "list", "element-id": 5, "element": point, "element-required": True}
    pairs = {"type": "map", "key-id": 1, "key": "string", "value-id": 3, "value": point | {}, "value-required": True}
    pairs["value"] = {"type": "struct", "fields": [field(17, "u"), field(18, "v")]}
    request = parse(field(9, "items", items), field(4, "pairs", pairs), field(2, "id", required=True))
    body = {**request.schema, "identifier-field-ids": [2]}
    table = create(CreateRequest.parse({"name": "t", "schema": body}))
    made = table["schemas"][0]
    assert [item["id"] for item in made["fields"]] == [1, 2, 3]
    assert made["fields"][0]["type"]["element-id"] == 4
    assert [item["id"] for item in made["fields"][0]["type"]["element"]["fields"]] == [5, 6]
    assert (made["fields"][1]["type"]["key-id"], made["fields"][1]["type"]["value-id"]) == (7, 8)
    assert made["identifier-field-ids"] == [3]
    assert table["last-column-id"] == 10


def test_create_requests_are_checked() -> None:
    for body in (
        {},
        {"name": "t"},
        {"name": "t", "schema": schema(), "properties": {"a": 1}},
        {"name": "t", "schema": schema(), "stage-create": "yes"},
        {"name": "t", "schema": schema(), "location": 1},
    ):
        with pytest.raises(Malformed):
            CreateRequest.parse(body)
    with pytest.raises(Malformed):
        _ = parse(properties={"format-version": "two"}).version
    with pytest.raises(Invalid):
        commits.create(CommitRequest((), ()), uuid="u", location="l", version=9, now_ms=1)
    many = {"fields": [{"source-ids": [1, 2], "name": "x", "transform": "bucket[2]"}]}
    assert create(parse(**{"partition-spec": many}))["partition-specs"][0]["fields"][0]["source-ids"] == [1, 2]


def test_commit_requests_are_checked() -> None:
    assert CommitRequest.parse({"updates": []}).requirements == []
    for body in ({}, {"updates": {}}, {"updates": [1]}, {"updates": [], "requirements": [1]}):
        with pytest.raises(Malformed):
            CommitRequest.parse(body)
    for requirement in ({"type": "assert-luck"}, {}, {"type": "assert-ref-snapshot-id"}, {"type": "assert-table-uuid"}):
        with pytest.raises(Malformed):
            change(make_table(), requirements=[requirement])


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ({"type": "assert-table-uuid", "uuid": "other"}, "UUID does not match"),
        (assert_ref("v9", 1), "branch or tag v9 is missing"),
        (assert_ref("main", None), "branch main was created concurrently"),
        ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1}, "last assigned field id changed"),
        ({"type": "assert-current-schema-id", "current-schema-id": 1}, "current schema changed"),
        ({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1}, "partition id changed"),
        ({"type": "assert-default-spec-id", "default-spec-id": 1}, "default partition spec changed"),
        ({"type": "assert-default-sort-order-id", "default-sort-order-id": 1}, "default sort order changed"),
    ],
)
def test_failed_requirements_are_retryable(requirement: dict[str, Any], message: str) -> None:
    with pytest.raises(CommitFailed, match=message):
        change(append(make_table()), requirements=[requirement])


def test_met_requirements_pass() -> None:
    table = append(make_table())
    met = [
        {"type": "assert-table-uuid", "uuid": "UUID-1"},
        assert_ref("main", head(table)),
        assert_ref("v9", None),
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
    ]
    assert change(table, requirements=met) is table


def test_what_a_client_gets_that_stages_a_table() -> None:
    table = two_branches()
    view = lens.get(change(table, *add_column(lens.get(table, "a"), "score"), branch="a"), "a")
    staged = commits.staged(view)
    assert [item["schema-id"] for item in staged["schemas"]] == [1]
    assert staged["snapshots"] == staged["snapshot-log"] == []
    assert staged["refs"] == {}
    assert not [key for key in staged["properties"] if key.startswith("foundry.")]
    assert staged["last-sequence-number"] == table["last-sequence-number"]
    assert staged["last-column-id"] == 3


def test_a_request_knows_whether_it_creates_and_takes_its_chain_later() -> None:
    request = CommitRequest([CREATE], [], "b")
    assert request.creates
    assert request.with_chain(("a",)).chain == ("a",)
    with pytest.raises(CommitFailed, match="table does not exist"):
        check_requirements([{"type": "assert-table-uuid", "uuid": "u"}], None)
    check_requirements([CREATE], None)
