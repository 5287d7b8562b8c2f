"""Schema changes of unmodified PyIceberg on branches: catalog, REST and page say the same, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from tests.factories import datasets as make
from tests.factories.catalog import set_ref
from tests.factories.pages import read_page
from webapp.datasets import queries, services

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pyiceberg.catalog.rest import RestCatalog
    from rest_framework.test import APIClient

    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("readers")]
TABLE = ("shop", "orders")
ONE_LONG = pa.table({"id": pa.array([1], pa.int64()), "v": pa.array([1], pa.int64())})
COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", IntegerType()))


@pytest.fixture
def api(api_client: Callable[..., APIClient], user: User) -> APIClient:
    return api_client(user)


@pytest.fixture
def on(user: User) -> Callable[..., RestCatalog]:
    return lambda branch="": make.a_pyiceberg(user, branch)


@pytest.fixture
def orders(user: User, on: Callable[..., RestCatalog]) -> Dataset:
    """A table with one row on master."""
    on().create_namespace("shop")
    table = on().create_table(TABLE, schema=COLUMNS)
    append(table)
    return queries.get_dataset(make.who(user), "/shop/orders")


def append(table: Any) -> None:
    arrow = table.schema().as_arrow()
    table.append(pa.table({field.name: pa.array([None], field.type) for field in arrow}, schema=arrow))


def columns_by_catalog(catalog: RestCatalog) -> list[str]:
    return list(catalog.load_table(TABLE).schema().column_names)


def columns_by_rest(api: APIClient, dataset: Dataset, branch: str) -> dict[str, list[str]]:
    url = f"/api/v1/datasets/{dataset.pk}"
    schema = api.get(f"{url}/schema", {"branch": branch}).json()
    preview = api.get(f"{url}/preview", {"branch": branch}).json()
    recorded = api.get(f"{url}/schema", {"transaction": schema["transaction"]}).json()
    answers = {"schema": schema, "preview": preview, "transaction": recorded}
    return {name: [column["name"] for column in answer["columns"]] for name, answer in answers.items()}


def check_columns(api: APIClient, on: Callable[..., RestCatalog], dataset: Dataset, branch: str, *columns: str) -> None:
    expected = list(columns)
    assert columns_by_catalog(on("" if branch == "master" else branch)) == expected
    assert columns_by_rest(api, dataset, branch) == dict.fromkeys(("schema", "preview", "transaction"), expected)


def test_schema_changes_on_two_branches_are_theirs(
    api: APIClient, on: Callable[..., RestCatalog], orders: Dataset, client: Client, user: User
) -> None:
    with on("p3-a").load_table(TABLE).update_schema() as update:
        update.add_column("w", StringType())
    check_columns(api, on, orders, "p3-a", "id", "v", "w")
    with on("p3-a").load_table(TABLE).update_schema() as update:
        update.rename_column("w", "wide")
    with on("p3-x").load_table(TABLE).update_schema() as update:
        update.delete_column("v")

    check_columns(api, on, orders, "p3-a", "id", "v", "wide")
    check_columns(api, on, orders, "p3-x", "id")
    check_columns(api, on, orders, "master", "id", "v")
    assert queries.list_parents(orders) == {"master": None, "p3-a": "master", "p3-x": "master"}
    listed = api.get(f"/api/v1/datasets/{orders.pk}/transactions", {"branch": "p3-a"}).json()["results"]
    assert [(row["branch"], row["type"], row["changes"]) for row in listed] == [
        ("p3-a", "UPDATE", ["schema"]),
        ("p3-a", "UPDATE", ["schema"]),
        ("master", "APPEND", []),
    ]
    client.force_login(user)
    page = read_page(client.get("/d/shop/orders", {"branch": "p3-x", "tab": "schema"}))
    assert ">id</th>" in page
    assert ">v</th>" not in page
    page = client.get("/d/shop/orders", {"branch": "p3-a", "tab": "history"}).content.decode()
    assert page.count("changed the schema") == 2


def test_a_branch_without_ids_of_its_own_follows_master_in_every_answer(
    api: APIClient, on: Callable[..., RestCatalog], orders: Dataset, user: User
) -> None:
    """A plain client's branch has master's schema, as standard Iceberg does; so say pages and REST, and it is recorded."""
    table = on().load_table(TABLE)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    assert queries.latest_committed(orders, "audit") == queries.latest_committed(orders, "master")

    with table.update_schema() as update:
        update.add_column("w", StringType())
    check_columns(api, on, orders, "audit", "id", "v", "w")
    opened = make.a_transaction(orders, user)
    with on(opened.staging_branch).load_table(TABLE).update_schema() as update:
        update.add_column("x", StringType())
    make.commit(opened, user)

    check_columns(api, on, orders, "audit", "id", "v", "w", "x")
    history = queries.list_history(queries.get_branch(orders, "audit"))
    assert [(row.branch_name, row.summary.get("changes")) for row in history[:2]] == [("audit", ["schema"])] * 2


def test_a_transaction_on_a_branch_without_ids_keeps_its_schema(
    api: APIClient, on: Callable[..., RestCatalog], orders: Dataset, user: User
) -> None:
    table = on().load_table(TABLE)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    opened = make.a_transaction(orders, user, branch="audit")

    with table.update_schema() as update:
        update.add_column("w", StringType())

    check_columns(api, on, orders, "audit", "id", "v")
    services.abort_transaction(transaction=opened, reason="")
    check_columns(api, on, orders, "audit", "id", "v")


def test_a_branch_at_an_older_snapshot_has_the_schema_of_today(
    api: APIClient, on: Callable[..., RestCatalog], orders: Dataset, user: User
) -> None:
    """Its transaction is its own: none of master's ended with that snapshot and this schema."""
    table = on().load_table(TABLE)
    first = table.current_snapshot().snapshot_id
    append(table)
    with table.update_schema() as update:
        update.add_column("w", StringType())

    assert make.a_client(user).commit("shop.orders", set_ref("old", first)).status == 200

    check_columns(api, on, orders, "old", "id", "v", "w")
    own = queries.latest_committed(orders, "old")
    assert own is not None
    assert (own.branch_name, own.snapshot_id, own.summary["changes"]) == ("old", first, ["schema"])
    assert own.parent is not None
    assert own.parent.snapshot_id == first


def test_a_branch_is_not_pointed_at_files_that_its_schema_cannot_read(
    api: APIClient, on: Callable[..., RestCatalog], orders: Dataset, user: User
) -> None:
    """A deleted branch wrote by master's wider type; p3-a has the narrower one of before, and stays readable by it."""
    append(on("p3-a").load_table(TABLE))
    with on().load_table(TABLE).update_schema() as update:
        update.update_column("v", LongType())
    wide = on("p3-x").load_table(TABLE)
    append(wide)
    number = wide.current_snapshot().snapshot_id
    services.delete_branch(dataset=orders, name="p3-x", by=make.who(user))
    recorded = orders.transactions.count()

    for caller, name in (("", "p3-a"), ("p3-a", "main")):
        answer = make.a_client(user).on(caller or None).commit("shop.orders", set_ref(name, number))
        assert answer.status == 400
        assert answer.error[1].startswith(
            f"Branch p3-a cannot be set to snapshot {number}: column v is int on the branch and long"
        )
    with pytest.raises(BadRequestError, match="Branch p3-a cannot be set to snapshot"):
        on().load_table(TABLE).append(ONE_LONG, branch="p3-a")
    assert orders.transactions.count() == recorded
    assert on("p3-a").load_table(TABLE).scan().count() == 2
    check_columns(api, on, orders, "p3-a", "id", "v")

    narrow = on("p3-a").load_table(TABLE)
    with narrow.update_schema() as update:
        update.update_column("v", LongType())
    assert make.a_client(user).commit("shop.orders", set_ref("p3-a", number)).status == 200
    assert on("p3-a").load_table(TABLE).current_snapshot().snapshot_id == number
    check_columns(api, on, orders, "p3-a", "id", "v")


def test_an_empty_branch_stays_empty_in_every_answer(
    api: APIClient, on: Callable[..., RestCatalog], dataset: Dataset, user: User
) -> None:
    """A child of an empty master never reads what master gets later: no client sees it there."""
    services.create_branch(dataset=dataset, name="bare", parent="master", by=make.who(user))
    make.write(make.a_client(user), dataset, rows=2, total=2)

    url = f"/api/v1/datasets/{dataset.pk}"
    assert on("bare").load_table(TABLE).current_snapshot() is None
    assert api.get(f"{url}/schema", {"branch": "bare"}).json()["transaction"] is None
    assert api.get(f"{url}/preview", {"branch": "bare"}).json()["rows"] == []
    assert api.get(f"{url}/transactions", {"branch": "bare"}).json()["results"] == []


def test_every_branch_of_a_table_that_is_taken_over_is_recorded(
    api: APIClient, on: Callable[..., RestCatalog], orders: Dataset, user: User
) -> None:
    with on("p3-a").load_table(TABLE).update_schema() as update:
        update.add_column("w", StringType())
    append(on("p3-a").load_table(TABLE))
    location = on().load_table(TABLE).metadata_location
    on().drop_table(TABLE)
    assert queries.find_dataset("/shop/orders") is None

    on().register_table(TABLE, location)

    again = queries.get_dataset(make.who(user), "/shop/orders")
    check_columns(api, on, again, "p3-a", "id", "v", "w")
    check_columns(api, on, again, "master", "id", "v")
    assert queries.list_parents(again) == {"master": None, "p3-a": "master"}


def test_a_branch_without_rows_that_a_client_removes_is_gone_for_everybody(
    api: APIClient, on: Callable[..., RestCatalog], user: User
) -> None:
    on().create_namespace("shop")
    on("p3-a").create_table(TABLE, schema=COLUMNS)
    dataset = queries.get_dataset(make.who(user), "/shop/orders")
    check_columns(api, on, dataset, "p3-a", "id", "v")

    gone = {"action": "remove-snapshot-ref", "ref-name": "p3-a"}
    assert make.a_client(user).commit("shop.orders", gone).status == 200

    assert columns_by_catalog(on("p3-a")) == []
    assert api.get(f"/api/v1/datasets/{dataset.pk}/schema", {"branch": "p3-a"}).json()["columns"] == []
    assert queries.find_branch(dataset, "p3-a") is None
