"""Locations, metadata of other writers, endpoints, errors."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.locations import is_inside
from tests.factories.catalog import append, field, make_table, schema
from webapp.catalog.rules import endpoints, errors, locations
from webapp.catalog.rules.errors import Forbidden, Invalid, Malformed, NoSuchTable, Unsupported
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import blank, current_snapshot_id, normalise, placeholder, with_legacy_fields
from webapp.catalog.rules.protection import check_protected
from webapp.core.errors import Conflict, InvalidInput, NotFound

WAREHOUSE = "file:///home/w"


@pytest.mark.parametrize(
    ("location", "inside"),
    [
        ("file:///home/w/a", True),
        ("file:/home/w/a/b", True),
        ("/home/w", True),
        ("file:///home/w2/a", False),
        ("file:///home/w/../x", False),
        ("file:///home/w/%2e%2e/x", False),
        ("file:///home/w/./x", False),
        ("file://host/home/w/a", False),
        ("s3://home/w/a", False),
        ("file:///home/w/a?x=1", False),
        ("file:///home/w/a\0", False),
        ("file:///home", False),
    ],
)
def test_containment_is_by_components(location: str, *, inside: bool) -> None:
    assert is_inside(location, WAREHOUSE) is inside


def test_given_locations_are_known_letter_by_letter() -> None:
    def given(location: str) -> bool:
        return locations.is_given_location(location, warehouse=WAREHOUSE, levels=("a", "b c"), name="t/..")

    assert given("file:///home/w/a/b_c/t_..-0123abcd")
    assert not given("file:/home/w/a/b_c/t_..-0123abcd")
    assert not given("file:///home/w/a/b_c/t_..-0123abcde")
    assert given("file:///home/w/a/b_c/t_..-" + "0123abcd" * 4)  # as Trino chooses it
    assert locations.table_folder(warehouse=WAREHOUSE, levels=("..",), name=".") == WAREHOUSE + "/__/_"


@pytest.mark.parametrize(
    ("location", "own"),
    [
        ("file:///home/w/a/t-0123abcd", True),
        ("file:///home/w/a/..b/t-0123abcd", True),
        ("file:///home/w/a/t-0123abcd0123abcd0123abcd0123abcd", True),
        ("file:///home/w/t-0123abcd", False),
        ("file:///home/w/a", False),
        ("file:///home/w", False),
        ("file:///", False),
        ("file:///home/w/a/t-0123abcd/", False),
        ("file:///home/w/a//t-0123abcd", False),
        ("file:///home/w/a/../t-0123abcd", False),
        ("file:///home/w/%61/t-0123abcd", False),
        ("file:/home/w/a/t-0123abcd", False),
        ("file:///home/w/a/t-0123ABCD", False),
        ("file:///home/w2/a/t-0123abcd", False),
    ],
)
def test_folders_of_tables_and_of_namespaces_are_told_apart_by_their_names(location: str, *, own: bool) -> None:
    assert locations.is_own_folder(location, warehouse=WAREHOUSE) is own
    above = locations.table_folder(warehouse=WAREHOUSE, levels=("a", "t-0123abcd"), name="u-0123abcd")
    assert above == WAREHOUSE + "/a/t-0123abcd_/u-0123abcd"


def test_folders_above_a_location_are_in_all_spellings() -> None:
    above = ["file:///home", "file:/home", "file:///home/w", "file:/home/w"]
    assert locations.folders_above("file:/home/w/t") == locations.folders_above("file:///home/w/t") == above
    assert locations.folders_above("s3://bucket/w/t") == ["s3://bucket/w"]
    assert locations.spell("file:/home/w") == ["file:///home/w", "file:/home/w"]
    assert locations.spell("s3://bucket/w") == ["s3://bucket/w"]


@pytest.mark.parametrize(
    ("location", "below"),
    [
        ("file:/lake/t", True),
        ("file:///lake/a/t.b=1", True),
        ("file:/lake", False),
        ("file:/lake/", False),
        ("file:/lake2/t", False),
        ("file:/lake/../t", False),
        ("file:/lake/...", False),
        ("file:/lake/%2e%2e/t", False),
        ("file:/lake/%74", False),
        ("file:/lake//t", False),
        ("file://lake/t", False),
        ("file://host/lake/t", False),
        ("file:/lake/t?x", False),
        ("file:/lake/t#x", False),
        ("file:/lake/t*", False),
        ("file:/lake/t'", False),
        ("file:/lake/t\n", False),
        ("file:/lake/ä", False),
        ("FILE:/lake/t", False),
        ("/lake/t", False),
        ("s3://lake/t", False),
        ("s3a://bucket/lake/t", False),
    ],
)
def test_a_chosen_location_is_plain_and_below_its_prefix(location: str, *, below: bool) -> None:
    assert locations.is_below(location, "file:///lake") is below


def test_a_chosen_location_in_a_store_is_below_its_prefix_letter_by_letter() -> None:
    assert locations.is_below("s3://bucket/lake/t", "s3://bucket/lake")
    for location in (
        "s3://bucket/lake",
        "s3://bucket/lake2/t",
        "s3://bucket//lake/t",
        "s3://other/lake/t",
        "file:/lake/t",
    ):
        assert not locations.is_below(location, "s3://bucket/lake")


@pytest.mark.parametrize(
    ("one", "other", "overlapping"),
    [
        ("file:/lake/t", "file:///lake/t", True),
        ("file:/lake", "file:///lake/t/u", True),
        ("file:/lake/t", "file:/lake/t2", False),
        ("file:/lake/t", "file:/lake/T", False),
        ("file:/lake/t", "s3://lake/t", False),
        ("s3://bucket/t", "s3://bucket/t/u", True),
        ("s3://bucket/t", "s3://other/t", False),
    ],
)
def test_locations_overlap_by_components_whatever_their_spelling(one: str, other: str, *, overlapping: bool) -> None:
    assert locations.overlap(one, other) is locations.overlap(other, one) is overlapping


def test_top_folder_decides_whose_rights_hold() -> None:
    assert locations.top_folder("file:/home/w/nyc/t/metadata/x.json", warehouse=WAREHOUSE) == "nyc"
    assert locations.top_folder("file:///home/x", warehouse=WAREHOUSE) is None
    assert locations.top_folder(WAREHOUSE, warehouse=WAREHOUSE) is None


def test_version_1_metadata_is_brought_up_to_date_and_served_with_its_old_fields() -> None:
    raw = {
        "format-version": 1,
        "table-uuid": "u",
        "location": "file:///t",
        "last-updated-ms": 5,
        "last-column-id": 1,
        "schema": schema(field(1, "id")),
        "partition-spec": [{"name": "id", "transform": "identity", "source-id": 1}],
        "current-snapshot-id": 7,
        "snapshots": [{"snapshot-id": 7, "timestamp-ms": 1, "manifest-list": "x"}],
        "snapshot-log": None,
    }
    metadata = normalise(raw)
    assert metadata["refs"] == {"main": {"snapshot-id": 7, "type": "branch"}}
    assert metadata["schemas"][0]["schema-id"] == metadata["current-schema-id"] == 0
    assert metadata["partition-specs"][0]["fields"][0]["field-id"] == metadata["last-partition-id"] == 1000
    assert metadata["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert metadata["snapshot-log"] == []
    served = with_legacy_fields(metadata)
    assert served["schema"] == metadata["schemas"][0]
    assert served["partition-spec"] == metadata["partition-specs"][0]["fields"]
    assert with_legacy_fields({**metadata, "default-spec-id": 5})["partition-spec"] == []
    assert with_legacy_fields(make_table()) == make_table()


def test_the_types_say_what_new_metadata_has() -> None:
    new = blank(uuid="u", location="file:///t", version=3, now_ms=5)
    assert new.keys() - {"next-row-id"} == Metadata.__required_keys__
    assert with_legacy_fields(make_table(version=1)).keys() <= Metadata.__annotations__.keys()


def test_metadata_of_others_is_checked() -> None:
    good = append(make_table(version=3))
    assert normalise(good) == good
    assert current_snapshot_id(normalise({**good, "refs": {}})) == good["current-snapshot-id"]
    assert current_snapshot_id(normalise({**good, "refs": {}, "current-snapshot-id": None})) is None
    bad: list[dict[str, Any]] = [
        {},
        {**good, "format-version": 9},
        {**good, "schemas": [1]},
        {**good, "schemas": [{"type": "struct", "fields": []}]},
        {**good, "current-schema-id": 9},
        {**good, "properties": {"a": 1}},
        {**make_table(version=1), "partition-specs": None, "partition-spec": [1]},
    ]
    bad[-1].pop("partition-specs")
    for raw in bad:
        with pytest.raises((Malformed, Invalid)):
            normalise(raw)


def test_protection_names_what_points_there() -> None:
    table = append(make_table())
    tagged = {**table, "refs": {"v1": {"snapshot-id": 1, "type": "tag"}}}
    with pytest.raises(Invalid, match="tag v1 points to it. Delete the tag first"):
        check_protected(tagged)
    unordered = {**append(table, "b"), "sort-orders": []}
    with pytest.raises(Invalid, match="sort order 0: branch b"):
        check_protected(unordered)
    damaged = {**table, "properties": {"foundry.branch.x.schema-id": "?"}}
    check_protected(damaged)


def test_placeholders_have_nothing() -> None:
    made = placeholder(uuid="u", location="l", version=2, now_ms=1)
    assert made["schemas"] == [{"type": "struct", "schema-id": 0, "fields": []}]
    assert made["partition-specs"] == [{"spec-id": 0, "fields": []}]


def test_routes() -> None:
    endpoint, variables = endpoints.match("GET", ("v1", "namespaces", "a\x1fb", "tables", "t/1"))
    assert (endpoint.operation, variables) == ("loadTable", {"namespace": "a\x1fb", "table": "t/1"})
    assert endpoints.match("POST", ("v1", "transactions", "commit"))[0].operation == "commitTransaction"
    for method, path in (("PUT", ("v1", "config")), ("GET", ("v1",)), ("GET", ("v2", "config"))):
        with pytest.raises(NotFound, match="No route"):
            endpoints.match(method, path)


def test_what_a_branch_may_not_call_says_what_to_do_instead() -> None:
    refused = {endpoint.operation for endpoint in endpoints.ENDPOINTS if endpoint.refusal}
    assert {
        "dropNamespace",
        "updateProperties",
        "dropTable",
        "renameTable",
        "commitTransaction",
        "createView",
        "replaceView",
        "dropView",
        "renameView",
        "unregisterTable",
    } <= refused
    for endpoint in endpoints.ENDPOINTS:
        endpoint.check_branch(None)
        if endpoint.refusal:
            with pytest.raises(Forbidden, match="cannot be called from branch b: .+"):
                endpoint.check_branch("b")


def test_config_lists_what_there_is() -> None:
    listed = endpoints.listed_endpoints()
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}" in listed
    assert len(listed) == len(set(listed))
    # A client that finds it uses it for single tables, too, and it is refused on every branch.
    assert set(listed) - set(endpoints.listed_endpoints(on_branch=True)) == {"POST /v1/{prefix}/transactions/commit"}


def test_errors_in_icebergs_words() -> None:
    assert errors.error_body(NoSuchTable("x")) == {
        "error": {"message": "x", "type": "NoSuchTableException", "code": 404}
    }
    assert errors.error_body(Conflict("x"))["error"]["type"] == "CommitFailedException"
    assert errors.error_body(InvalidInput("x"))["error"]["type"] == "UnprocessableEntityException"


def test_what_the_catalog_does_not_have_is_a_501_and_not_listed() -> None:
    for method, path in endpoints.UNSUPPORTED:
        assert f"{method} {path}" not in endpoints.listed_endpoints()
        with pytest.raises(Unsupported, match="does not support"):
            endpoints.match(method, tuple(part for part in path.strip("/").split("/") if part != "{prefix}"))
