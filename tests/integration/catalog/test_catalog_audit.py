"""Every operation of the catalog that changes something leaves one entry in the audit log, and no other leaves any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.factories.catalog import Answer, Catalog, field, schema, set_schema, table_path
from tests.unit.catalog.test_views import version
from webapp.accounts.models import AuditEntry
from webapp.accounts.rules.audit import HOURLY, READS
from webapp.catalog.rules.endpoints import ENDPOINTS

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]

ORDERS = table_path("sales.orders")
VIEWS = "namespaces/sales/views"


def walk(catalog: Catalog) -> dict[str, Callable[[], Answer]]:
    """Each operation that changes something, in an order in which all succeed."""
    table: dict[str, Any] = {}
    view: dict[str, Any] = {}
    names = {"namespace": ["sales"], "name": "orders"}
    settings = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    return {
        "createNamespace": lambda: catalog.create_namespace("sales"),
        "updateProperties": lambda: catalog.call("POST", "namespaces/sales/properties", {"updates": {"a": "b"}}),
        "createTable": lambda: keep(table, catalog.create_table("sales.orders", field(1, "id"))),
        "updateTable": lambda: catalog.append("sales.orders"),
        "commitTransaction": lambda: catalog.call(
            "POST", "transactions/commit", {"table-changes": [{"identifier": names, **settings}]}
        ),
        "renameTable": lambda: catalog.call(
            "POST", "tables/rename", {"source": names, "destination": {**names, "name": "sold"}}
        ),
        "unregisterTable": lambda: catalog.call("POST", f"{table_path('sales.sold')}/unregister"),
        "registerTable": lambda: catalog.call(
            "POST", "namespaces/sales/register", {"name": "orders", "metadata-location": table["metadata-location"]}
        ),
        "dropTable": lambda: catalog.call("DELETE", ORDERS),
        "createView": lambda: keep(
            view,
            catalog.call("POST", VIEWS, {"name": "v", "schema": schema(), "view-version": version(), "properties": {}}),
        ),
        "replaceView": lambda: catalog.call(
            "POST", f"{VIEWS}/v", {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        ),
        "renameView": lambda: catalog.call(
            "POST",
            "views/rename",
            {"source": {**names, "name": "v"}, "destination": {**names, "name": "w"}},
        ),
        "dropView": lambda: catalog.call("DELETE", f"{VIEWS}/w"),
        "registerView": lambda: catalog.call(
            "POST", "namespaces/sales/register-view", {"name": "v", "metadata-location": view["metadata-location"]}
        ),
        "dropNamespace": lambda: (catalog.call("DELETE", f"{VIEWS}/v"), catalog.call("DELETE", "namespaces/sales"))[1],
    }


ENTRIES = {
    "createNamespace": [("create_namespace", "sales")],
    "updateProperties": [("update_namespace", "sales")],
    "createTable": [("create_table", "/sales/orders")],
    "updateTable": [("commit_table", "/sales/orders")],
    "commitTransaction": [("commit_table", "/sales/orders")],
    "renameTable": [("rename_table", "/sales/orders")],
    "unregisterTable": [("drop_table", "/sales/sold")],
    "registerTable": [("create_table", "/sales/orders")],
    "dropTable": [("drop_table", "/sales/orders")],
    "createView": [("create_view", "/sales/v")],
    "replaceView": [("commit_view", "/sales/v")],
    "renameView": [("rename_view", "/sales/v")],
    "dropView": [("drop_view", "/sales/w")],
    "registerView": [("create_view", "/sales/v")],
    "dropNamespace": [("drop_view", "/sales/v"), ("drop_namespace", "sales")],
}
"""What each operation of the walk leaves in the audit log: verbs and objects."""


def keep(place: dict[str, Any], answer: Answer) -> Answer:
    place.update(answer.body)
    return answer


def list_acts(*, behind: int) -> list[tuple[str, str, str]]:
    """Actor, verb and object of the entries that are no counts."""
    entries = AuditEntry.objects.filter(pk__gt=behind).exclude(verb__in=(*READS, *HOURLY)).order_by("pk")
    return list(entries.values_list("actor", "verb", "object"))


def test_every_change_leaves_one_entry(catalog: Catalog) -> None:
    for operation, act in walk(catalog).items():
        last = AuditEntry.objects.order_by("pk").values_list("pk", flat=True).last() or 0
        answer = act()
        assert answer.status in (200, 204), (operation, answer.body)
        acts = list_acts(behind=last)
        assert acts == [("admin", *entry) for entry in ENTRIES[operation]], operation
    changing = {
        endpoint.operation
        for endpoint in ENDPOINTS
        if endpoint.method in ("POST", "DELETE") and not endpoint.reads and endpoint.operation != "getToken"
    }
    assert set(walk(catalog)) == changing


def test_what_only_reads_leaves_none(catalog: Catalog) -> None:
    catalog.create_namespace("sales")
    catalog.create_table("sales.orders", field(1, "id"))
    catalog.append("sales.orders")
    last = AuditEntry.objects.order_by("pk").values_list("pk", flat=True).last() or 0
    for method, path in (
        ("GET", "config"), ("GET", "namespaces"), ("GET", "namespaces/sales"), ("HEAD", "namespaces/sales"),
        ("GET", "namespaces/sales/tables"), ("GET", ORDERS), ("HEAD", ORDERS), ("GET", f"{ORDERS}/credentials"),
        ("GET", VIEWS),
    ):  # fmt: skip
        assert catalog.call(method, path).status in (200, 204), path
    catalog.call("POST", f"{ORDERS}/metrics", {"report-type": "scan-report"})
    catalog.call("POST", f"{ORDERS}/plan", {})
    assert list_acts(behind=last) == []


def test_a_commit_that_removes_schemas_and_specs_says_which(catalog: Catalog) -> None:
    catalog.create_namespace("sales")
    catalog.create_table("sales.orders", field(1, "id"))
    spec = {"fields": [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"}]}
    schemas = [
        update
        for name in ("a", "b")
        for update in set_schema(schema(field(1, "id"), field(2, name), field(3, name + "2")))
    ]
    for updates in (
        schemas,
        [{"action": "add-spec", "spec": spec}],
        [{"action": "remove-schemas", "schema-ids": [1, 0]}, {"action": "remove-partition-specs", "spec-ids": [1]}],
    ):
        answer = catalog.call("POST", ORDERS, {"requirements": [], "updates": updates})
        assert answer.status == 200, answer.body
    *_, added, removed = AuditEntry.objects.filter(verb="commit_table").order_by("pk").values_list("detail", flat=True)
    assert not {"removed_schemas", "removed_specs"} & set(added)
    assert (removed["removed_schemas"], removed["removed_specs"]) == ([0, 1], [1])
