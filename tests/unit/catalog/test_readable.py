"""What some reader's parser refuses is refused before it is stored: Java's TableMetadataParser and PyIceberg said what that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.factories.catalog import (
    LOCATION,
    NOW,
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
from webapp.catalog.rules import lens
from webapp.catalog.rules.column_types import is_default, is_primitive
from webapp.catalog.rules.errors import CommitFailed, Forbidden, Invalid, Malformed
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import normalise
from webapp.catalog.rules.partition_names import show_partition_names
from webapp.catalog.rules.readable import check_foreign

TABLE = append(make_table(version=3))
HEAD = head(TABLE) or 0
FILE = {"snapshot-id": HEAD, "statistics-path": LOCATION + "/metadata/s.puffin"}
SIZES = {"file-size-in-bytes": 9, "file-footer-size-in-bytes": 5}
BLOB = {"type": "theta", "snapshot-id": HEAD, "sequence-number": 1, "fields": [1], "properties": {"ndv": "2"}}


def columns(kind: Any = "long", **extra: Any) -> list[dict[str, Any]]:
    return set_schema(schema(field(1, "id"), field(2, "name", "string"), {**field(3, "x", kind), **extra}))


def identified(by: Any, *fields: dict[str, Any]) -> list[dict[str, Any]]:
    return set_schema(schema(*fields, **{"identifier-field-ids": by}))


def snapshots(**more: Any) -> list[dict[str, Any]]:
    made = {**snapshot(TABLE), **more}
    return [{"action": "add-snapshot", "snapshot": made}, set_ref("main", made["snapshot-id"])]


def spec(*fields: dict[str, Any]) -> list[dict[str, Any]]:
    named = [{"name": "p", "source-id": 1, "transform": "identity", **item} for item in fields]
    return [{"action": "add-spec", "spec": {"fields": named}}, {"action": "set-default-spec", "spec-id": -1}]


def order(**more: Any) -> list[dict[str, Any]]:
    item = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first", **more}
    return [{"action": "add-sort-order", "sort-order": {"fields": [item]}}]


def statistics(**more: Any) -> list[dict[str, Any]]:
    return [{"action": "set-statistics", "statistics": {**FILE, **SIZES, "blob-metadata": [BLOB], **more}}]


def properties(key: str, value: str) -> list[dict[str, Any]]:
    return [{"action": "set-properties", "updates": {key: value}}]


def key(**more: Any) -> list[dict[str, Any]]:
    return [
        {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "bQ==", **more}}
    ]


STRUCT = {"type": "struct", "fields": [field(4, "in", required=True)]}
FINE: dict[str, list[dict[str, Any]]] = {
    "every type": columns({"type": "list", "element-id": 5, "element": "decimal(38, 0)", "element-required": True}),
    "a default": columns("date", **{"initial-default": "2020-02-29", "write-default": "2021-01-01", "doc": "day"}),
    "identifiers": identified([1, 4], field(1, "id", required=True), {**field(3, "s", STRUCT, required=True)}),
    "a snapshot": snapshots(summary={"operation": "delete", "more": "1"}),
    "a bucket": spec({"transform": "bucket[16]"}),
    "a transform of tomorrow": spec({"transform": "zorder"}),
    "a sort order": order(direction="desc"),
    "statistics": statistics(),
    "statistics of a file outside of the table": statistics(**{"statistics-path": "s3://elsewhere/stats.puffin"}),
    "a key": key(properties={"a": "b"}),
    **{
        f"{name} = {value}": properties(name, value)
        for name, value in (
            ("schema.name-mapping.default", '[{"field-id": 1, "names": ["id", "key"]}, {"names": [], "fields": []}]'),
            ("write.parquet.compression-codec", "ZSTD"),
            ("write.avro.compression-codec", "null"),
            ("write.parquet.compression-level", "-1"),
            ("write.metadata.metrics.column.a.b", "truncate(16)"),
            ("write.parquet.bloom-filter-enabled.column.a", "42"),
            ("write.parquet.bloom-filter-fpp.column.a", "0.01"),
            ("write.delete.mode", "merge-on-read"),
            ("write.tomorrow", "anything"),
        )
    },
    "a tag": [set_ref("t", HEAD, "tag", **{"max-ref-age-ms": 5})],
}
BAD: dict[str, list[dict[str, Any]]] = {
    **{
        f"type {kind!r}": columns(kind)
        for kind in ("bogus", "LONG", "", "decimal(39,2)", "decimal(x)", "fixed[-1]", "list")
    },
    "a list that says not whether": columns({"type": "list", "element-id": 4, "element": "long"}),
    "a map that says not whether": columns({"type": "map", "key-id": 4, "key": "int", "value-id": 5, "value": "int"}),
    "a doc": columns(doc=5),
    "a default of another type": columns(**{"initial-default": "x"}),
    "a write default of another type": columns(**{"write-default": 1.5}),
    "a field id beyond int": set_schema(schema(field(1, "id"), field(2**31, "x"))),
    "a field id beyond long": set_schema(schema(field(1, "id"), field(2**70, "x"))),
    "an identifier that is optional": identified([1], field(1, "id")),
    "an identifier that is a double": identified([1], field(1, "id", "double", required=True)),
    "an identifier in an optional struct": identified([4], field(1, "id"), field(3, "s", STRUCT)),
    "identifiers that are no numbers": identified(["id"], field(1, "id", required=True)),
    "a snapshot id below zero": snapshots(**{"snapshot-id": -1}),
    "a snapshot id beyond long": snapshots(**{"snapshot-id": 2**63}),
    "a sequence number beyond long": snapshots(**{"sequence-number": 2**63}),
    "a parent beyond long": snapshots(**{"parent-snapshot-id": 2**70}),
    "a time beyond long": snapshots(**{"timestamp-ms": -(2**70)}),
    "a time before 1970": snapshots(**{"timestamp-ms": -1}),
    "a schema id beyond int": snapshots(**{"schema-id": 2**31}),
    "a key id": snapshots(**{"key-id": 5}),
    "a summary of numbers": snapshots(summary={"operation": "append", "rows": 5}),
    "no summary": snapshots(summary=None),
    "an operation": snapshots(summary={"operation": "zap"}),
    "a transform": spec({"transform": "bucket["}),
    "no buckets": spec({"transform": "bucket[0]"}),
    "too many buckets": spec({"transform": "bucket[99999999999]"}),
    "a nameless partition": spec({"name": ""}),
    "two partitions of one name": spec({}, {"source-id": 2}),
    "a partition named like another column": spec({"name": "name", "transform": "bucket[4]"}),
    "a partition field id beyond int": spec({"field-id": 2**40}),
    "a direction": order(direction="sideways"),
    "an order of nulls": order(**{"null-order": "x"}),
    "a sort transform": order(transform="bucket["),
    "statistics without sizes": [{"action": "set-statistics", "statistics": {**FILE, "blob-metadata": []}}],
    "statistics of a blob": statistics(**{"blob-metadata": [{"type": "x"}]}),
    "statistics of a field beyond int": statistics(**{"blob-metadata": [{**BLOB, "fields": [2**31]}]}),
    "partition statistics without a size": [{"action": "set-partition-statistics", "partition-statistics": FILE}],
    "half a key": key(**{"encrypted-key-metadata": None}),
    "a negative age": [set_ref("r", HEAD, **{"max-ref-age-ms": -5})],
    "an age in words": [set_ref("r", HEAD, **{"max-snapshot-age-ms": "x"})],
    "nothing to keep": [set_ref("r", HEAD, **{"min-snapshots-to-keep": 0})],
    "a tag that keeps snapshots": [set_ref("t", HEAD, "tag", **{"min-snapshots-to-keep": 3})],
    "a tag without a name": [set_ref("", HEAD, "tag")],
    "a tag of any length": [set_ref("t" * 100_000, HEAD, "tag")],
    **{
        f"{name} = {value}": properties(name, value)
        for name, value in (
            ("schema.name-mapping.default", "[{"),
            ("schema.name-mapping.default", '[{"names": "a"}]'),
            ("schema.name-mapping.default", '[{"names": ["a"], "field-id": "1"}]'),
            ("schema.name-mapping.default", '[{"names": ["a"], "fields": 1}]'),
            ("schema.name-mapping.default", "[" * 100_000),
            ("schema.name-mapping.default", '[{"names": ["a", "b"], "fields": ' * 60 + "[]" + "}]" * 60),
        )
    },
    "a property's name of any length": properties("p" * 60_000, "x"),
    "a property of any length": properties("p", "x" * 20_000_001),
}


CLIENTS_FAIL = (
    ("write.parquet.compression-codec", "bogus"),
    ("write.delete.parquet.compression-codec", "bogus"),
    ("write.format.default", "exe"),
    ("write.metadata.metrics.default", "everything"),
    ("write.metadata.metrics.column.a", "truncate(0)"),
    ("write.parquet.row-group-limit", "0"),
    ("write.delete.parquet.page-size-bytes", "many"),
    ("write.parquet.bloom-filter-fpp.column.a", "1.5"),
    ("write.distribution-mode", "sideways"),
    ("commit.retry.num-retries", "many"),
    ("read.split.target-size", "9" * 20),
    ("gc.enabled", "perhaps"),
)


@pytest.mark.parametrize(("name", "value"), CLIENTS_FAIL)
def test_only_a_branch_is_refused_a_value_at_which_clients_fail(name: str, value: str) -> None:
    with pytest.raises(Malformed, match=f"Property {name} must be .*all branches"):
        change(TABLE, *properties(name, value), branch="b")
    after = change(TABLE, *properties(name, value))
    check_foreign(normalise(after), now_ms=NOW)
    assert after["properties"][name] == value
    assert change(after, *columns("date"), branch="b")["properties"][name] == value  # another act on the branch


@pytest.mark.parametrize("branch", [None, "b"])
@pytest.mark.parametrize("updates", FINE.values(), ids=FINE.keys())
def test_what_readers_take_is_taken(updates: list[dict[str, Any]], branch: str | None) -> None:
    after = change(TABLE, *updates, branch=branch)
    assert after is not TABLE
    check_foreign(normalise(after), now_ms=NOW)


@pytest.mark.parametrize("branch", [None, "b"])
@pytest.mark.parametrize("updates", BAD.values(), ids=BAD.keys())
def test_what_some_reader_refuses_never_gets_in(updates: list[dict[str, Any]], branch: str | None) -> None:
    with pytest.raises((Malformed, Invalid)):
        change(TABLE, *updates, branch=branch)


def test_a_branch_does_not_choose_how_others_read_the_files() -> None:
    """A name mapping that grows is what PyIceberg sends with a new column."""
    key = "schema.name-mapping.default"
    mapped = change(TABLE, *properties(key, '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]'))
    wider = (
        '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name", "n"]}, {"field-id": 3, "names": ["x"]}]'
    )
    assert change(mapped, *properties(key, wider), branch="b")["properties"][key] == wider
    other = '[{"field-id": 2, "names": ["id"]}, {"field-id": 1, "names": ["name"]}]'
    for updates in (
        properties(key, other),
        [{"action": "remove-properties", "removals": [key]}],
        properties("write.location-provider.impl", "org.example.Elsewhere"),
        properties("encryption.key-id", "k"),
    ):
        with pytest.raises(Forbidden, match="decides for all branches"):
            change(mapped, *updates, branch="b")
        assert change(mapped, *updates) is not mapped


def test_a_partition_and_another_column_of_one_branch_never_have_one_name() -> None:
    """Java and PyIceberg bind a spec to the schema they read, and give up on such a name."""
    bucket = spec({"name": "id_bucket", "transform": "bucket[4]"})
    clashing = set_schema(schema(field(1, "id"), field(2, "name", "string"), field(3, "id_bucket")))
    tracked = change(TABLE, {"action": "set-properties", "updates": {"a": "1"}}, branch="b")
    for branch in (None, "b"):
        for first, second in ((bucket, clashing), (clashing, bucket)):
            ours = change(tracked, *first, branch=branch)
            with pytest.raises(Invalid, match=f"branch {branch or 'master'} cannot both be called id_bucket"):
                change(ours, *second, branch=branch)
    own = change(tracked, *spec({"name": "name", "source-id": 2}), branch="b")
    assert own["partition-specs"][-1]["fields"][0]["name"] == "name"


@pytest.mark.parametrize(("first", "second"), [(None, "b"), ("b", None), ("b", "c")])
def test_a_partition_of_one_branch_is_shown_to_another_under_a_name_that_no_column_has(
    first: str | None, second: str | None
) -> None:
    tracked = change(TABLE, {"action": "set-properties", "updates": {"a": "1"}}, branch="b")
    tracked = change(tracked, {"action": "set-properties", "updates": {"a": "2"}}, branch="c")
    for name in ("id_bucket", "id_bucket_1000"):
        both = change(tracked, *spec({"name": "id_bucket", "transform": "bucket[4]"}), branch=first)
        both = change(both, *set_schema(schema(field(1, "id"), field(3, name))), branch=second)
        names = [
            show_partition_names(lens.get(both, branch or "master"))["partition-specs"][-1]["fields"][0]["name"]
            for branch in (first, second)
        ]
        assert names[0] == "id_bucket"
        assert names[1] not in ("id_bucket", name)
        recycled = spec({"name": names[1], "transform": "bucket[4]", "field-id": 1000}, {"name": "p"})
        again = change(both, *recycled, branch=second)
        expected = "id_bucket" if name != "id_bucket" else names[1]
        assert again["partition-specs"][-1]["fields"][0]["name"] == expected


def test_what_a_branch_leaves_behind_has_names_that_master_can_bind() -> None:
    both = change(TABLE, *spec({"name": "id_bucket", "transform": "bucket[4]"}), branch="b")
    both = change(both, *set_schema(schema(field(1, "id"), field(3, "id_bucket"))))
    after = lens.forget(both, {"b"})
    assert after["partition-specs"][-1]["fields"][0]["name"] == "id_bucket_1000"
    check_foreign(normalise(after), now_ms=NOW)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_column_may_be_called_like_a_field_that_the_table_is_no_longer_partitioned_by(leaves: bool) -> None:  # noqa: FBT001
    """A branch that is gone made the field, or master itself did before it went back to another spec."""
    if leaves:
        table = lens.forget(change(TABLE, *spec({"name": "p"}), branch="b"), {"b"})
        assert table["partition-specs"][-1]["fields"][0]["name"] == "p_1000"
    else:
        table = change(change(TABLE, *spec({"name": "p"})), *spec())
    after = change(table, *set_schema(schema(field(1, "id"), field(2, "name", "string"), field(3, "p"))))
    assert after["partition-specs"][-1]["fields"][0] == {
        "source-id": 1,
        "name": "p_1000",
        "transform": "identity",
        "field-id": 1000,
    }
    check_foreign(normalise(after), now_ms=NOW)


def test_snapshots_of_version_1_have_no_sequence_number() -> None:
    table = append(make_table(version=1), **{"sequence-number": 5})
    assert "sequence-number" not in table["snapshots"][0]
    assert table["last-sequence-number"] == 0


def damaged() -> Iterator[tuple[str, Metadata]]:
    entry = TABLE["snapshots"][0]
    for name, more in {
        "tracked schema": {"properties": {"foundry.branch.b.schema-id": "--5"}},
        "tracked schema that is not there": {"properties": {"foundry.branch.b.schema-id": "9"}},
        "tracked order that is not there": {"properties": {"foundry.branch.b.default-sort-order-id": "9"}},
        "data path": {"properties": {"write.data.path": "file:///tmp/x"}},
        "manifest list": {"snapshots": [{**entry, "manifest-list": "file:///etc/passwd"}]},
        "a sequence number ahead": {"last-sequence-number": 0},
        "no snapshot id": {"snapshots": [{}]},
        "twice": {"snapshots": [entry, entry]},
        "refs": {"refs": []},
        "main": {"refs": {"main": 5}},
        "main of another snapshot": {"current-snapshot-id": 7},
        "main that is a tag": {"refs": {"main": {**TABLE["refs"]["main"], "type": "tag"}}},
        "ref of nothing": {"refs": {**TABLE["refs"], "b": {"snapshot-id": 5, "type": "branch"}}},
        "ref without a type": {"refs": {**TABLE["refs"], "b": {"snapshot-id": HEAD}}},
        "snapshot log": {"snapshot-log": "x"},
        "snapshot log backwards": {"snapshot-log": [{"snapshot-id": HEAD, "timestamp-ms": at} for at in (9, 5)]},
        "updated in the future": {"last-updated-ms": 2**62},
        "a snapshot from the future": {"snapshots": [{**entry, "timestamp-ms": NOW + 60_001}]},
        "metadata log": {"metadata-log": [5]},
        "spec": {"partition-specs": [{}]},
        "default spec": {"default-spec-id": 44},
        "default order": {"default-sort-order-id": 9},
        "sequence": {"last-sequence-number": "x"},
        "statistics": {"statistics": [{}]},
        "keys": {"encryption-keys": "x"},
        "half a key": {"encryption-keys": [{"key-id": "k"}]},
        "columns": {"schemas": [schema(field(1, "id", "bogus"), **{"schema-id": 0})]},
    }.items():
        yield name, {**TABLE, **more}


@pytest.mark.parametrize(("name", "metadata"), damaged(), ids=[name for name, _ in damaged()])
def test_foreign_metadata_is_checked_in_all_its_parts(name: str, metadata: Metadata) -> None:
    check_foreign(normalise(TABLE), now_ms=NOW)
    with pytest.raises((Malformed, Invalid)):
        check_foreign(normalise(metadata), now_ms=NOW)


@pytest.mark.parametrize(
    ("kind", "fine", "bad"),
    [
        ("boolean", [True], [1, "true"]),
        ("int", [-5], [True, 2**31, 1.0]),
        ("long", [2**40], [2**63, "5"]),
        ("double", [5.0], [5, "5.0"]),
        ("decimal(9, 2)", ["12.50"], [12.5, "NaN", "x"]),
        ("string", [""], [5]),
        ("uuid", ["f79c3e09-677c-4bbd-a479-3f349cb785e7"], ["zz", 5]),
        ("binary", ["00FF"], ["zz", 5]),
        ("fixed[2]", ["00FF"], ["0"]),
        ("date", ["2020-02-29"], ["2020-13-01", "20200101", 5]),
        ("time", ["10:15:30.123456"], ["25:00:00", 5]),
        ("timestamp", ["2020-01-01T10:15:30"], ["2020-01-01", "2020-01-01T10:15:30+00:00"]),
        ("timestamp_ns", ["2020-01-01T10:15:30.123456789"], ["2020-01-01T10:15:30.x"]),
        ("timestamptz", ["2020-01-01T10:15:30.5+00:00"], ["2020-01-01T10:15:30", 5]),
        ("variant", [], ["x", {}]),
        ({"type": "struct", "fields": []}, [], [{}]),
    ],
)
def test_defaults_are_single_values_of_their_type(kind: Any, fine: list[Any], bad: list[Any]) -> None:
    assert [is_default(kind, value) for value in fine] == [True] * len(fine)
    assert [is_default(kind, value) for value in bad] == [False] * len(bad)


@pytest.mark.parametrize(
    "kind", ["geometry", "geometry(OGC:CRS84)", "geography(OGC:CRS84, karney)", "variant", "decimal(9,2)"]
)
def test_types_of_every_version_are_known(kind: str) -> None:
    assert is_primitive(kind)


def test_stale_numbers_stay_a_conflict() -> None:
    with pytest.raises(CommitFailed):
        change(TABLE, *snapshots(**{"sequence-number": 0}))
