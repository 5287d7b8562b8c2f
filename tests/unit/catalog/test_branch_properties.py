"""Names and parsing of what a branch tracks."""

from __future__ import annotations

from webapp.catalog.rules import branch_properties as rules
from webapp.catalog.rules.branch_properties import TrackedIds

MAIN = TrackedIds(7, 8, 9)


def test_master_and_main_are_one_branch() -> None:
    assert rules.ref_of_branch("master") == "main"
    assert rules.branch_of_ref("main") == "master"
    assert rules.ref_of_branch("a") == rules.branch_of_ref("a") == "a"


def test_stamp_then_read_gives_the_ids_back_for_names_with_dots() -> None:
    ids = TrackedIds(1, 2, 3)
    properties = rules.stamp({"owner": "me"}, "release/1.0", ids)
    assert properties["foundry.branch.release/1.0.schema-id"] == "1"
    assert rules.tracked_ids(properties, "release/1.0", default=MAIN) == ids
    assert rules.tracked_ids(properties, "release/1", default=MAIN) is None
    assert rules.tracked_branches(properties) == {"release/1.0"}


def test_a_partial_or_damaged_record_takes_the_rest_from_the_table() -> None:
    for damaged in ("x", "--5", "-1", "\u00b2", ""):
        properties = {"foundry.branch.a.schema-id": "1", "foundry.branch.a.default-spec-id": damaged}
        assert rules.tracked_ids(properties, "a", default=MAIN) == TrackedIds(1, 8, 9)


def test_strip_removes_exactly_the_branches_named() -> None:
    properties = rules.stamp(rules.stamp({"owner": "me"}, "a", MAIN), "a.b", MAIN)
    assert rules.tracked_branches(rules.strip(properties, ["a"])) == {"a.b"}
    assert rules.strip(properties, ["a", "a.b"]) == {"owner": "me"}


def test_only_the_catalog_writes_branch_properties() -> None:
    assert rules.is_reserved("foundry.branch.a.schema-id")
    assert not rules.is_reserved("foundry.owner")
