"""The specification's operations, updates and requirements once more at the level of HTTP, where no other test has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.catalog import Catalog, add_column, field, head, schema, set_ref, snapshot, table_path
from webapp.catalog.rules.requirements import REQUIREMENTS
from webapp.catalog.rules.updates import UPDATES

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
TABLE = "shop.orders"


@pytest.fixture
def orders(catalog: Catalog) -> Catalog:
    """A table with one snapshot."""
    catalog.create_table(TABLE)
    catalog.append(TABLE)
    return catalog


def test_every_kind_of_update(orders: Catalog) -> None:
    view = orders.load(TABLE).metadata
    number, location = head(view), view["location"]
    made = snapshot(view, **{"timestamp-ms": view["last-updated-ms"]})
    statistics = {
        "snapshot-id": number,
        "statistics-path": f"{location}/metadata/s.puffin",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": view["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": schema(field(1, "id"), field(2, "name", "string"), field(3, "more"))},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [{"name": "id", "transform": "identity", "source-id": 1}]}},
        {"action": "set-default-spec", "spec-id": -1},
        {
            "action": "add-sort-order",
            "sort-order": {
                "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]
            },
        },
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "add-snapshot", "snapshot": made},
        set_ref("main", made["snapshot-id"]),
        set_ref("old", int(str(number)), kind="tag", **{"max-ref-age-ms": 1000}),
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": {"a": "1", "b": "2"}},
        {"action": "remove-properties", "removals": ["a"]},
        {"action": "set-statistics", "statistics": statistics},
        {"action": "set-partition-statistics", "partition-statistics": statistics},
        {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "eA=="}},
    ]
    after = orders.commit(TABLE, *updates).metadata
    assert (after["current-schema-id"], after["default-spec-id"], after["default-sort-order-id"]) == (1, 1, 1)
    assert after["refs"]["old"] == {"snapshot-id": number, "type": "tag", "max-ref-age-ms": 1000}
    assert (after["properties"]["b"], "a" in after["properties"]) == ("2", False)
    assert after["statistics"] == after["partition-statistics"] == [statistics]
    assert [key["key-id"] for key in after["encryption-keys"]] == ["k"]
    removals: list[dict[str, Any]] = [
        {"action": "remove-statistics", "snapshot-id": number},
        {"action": "remove-partition-statistics", "snapshot-id": number},
        {"action": "remove-encryption-key", "key-id": "k"},
        {"action": "remove-snapshot-ref", "ref-name": "old"},
        {"action": "remove-snapshots", "snapshot-ids": [number]},
        {"action": "remove-schemas", "schema-ids": [0]},
        {"action": "remove-partition-specs", "spec-ids": [0]},
    ]
    gone = orders.commit(TABLE, *removals).metadata
    assert [len(gone[key]) for key in ("snapshots", "schemas", "partition-specs", "statistics", "refs")] == [
        *(1, 1, 1, 0, 1)
    ]
    assert gone["encryption-keys"] == gone["partition-statistics"] == []
    assert {update["action"] for update in (*updates, *removals)} == set(UPDATES)


def test_every_kind_of_requirement(orders: Catalog) -> None:
    view = orders.load(TABLE).metadata
    true: dict[str, dict[str, Any]] = {
        "assert-table-uuid": {"uuid": view["table-uuid"]},
        "assert-ref-snapshot-id": {"ref": "main", "snapshot-id": head(view)},
        "assert-last-assigned-field-id": {"last-assigned-field-id": 2},
        "assert-current-schema-id": {"current-schema-id": 0},
        "assert-last-assigned-partition-id": {"last-assigned-partition-id": 999},
        "assert-default-spec-id": {"default-spec-id": 0},
        "assert-default-sort-order-id": {"default-sort-order-id": 0},
    }
    assert set(true) == set(REQUIREMENTS)
    touch = {"action": "set-properties", "updates": {"a": "1"}}
    for kind, body in true.items():
        assert orders.commit(TABLE, touch, requirements=[{"type": kind, **body}]).status == 200, kind
        key = list(body)[-1]
        wrong = "1b671a64-40d5-491e-99b0-da01ff1f3341" if key == "uuid" else 77
        refused = orders.commit(TABLE, touch, requirements=[{"type": kind, **body, key: wrong}])
        assert (refused.status, refused.error[0]) == (409, "CommitFailedException"), kind
        broken = orders.commit(TABLE, touch, requirements=[{"type": kind, **body, key: []}])
        assert broken.status == 400, kind
    created = orders.commit(TABLE, touch, requirements=[{"type": "assert-create"}])
    assert created.status == 409


def test_next_row_ids_of_version_3(catalog: Catalog) -> None:
    catalog.create_table(TABLE, properties={"format-version": "3"})
    catalog.append(TABLE, **{"added-rows": 5})
    view = catalog.load(TABLE).metadata
    assert view["next-row-id"] == 5
    for first, added, status in ((4, 1, 409), (5, -1, 400), (5, None, 400), (5, 2, 200)):
        made = snapshot(view, **{"timestamp-ms": view["last-updated-ms"], "first-row-id": first, "added-rows": added})
        answer = catalog.commit(TABLE, {"action": "add-snapshot", "snapshot": made})
        assert answer.status == status, (first, added)
    assert catalog.load(TABLE).metadata["next-row-id"] == 7


def test_unregistering_tells_of_every_commit_before_it(orders: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    from webapp.catalog.services import tables

    find, raced = tables.find_table, []

    def late(ref: Any) -> Any:
        row = find(ref)
        if not raced:
            raced.append(orders.commit(TABLE, {"action": "set-properties", "updates": {"late": "1"}}))
        return row

    monkeypatch.setattr(tables, "find_table", late)
    gone = orders.call("POST", table_path(TABLE) + "/unregister")
    assert raced[0].status == 200
    assert gone.metadata["properties"]["late"] == "1"
    assert orders.load(TABLE).status == 404
    assert orders.call("POST", table_path(TABLE) + "/unregister").status == 404


def test_a_list_comes_in_pages_only_where_a_token_is_sent(orders: Catalog) -> None:
    for name in ("a", "b"):
        orders.create_table(f"shop.{name}")
    whole = orders.call("GET", "namespaces/shop/tables", query="pageSize=1")
    assert (len(whole.body["identifiers"]), whole.body["next-page-token"]) == (3, None)
    first = orders.call("GET", "namespaces/shop/tables", query="pageSize=1&pageToken=")
    assert len(first.body["identifiers"]) == 1
    assert first.body["next-page-token"]


def test_a_table_read_through_a_view_is_the_same_table(orders: Catalog) -> None:
    through = orders.load(TABLE, "referenced-by=shop%1Fv,shop%1Fw")
    assert through.metadata == orders.load(TABLE).metadata


def test_planning_again_with_one_key_is_planning_again(orders: Catalog) -> None:
    orders.create_table("shop.empty")
    path = f"{table_path('shop.empty')}/plan"
    key = {"idempotency-key": "0192f0c1-5d3a-7b8e-9c4d-2e6f8a1b3c5d"}
    first, second = (orders.call("POST", path, {}, headers=key) for _ in range(2))
    assert first.status == second.status == 200
    assert first.body["plan-id"] != second.body["plan-id"]
    view = orders.load("shop.empty").metadata
    assert orders.commit("shop.empty", *add_column(view, "more")).status == 200
