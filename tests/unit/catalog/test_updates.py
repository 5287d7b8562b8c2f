"""Every update kind, with the reference implementation's numbers and the refusals that keep tables readable."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.catalog import (
    LOCATION,
    NOW,
    add_column,
    append,
    change,
    field,
    head,
    make_table,
    schema,
    set_ref,
    set_schema,
    snapshot,
)
from webapp.catalog.rules.errors import CommitFailed, Invalid, Malformed
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import current_snapshot_id
from webapp.catalog.rules.updates import UPDATES, apply_updates


def apply(metadata: Metadata, *updates: dict[str, Any], **options: Any) -> Metadata:
    return apply_updates(metadata, updates, now_ms=NOW, **options)


def spec(*fields: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {"action": "add-spec", "spec": {"fields": list(fields), **extra}}


def part(source: int, name: str, transform: str = "identity", **extra: Any) -> dict[str, Any]:
    return {"source-id": source, "name": name, "transform": transform, **extra}


def order(*fields: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {"action": "add-sort-order", "sort-order": {"fields": list(fields), **extra}}


STATISTICS = {"file-size-in-bytes": 9, "file-footer-size-in-bytes": 5, "blob-metadata": []}
BY_ID = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}


def test_unknown_and_malformed_updates_are_refused() -> None:
    for bad in ({"action": "dance"}, {}, {"action": 3}):
        with pytest.raises(Malformed):
            apply(make_table(), bad)


def test_nothing_changed_is_the_same_object() -> None:
    table = append(make_table(owner="me"))
    same: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": "uuid-1"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "set-location", "location": LOCATION + "/"},
        {"action": "set-properties", "updates": {"owner": "me", "format-version": "2"}},
        {"action": "remove-properties", "removals": ["absent"]},
        {"action": "set-current-schema", "schema-id": 0},
        set_ref("main", head(table) or 0),
        {"action": "remove-encryption-key", "key-id": "k"},
        *set_schema(schema()),
    ]
    assert apply(table, *same) is table


def test_schema_ids_are_reused_or_created_whatever_the_client_says() -> None:
    table = make_table()
    after = apply(table, *set_schema(schema(field(1, "id"), **{"schema-id": 77})))
    assert [item["schema-id"] for item in after["schemas"]] == [0, 1]
    assert after["current-schema-id"] == 1
    back = apply(after, *set_schema(schema(**{"schema-id": 99})))
    assert back["current-schema-id"] == 0
    assert len(back["schemas"]) == 2


def test_identifier_fields_make_another_schema() -> None:
    new = schema(field(1, "id", required=True), field(2, "name", "string"), **{"identifier-field-ids": [1]})
    assert apply(make_table(), *set_schema(new))["current-schema-id"] == 1


def test_an_explicit_number_of_a_schema_added_in_the_same_commit_follows_it() -> None:
    new = schema(field(1, "id"), **{"schema-id": 9})
    after = apply(
        make_table(), {"action": "add-schema", "schema": new}, {"action": "set-current-schema", "schema-id": 9}
    )
    assert after["current-schema-id"] == 1
    view = make_table()
    made = snapshot(view, **{"schema-id": 9})
    after = apply(view, {"action": "add-schema", "schema": new}, {"action": "add-snapshot", "snapshot": made})
    assert after["snapshots"][0]["schema-id"] == 1


def defaulted(kind: Any, value: Any, *others: dict[str, Any]) -> list[dict[str, Any]]:
    """The updates that make a column with an initial default current."""
    return set_schema(schema(field(1, "id"), {**field(2, "v", kind), "initial-default": value}, *others))


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        (("int", 5), ("int", 6), False),
        (("int", 5), ("int", None), False),
        (("int", None), ("int", 5), False),
        (("int", 5), ("long", 5), True),
        (("int", 5), ("long", 6), False),
        (("float", 0.1), ("double", 0.10000000149011612), True),
        (("float", 0.1), ("double", 0.2), False),
        (("decimal(9, 2)", "1.20"), ("decimal(12,2)", "1.20"), True),
        (("date", "2020-01-01"), ("timestamp", "2020-01-01T00:00:00.000"), True),
        (("date", "2020-01-01"), ("timestamp", "2020-01-01T00:01"), False),
        (("timestamptz", "2020-01-01T10:00+00:00"), ("timestamptz", "2020-01-01T10:00:00.000000+00:00"), True),
        (("binary", "00FF"), ("binary", "00ff"), True),
        (("string", "00FF"), ("string", "00ff"), False),
    ],
)
def test_initial_default_of_rows_that_stay_is_kept(old: Any, new: Any, is_same: bool) -> None:
    """What old rows read is part of the rows; other spellings and promoted types are the same value."""
    empty = apply(make_table(field(1, "id"), version=3), *defaulted(*old))
    table = append(empty)
    if is_same:
        apply(table, *defaulted(*new))
    else:
        with pytest.raises(Invalid, match="Cannot change the initial default of column v"):
            apply(table, *defaulted(*new))
    apply(empty, *defaulted(*new))
    replaced = {**snapshot(table), "parent-snapshot-id": None}
    remove = {"action": "remove-snapshot-ref", "ref-name": "main"}
    add = {"action": "add-snapshot", "snapshot": replaced}
    apply(table, *defaulted(*new), remove, add, set_ref("main", replaced["snapshot-id"]))


def test_initial_default_inside_a_struct_is_kept() -> None:
    def inside(value: int) -> list[dict[str, Any]]:
        part = {**field(3, "a"), "initial-default": value}
        return set_schema(schema(field(1, "id"), field(2, "s", {"type": "struct", "fields": [part]})))

    table = append(apply(make_table(field(1, "id"), version=3), *inside(1)))
    with pytest.raises(Invalid, match=r"initial default of column s\.a"):
        apply(table, *inside(2))


def test_id_of_a_dropped_column_is_not_given_to_another_default() -> None:
    table = append(apply(make_table(field(1, "id"), version=3), *defaulted("int", 5)))
    table = apply(table, *set_schema(schema(field(1, "id"))))
    with pytest.raises(CommitFailed, match="already stands for v"):
        apply(table, *defaulted("int", 6))
    assert apply(table, *defaulted("int", 5))["current-schema-id"] == 1


def test_last_column_id_grows_and_never_shrinks() -> None:
    table = apply(make_table(), *set_schema(schema(field(1, "id"), field(3, "extra"))))
    assert table["last-column-id"] == 3
    assert apply(table, *set_schema(schema(field(1, "id"))))["last-column-id"] == 3
    stated = {"action": "add-schema", "schema": schema(field(1, "id"), field(4, "z")), "last-column-id": 9}
    assert apply(table, stated)["last-column-id"] == 9
    assert apply(table, {**stated, "last-column-id": 2})["last-column-id"] == 4


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"type": "list"}, "a schema is a struct"),
        (schema(field(1, "a"), field(1, "b")), "multiple fields for id 1"),
        (schema(field(1, "a"), field(2, "a")), "multiple fields for name a"),
        (schema(field(1, "a", "variant")), "not supported until v3"),
        (schema(field(1, "a"), **{"identifier-field-ids": [5]}), "identifier field"),
        (schema(field(1, "a", {"type": "tuple"})), "Cannot parse type"),
        (schema(field(1, "a", None)), "Cannot parse type"),
        (schema({"id": 1, "required": False, "type": "long"}), "'name' must be a string"),
        ({"type": "struct", "fields": {}}, "'fields' must be a list"),
        ({"type": "struct", "fields": [1]}, "list of objects"),
        (schema({"id": True, "name": "a", "required": False, "type": "long"}), "'id' must be an integer"),
    ],
)
def test_schemas_that_no_reader_could_use(bad: dict[str, Any], message: str) -> None:
    with pytest.raises((Invalid, Malformed), match=message):
        apply(make_table(), {"action": "add-schema", "schema": bad})


def test_nested_types_are_checked_to_a_bounded_depth() -> None:
    kind: Any = "long"
    for number in range(3, 100):
        kind = {"type": "list", "element-id": number, "element": kind, "element-required": False}
    with pytest.raises(Malformed, match="levels"):
        apply(make_table(), {"action": "add-schema", "schema": schema(field(1, "deep", kind))})
    pair = {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value": "long", "value-required": False}
    after = apply(make_table(), *set_schema(schema(field(3, "pairs", pair))))
    assert after["last-column-id"] == 5


def test_minus_one_needs_something_added() -> None:
    for action, key in (
        ("set-current-schema", "schema-id"),
        ("set-default-spec", "spec-id"),
        ("set-default-sort-order", "sort-order-id"),
    ):
        with pytest.raises(Invalid, match="no .* has been added"):
            apply(make_table(), {"action": action, key: -1})
        with pytest.raises(Invalid, match="unknown"):
            apply(make_table(), {"action": action, key: 55})


def test_spec_and_field_ids_are_reused_or_created() -> None:
    table = apply(make_table(), spec(part(1, "id")), {"action": "set-default-spec", "spec-id": -1})
    assert table["partition-specs"][1] == {"spec-id": 1, "fields": [part(1, "id", **{"field-id": 1000})]}
    assert (table["default-spec-id"], table["last-partition-id"]) == (1, 1000)
    both = apply(table, spec(part(2, "name", "bucket[4]"), part(1, "id2")))
    assert [item["field-id"] for item in both["partition-specs"][2]["fields"]] == [1001, 1000]
    again = apply(both, spec(part(1, "id")), {"action": "set-default-spec", "spec-id": -1})
    assert again["default-spec-id"] == 1
    assert len(again["partition-specs"]) == 3
    dropped = apply(both, spec(part(1, "id", "void", **{"field-id": 1000})))
    assert dropped["partition-specs"][3]["fields"][0]["field-id"] == 1000


def test_partition_field_ids_of_others_are_a_conflict() -> None:
    table = apply(make_table(), spec(part(1, "id")))
    with pytest.raises(CommitFailed, match="already stands for another field"):
        apply(table, spec(part(2, "name", **{"field-id": 1000})))
    with pytest.raises(Invalid, match="one id"):
        apply(table, spec(part(2, "a", "bucket[2]", **{"field-id": 1005}), part(2, "b", **{"field-id": 1005})))


def test_sources_of_specs_and_orders_must_exist() -> None:
    with pytest.raises(Invalid, match="source column"):
        apply(make_table(), spec(part(9, "x")))
    with pytest.raises(Invalid, match="source column"):
        apply(make_table(), order({**BY_ID, "source-id": 9}))
    assert apply(make_table(), spec(part(9, "x", "void")))["partition-specs"][1]["fields"]
    many = {"source-ids": [1, 2], "name": "both", "transform": "bucket[2]"}
    assert apply(make_table(), spec(many))["partition-specs"][1]["fields"][0]["source-ids"] == [1, 2]
    assert apply(make_table(), order({**BY_ID, "source-ids": [1]}))["sort-orders"][1]


def test_sort_orders_are_reused_and_zero_is_unsorted() -> None:
    table = apply(make_table(), order(BY_ID), {"action": "set-default-sort-order", "sort-order-id": -1})
    assert table["sort-orders"] == [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": [BY_ID]}]
    assert table["default-sort-order-id"] == 1
    back = apply(table, order(**{"order-id": 0}), {"action": "set-default-sort-order", "sort-order-id": -1})
    assert back["default-sort-order-id"] == 0
    assert back["sort-orders"] == table["sort-orders"]


def test_files_written_for_a_spec_number_that_another_took_are_a_conflict() -> None:
    table = apply(make_table(), spec(part(2, "name")))
    new = {"action": "add-snapshot", "snapshot": snapshot(table)}
    update = spec(part(1, "id"), **{"spec-id": 1})
    assert apply(table, update) is not table
    with pytest.raises(CommitFailed, match="has taken"):
        apply(table, update, new)
    assert apply(table, spec(part(1, "id"), **{"spec-id": 2}), new)["snapshots"]


def test_a_sort_order_is_only_advice_and_may_get_another_number() -> None:
    table = apply(make_table(), order(BY_ID))
    new = {"action": "add-snapshot", "snapshot": snapshot(table)}
    after = apply(table, order({**BY_ID, "direction": "desc"}, **{"order-id": 1}), new)
    assert [item["order-id"] for item in after["sort-orders"]] == [0, 1, 2]


def test_snapshots_move_sequence_and_clock() -> None:
    table = append(make_table())
    assert table["last-sequence-number"] == 1
    with pytest.raises(CommitFailed, match="sequence number 1 older than"):
        apply(table, {"action": "add-snapshot", "snapshot": snapshot(table, **{"sequence-number": 1})})
    orphan = snapshot(table, **{"sequence-number": 1, "parent-snapshot-id": None})
    assert apply(table, {"action": "add-snapshot", "snapshot": orphan})["last-sequence-number"] == 1
    with pytest.raises(Invalid, match="already exists"):
        apply(table, {"action": "add-snapshot", "snapshot": table["snapshots"][0]})
    ahead = snapshot(table, **{"timestamp-ms": NOW + 59_000})
    assert apply(table, {"action": "add-snapshot", "snapshot": ahead})["last-updated-ms"] == NOW + 59_000


@pytest.mark.parametrize("ahead_ms", [60_001, 120_000, 2**62])
def test_snapshot_of_a_clock_that_is_ahead_is_dated_now(ahead_ms: int) -> None:
    """A job writes it, then the clock is set back, then the job commits."""
    table = append(make_table())
    sent = snapshot(table, **{"timestamp-ms": NOW + ahead_ms})
    reference = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": sent["snapshot-id"]}

    after = apply(table, {"action": "add-snapshot", "snapshot": sent}, reference)

    assert after["snapshots"][-1] == {**sent, "timestamp-ms": NOW}
    assert after["snapshot-log"][-1]["timestamp-ms"] == after["last-updated-ms"] == NOW


@pytest.mark.parametrize(
    "path",
    ["file:///warehouse/shop/orders-00000001/metadata/s.avro", LOCATION + "/../x", "s3://b/x", "file:///etc/passwd", 7],
)
def test_manifest_lists_stay_inside_the_table(path: Any) -> None:
    table = make_table()
    with pytest.raises(Malformed):
        apply(table, {"action": "add-snapshot", "snapshot": snapshot(table, **{"manifest-list": path})})


def test_version_1_has_no_sequence_and_may_list_manifests() -> None:
    table = make_table(version=1)
    made = snapshot(table)
    made.pop("manifest-list")
    after = apply(table, {"action": "add-snapshot", "snapshot": {**made, "manifests": []}})
    assert after["last-sequence-number"] == 0
    assert current_snapshot_id(after) is None


def test_version_3_counts_rows() -> None:
    table = append(make_table(version=3))
    assert table["next-row-id"] == 1
    with pytest.raises(CommitFailed, match="behind table next-row-id"):
        apply(table, {"action": "add-snapshot", "snapshot": snapshot(table, **{"first-row-id": 0})})
    with pytest.raises(Malformed, match="first-row-id"):
        apply(table, {"action": "add-snapshot", "snapshot": snapshot(table, **{"first-row-id": None})})
    with pytest.raises(Invalid, match="negative"):
        apply(table, {"action": "add-snapshot", "snapshot": snapshot(table, **{"added-rows": -1})})
    assert make_table(version=3)["current-snapshot-id"] is None
    assert apply(table, *set_schema(schema(field(1, "id", "variant"))))["current-schema-id"] == 1


def test_one_branch_leaves_numbers_to_all_others() -> None:
    table = append(make_table(version=3))
    end, last = 2**31 - 1, table["last-sequence-number"]
    for attack in (
        {"action": "add-snapshot", "snapshot": snapshot(table, **{"sequence-number": 2**63 - 1})},
        {"action": "add-snapshot", "snapshot": snapshot(table, **{"first-row-id": 2**63 - 2})},
        {"action": "add-snapshot", "snapshot": snapshot(table, **{"added-rows": 2**63 - 2})},
        {"action": "add-schema", "schema": schema(field(1, "id"), field(end, "z"))},
        {"action": "add-schema", "schema": schema(field(1, "id"), field(2, "z")), "last-column-id": end},
        spec(part(1, "z", "bucket[4]", **{"field-id": end})),
    ):
        with pytest.raises(Invalid, match="too far ahead|more than 1000000000000 rows"):
            apply(table, attack)
    ahead = snapshot(table, **{"sequence-number": last + 5})
    assert apply(table, {"action": "add-snapshot", "snapshot": ahead})["last-sequence-number"] == last + 5


def test_versions_only_go_up() -> None:
    table = make_table(version=1)
    assert table["current-snapshot-id"] == -1
    after = apply(table, {"action": "upgrade-format-version", "format-version": 3})
    assert (after["format-version"], after["next-row-id"], after["current-snapshot-id"]) == (3, 0, None)
    for version in (2, 4):
        with pytest.raises(Invalid, match="Cannot"):
            apply(after, {"action": "upgrade-format-version", "format-version": version})


def test_uuid_and_location_belong_to_the_server() -> None:
    with pytest.raises(Invalid, match="Cannot reassign uuid"):
        apply(make_table(), {"action": "assign-uuid", "uuid": "other"})
    with pytest.raises(Malformed, match="location"):
        apply(make_table(), {"action": "set-location", "location": "file:///elsewhere"})


def test_refs() -> None:
    table = append(append(make_table()))
    first, second = (item["snapshot-id"] for item in table["snapshots"])
    assert [entry["snapshot-id"] for entry in table["snapshot-log"]] == [first, second]
    back = apply(table, set_ref("main", first))
    assert current_snapshot_id(back) == first
    assert len(back["snapshot-log"]) == 3
    tagged = apply(table, set_ref("v1", first, "TAG", **{"max-ref-age-ms": 5}))
    assert tagged["refs"]["v1"] == {"snapshot-id": first, "type": "tag", "max-ref-age-ms": 5}
    for bad, message in (
        (set_ref("main", 5), "unknown snapshot"),
        (set_ref("main", first, "tag"), "must be a branch"),
        (set_ref("x", first, "twig"), "unknown type"),
    ):
        with pytest.raises((Invalid, Malformed), match=message):
            apply(table, bad)
    with pytest.raises(Invalid, match="Cannot turn tag v1"):
        apply(tagged, set_ref("v1", first))
    gone = apply(table, {"action": "remove-snapshot-ref", "ref-name": "main"})
    assert current_snapshot_id(gone) is None
    assert gone["snapshot-log"] == table["snapshot-log"]


def test_log_keeps_only_what_lasted_beyond_the_commit() -> None:
    table = make_table()
    one, two = snapshot(table), snapshot(table, **{"sequence-number": 2})
    after = apply(
        table,
        {"action": "add-snapshot", "snapshot": one},
        set_ref("main", one["snapshot-id"]),
        {"action": "add-snapshot", "snapshot": two},
        set_ref("main", two["snapshot-id"]),
    )
    assert [entry["snapshot-id"] for entry in after["snapshot-log"]] == [two["snapshot-id"]]


def test_log_never_runs_backwards_when_clocks_do() -> None:
    table = append(make_table())
    late = append(table, **{"timestamp-ms": NOW - 10_000_000})
    assert [entry["timestamp-ms"] for entry in late["snapshot-log"]] == [NOW, NOW]
    assert apply_updates(table, add_column(table, "x"), now_ms=5)["last-updated-ms"] == NOW


def test_removed_snapshots_take_their_statistics_and_cut_the_log() -> None:
    table = append(append(append(make_table())))
    first, second, third = (item["snapshot-id"] for item in table["snapshots"])
    statistics = {"snapshot-id": first, "statistics-path": LOCATION + "/metadata/s.puffin", **STATISTICS}
    table = apply(
        table,
        {"action": "set-statistics", "statistics": statistics},
        {"action": "set-partition-statistics", "partition-statistics": statistics},
    )
    assert table["statistics"] == table["partition-statistics"] == [statistics]
    after = apply(table, {"action": "remove-snapshots", "snapshot-ids": [first, second]})
    assert after["statistics"] == after["partition-statistics"] == []
    assert [entry["snapshot-id"] for entry in after["snapshot-log"]] == [third]


def test_statistics_are_one_per_snapshot() -> None:
    table = append(make_table())
    number = head(table)
    for key in ("statistics", "partition-statistics"):
        one = {"snapshot-id": number, "statistics-path": LOCATION + "/metadata/1", **STATISTICS}
        two = {"snapshot-id": number, "statistics-path": LOCATION + "/metadata/2", **STATISTICS}
        after = apply(table, {"action": f"set-{key}", key: one}, {"action": f"set-{key}", key: two})
        assert after[key] == [two]
        assert apply(after, {"action": f"remove-{key}", "snapshot-id": number})[key] == []


def test_properties() -> None:
    table = apply(make_table(), {"action": "set-properties", "updates": {"a": "1", "uuid": "x", "b": "2"}})
    assert "uuid" not in table["properties"]
    assert table["properties"]["b"] == "2"
    after = apply(table, {"action": "remove-properties", "removals": ["a", "absent"]})
    assert "a" not in after["properties"]
    old_names = apply(
        table, {"action": "set-properties", "updated": {"c": "3"}}, {"action": "remove-properties", "removed": ["a"]}
    )
    assert old_names["properties"]["c"] == "3"
    for bad in (
        {"action": "set-properties", "updates": {"foundry.branch.b.schema-id": "0"}},
        {"action": "remove-properties", "removals": ["foundry.branch.b.schema-id"]},
        {"action": "set-properties", "updates": {"a": 1}},
        {"action": "remove-properties", "removals": [1]},
        {"action": "set-properties", "updates": {"write.data.path": "file:///elsewhere"}},
        {"action": "set-properties", "updates": {"write.metadata.path": LOCATION + "1/x"}},
    ):
        with pytest.raises(Malformed):
            apply(table, bad)
    inside = {"action": "set-properties", "updates": {"write.data.path": LOCATION + "/data2"}}
    assert apply(table, inside)["properties"]["write.data.path"]


def test_current_schema_and_default_spec_stay() -> None:
    table = apply(make_table(), *set_schema(schema(field(1, "id"))), spec(part(1, "id")))
    assert len(apply(table, {"action": "remove-schemas", "schema-ids": [0]})["schemas"]) == 1
    assert len(apply(table, {"action": "remove-partition-specs", "spec-ids": [1]})["partition-specs"]) == 1
    with pytest.raises(Invalid, match="current schema"):
        apply(table, {"action": "remove-schemas", "schema-ids": [1]})
    with pytest.raises(Invalid, match="default partition spec"):
        apply(table, {"action": "remove-partition-specs", "spec-ids": [0]})
    with pytest.raises(Malformed, match="list of integers"):
        apply(table, {"action": "remove-schemas", "schema-ids": ["0"]})


def test_encryption_keys() -> None:
    key = {"key-id": "k", "encrypted-key-metadata": "x"}
    table = apply(make_table(), {"action": "add-encryption-key", "encryption-key": key})
    assert table["encryption-keys"] == [key]
    assert apply(table, {"action": "add-encryption-key", "encryption-key": key}) is table
    assert apply(table, {"action": "remove-encryption-key", "key-id": "k"})["encryption-keys"] == []


def test_no_snapshot_before_there_is_a_schema() -> None:
    bare = {**make_table(), "schemas": []}
    with pytest.raises(Invalid, match="before schemas"):
        apply(bare, {"action": "add-snapshot", "snapshot": snapshot(bare)})


def test_all_kinds_of_the_specification_are_known() -> None:
    assert len(UPDATES) == 23
    table = make_table()
    for action in UPDATES:
        if action == "remove-encryption-key":
            continue
        with pytest.raises(Malformed):
            change(table, {"action": action})


@pytest.mark.parametrize("kind", ["spec", "order"])
def test_the_current_schema_keeps_what_the_default_spec_and_order_need(kind: str) -> None:
    added, default = (
        (spec(part(1, "p")), {"action": "set-default-spec", "spec-id": -1})
        if kind == "spec"
        else (order(BY_ID), {"action": "set-default-sort-order", "sort-order-id": -1})
    )
    without = set_schema(schema(field(2, "name", "string")))
    with pytest.raises(Invalid, match="needs column 1"):
        apply(apply(make_table(), added, default), *without)
    stale = {key: 1 if value == -1 else value for key, value in default.items()}
    with pytest.raises(Invalid, match="needs column 1"):
        apply(apply(make_table(), added, *without), stale)
    voided = apply(make_table(), spec(part(1, "p", "void")), {"action": "set-default-spec", "spec-id": -1})
    assert apply(voided, *without)["current-schema-id"] == 1


def test_a_table_with_data_is_upgraded_and_a_snapshot_may_not_name_its_schema() -> None:
    table = append(make_table(version=1))
    after = apply(table, {"action": "upgrade-format-version", "format-version": 2})
    assert current_snapshot_id(after) == head(table)
    bare = {key: value for key, value in snapshot(after).items() if key != "schema-id"}
    assert "schema-id" not in apply(after, {"action": "add-snapshot", "snapshot": bare})["snapshots"][-1]
