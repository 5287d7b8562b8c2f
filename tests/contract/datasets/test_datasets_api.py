"""Every endpoint of datasets, and every refusal with its status and code."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from django.utils.dateparse import parse_datetime

from tests.factories import datasets as make
from tests.factories import repositories
from webapp.accounts.models import Folder
from webapp.core import clock
from webapp.datasets import queries, services
from webapp.datasets.models import Transaction
from webapp.repositories.services import set_member

if TYPE_CHECKING:
    from collections.abc import Callable

    from rest_framework.test import APIClient

    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.contract, pytest.mark.django_db, pytest.mark.usefixtures("readers")]


@pytest.fixture
def owner() -> User:
    return make.a_user("owner", is_admin=False)


@pytest.fixture
def dataset(owner: User) -> Dataset:
    return make.a_dataset("/shop/orders", by=owner)


@pytest.fixture
def api(api_client: Callable[..., APIClient], owner: User) -> APIClient:
    return api_client(owner)


@pytest.fixture
def stranger(api_client: Callable[..., APIClient]) -> APIClient:
    return api_client(make.a_user("stranger", is_admin=False))


def url(dataset: Dataset, rest: str = "") -> str:
    return f"/api/v1/datasets/{dataset.pk}{rest}"


def check_problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response["Content-Type"].startswith("application/problem+json")
    body: dict[str, Any] = response.json()
    assert (body["status"], body["code"]) == (status, code)
    assert body["title"]
    assert body["detail"]
    return body


def test_create_and_find(api: APIClient, owner: User) -> None:
    made = api.post("/api/v1/datasets", {"path": "/lab/fish", "description": "From the lake"}, format="json")

    assert made.status_code == 201
    body = made.json()
    assert (body["path"], body["table"], body["description"]) == ("/lab/fish", "lab.fish", "From the lake")
    assert made["Location"] == f"/api/v1/datasets/{body['id']}"
    assert Folder.objects.get(name="lab").creator == owner
    assert api.get("/api/v1/datasets?path=/lab/fish").json()["results"] == [body]
    assert api.get("/api/v1/datasets?q=lake").json()["results"] == [body]
    assert api.get("/api/v1/datasets?path=/lab").json()["results"] == []
    detail = api.get(made["Location"]).json()
    assert [(branch["name"], branch["parent"], branch["transaction"]) for branch in detail["branches"]] == [
        ("master", None, None)
    ]


def test_creating_it_again_is_a_conflict(api: APIClient, dataset: Dataset) -> None:
    check_problem(api.post("/api/v1/datasets", {"path": dataset.path}, format="json"), 409, "dataset_exists")


@pytest.mark.parametrize("path", ["orders", "/orders", "/shop/", "/shop/a b", "/shop//a", "/shop/a.b"])
def test_creating_with_a_bad_path_is_refused(api: APIClient, path: str) -> None:
    body = check_problem(api.post("/api/v1/datasets", {"path": path}, format="json"), 422, "dataset_path")
    assert "path" in body["errors"]


def test_creating_without_a_path_is_refused(api: APIClient) -> None:
    body = check_problem(api.post("/api/v1/datasets", {}, format="json"), 422, "invalid_input")
    assert "path" in body["errors"]


def test_strangers_see_nothing(stranger: APIClient, dataset: Dataset) -> None:
    assert stranger.get("/api/v1/datasets").json()["results"] == []
    for rest in ("", "/branches", "/transactions", "/schema", "/preview"):
        refused = stranger.get(url(dataset, rest))
        check_problem(refused, 404, "not_found")
        assert dataset.path not in refused.content.decode()
    check_problem(stranger.post(url(dataset, "/branches"), {"name": "x"}, format="json"), 404, "not_found")
    check_problem(stranger.post("/api/v1/datasets", {"path": "/shop/new"}, format="json"), 404, "not_found")
    check_problem(stranger.post("/api/v1/datasets", {"path": dataset.path}, format="json"), 404, "not_found")


def test_nobody_is_asked_to_sign_in(api_client: Callable[..., APIClient], dataset: Dataset) -> None:
    check_problem(api_client().get(url(dataset)), 401, "unauthenticated")


def test_reading_tokens_write_nothing(api_client: Callable[..., APIClient], owner: User, dataset: Dataset) -> None:
    reader = api_client(owner, scopes=["read"])

    assert reader.get(url(dataset)).status_code == 200
    check_problem(reader.post(url(dataset, "/branches"), {"name": "x"}, format="json"), 403, "scope_missing")
    body = {"branch": "feature", "type": "APPEND"}
    check_problem(reader.post(url(dataset, "/transactions"), body, format="json"), 403, "scope_missing")


def test_branches(api: APIClient, dataset: Dataset, owner: User) -> None:
    make.write(make.a_client(owner), dataset, rows=2, total=2)
    master = queries.latest_committed(dataset, "master")
    assert master is not None

    child = api.post(url(dataset, "/branches"), {"name": "feature/x", "parent": "master"}, format="json")
    root = api.post(url(dataset, "/branches"), {"name": "lonely"}, format="json")
    from_transaction = api.post(url(dataset, "/branches"), {"name": "old", "transaction": master.pk}, format="json")

    assert (child.status_code, child.json()["parent"], child.json()["transaction"]["id"]) == (201, "master", master.pk)
    assert (root.status_code, root.json()["parent"], root.json()["transaction"]) == (201, None, None)
    assert (from_transaction.json()["parent"], from_transaction.json()["transaction"]["id"]) == ("master", master.pk)
    names = [branch["name"] for branch in api.get(url(dataset, "/branches")).json()["results"]]
    assert names == ["feature/x", "lonely", "master", "old"]
    assert api.get(url(dataset, "/branches/feature%2Fx")).json()["name"] == "feature/x"
    assert api.delete(url(dataset, "/branches/feature%2Fx")).status_code == 204
    check_problem(api.get(url(dataset, "/branches/feature%2Fx")), 404, "not_found")


def test_bad_branches(api: APIClient, dataset: Dataset) -> None:
    api.post(url(dataset, "/branches"), {"name": "taken"}, format="json")

    def create(**body: Any) -> Any:
        return api.post(url(dataset, "/branches"), body, format="json")

    check_problem(create(name="TAKEN"), 409, "branch_exists")
    check_problem(create(name="main"), 422, "branch_name")
    check_problem(create(name="_job/x"), 422, "branch_name")
    check_problem(create(name="a..b"), 422, "branch_name")
    check_problem(create(name="heads/master"), 400, "branch_name")
    check_problem(create(), 422, "invalid_input")
    check_problem(create(name="x", parent="nowhere"), 404, "not_found")
    check_problem(create(name="x", transaction="0" * 12), 404, "not_found")
    check_problem(api.delete(url(dataset, "/branches/nowhere")), 404, "not_found")
    check_problem(api.delete(url(dataset, "/branches/master")), 409, "master_stays")


def test_branch_from_an_expired_transaction(api: APIClient, dataset: Dataset, owner: User) -> None:
    client = make.a_client(owner)
    make.write(client, dataset)
    first = queries.latest_committed(dataset, "master")
    make.write(client, dataset)
    assert first is not None
    removed = client.commit(dataset.table, {"action": "remove-snapshots", "snapshot-ids": [first.snapshot_id]})
    assert removed.status == 200

    body = {"name": "old", "transaction": first.pk}
    check_problem(api.post(url(dataset, "/branches"), body, format="json"), 409, "expired")
    check_problem(api.get(url(dataset, f"/schema?transaction={first.pk}")), 409, "expired")
    assert queries.find_branch(dataset, "old") is None


def test_branch_from_an_aborted_transaction(api: APIClient, dataset: Dataset, owner: User) -> None:
    aborted = services.abort_transaction(transaction=make.a_transaction(dataset, owner), reason="")

    body = {"name": "old", "transaction": aborted.pk}
    check_problem(api.post(url(dataset, "/branches"), body, format="json"), 409, "transaction_aborted")


def test_branch_from_a_transaction_of_another_branch(api: APIClient, dataset: Dataset, owner: User) -> None:
    make.write(make.a_client(owner, "feature"), dataset)
    theirs = queries.latest_committed(dataset, "feature")
    assert theirs is not None

    body = {"name": "old", "parent": "master", "transaction": theirs.pk}
    check_problem(api.post(url(dataset, "/branches"), body, format="json"), 422, "invalid_input")


def test_transaction_from_start_to_commit(api: APIClient, dataset: Dataset, owner: User) -> None:
    opened = api.post(url(dataset, "/transactions"), {"branch": "feature", "type": "APPEND"}, format="json")
    body = opened.json()

    assert opened.status_code == 201
    assert opened["Location"].endswith(f"/transactions/{body['id']}")
    assert (body["state"], body["branch"], body["type"], body["snapshot_id"]) == ("OPEN", "feature", "APPEND", None)
    assert body["staging_branch"] == f"_job/{body['id']}"
    make.write(make.a_client(owner, body["staging_branch"]), dataset, rows=4, total=4)

    committed = api.post(url(dataset, f"/transactions/{body['id']}/commit"))

    assert committed.status_code == 200
    assert committed.json()["state"] == "COMMITTED"
    assert committed.json()["summary"]["rows"] == 4
    assert committed.json()["snapshot_id"] is not None
    again = api.post(url(dataset, f"/transactions/{body['id']}/commit"))
    assert check_problem(again, 409, "transaction_closed")["state"] == "COMMITTED"
    check_problem(api.post(url(dataset, f"/transactions/{body['id']}/abort")), 409, "transaction_closed")
    listed = api.get(url(dataset, "/transactions?branch=feature")).json()["results"]
    assert [row["id"] for row in listed] == [body["id"]]
    assert api.get(url(dataset, "/transactions?branch=master")).json()["results"] == []
    assert api.get(url(dataset, f"/transactions/{body['id']}")).json()["state"] == "COMMITTED"


def test_transaction_aborted(api: APIClient, dataset: Dataset) -> None:
    body = api.post(url(dataset, "/transactions"), {"branch": "master"}, format="json").json()

    aborted = api.post(url(dataset, f"/transactions/{body['id']}/abort")).json()

    assert (aborted["state"], aborted["type"], aborted["reason"]) == ("ABORTED", "SNAPSHOT", "Aborted by owner.")
    check_problem(api.get(url(dataset, f"/preview?transaction={body['id']}")), 409, "not_committed")
    for what in ("", "/rows.csv", "/rows.parquet", "/statistics"):
        check_problem(api.get(url(dataset, f"/compare{what}?from=master&to={body['id']}")), 409, "not_committed")


def test_bad_transactions(api: APIClient, dataset: Dataset) -> None:
    def start(**body: Any) -> Any:
        return api.post(url(dataset, "/transactions"), body, format="json")

    check_problem(start(branch="feature", type="MERGE"), 422, "invalid_input")
    check_problem(start(branch="main"), 422, "branch_name")
    check_problem(start(), 422, "invalid_input")
    first = start(branch="master").json()
    refused = check_problem(start(branch="master"), 409, "transaction_open")
    assert refused["transaction"] == first["id"]
    check_problem(api.delete(url(dataset, "/branches/master")), 409, "master_stays")
    check_problem(api.get(url(dataset, "/transactions/nothing")), 404, "not_found")


def test_branch_with_an_open_transaction_is_not_deleted(api: APIClient, dataset: Dataset) -> None:
    api.post(url(dataset, "/transactions"), {"branch": "feature"}, format="json")

    check_problem(api.delete(url(dataset, "/branches/feature")), 409, "transaction_open")


@pytest.fixture
def writer(owner: User) -> User:
    """Return somebody who may write the repository's datasets and maintains none."""
    user = make.a_user("writer", is_admin=False)
    repository = repositories.a_repository("shop", by=make.who(owner))
    set_member(repository=repository, username=user.username, role="writer", by=make.who(owner))
    return user


def test_only_the_opener_and_maintainers_close(
    api_client: Callable[..., APIClient], dataset: Dataset, owner: User, writer: User
) -> None:
    opened = make.a_transaction(dataset, owner, branch="feature")
    built = make.a_transaction(dataset, owner, build_id=7)

    for word in ("commit", "abort"):
        refused = api_client(writer).post(url(dataset, f"/transactions/{opened.pk}/{word}"))
        check_problem(refused, 403, "not_the_opener")
        check_problem(api_client(owner).post(url(dataset, f"/transactions/{built.pk}/{word}")), 409, "belongs_to_build")

    of_the_writer = make.a_transaction(dataset, writer, branch="other")
    assert api_client(owner).post(url(dataset, f"/transactions/{of_the_writer.pk}/abort")).status_code == 200


def test_an_idle_transaction_of_a_person_is_aborted_by_any_writer(
    api_client: Callable[..., APIClient], dataset: Dataset, owner: User, writer: User
) -> None:
    opened = make.a_transaction(dataset, owner, branch="feature")
    here = url(dataset, f"/transactions/{opened.pk}")

    def describe() -> dict[str, Any]:
        body: dict[str, Any] = api_client(writer).get(here).json()
        return body

    assert describe()["abortable_at"] > describe()["started_at"]
    a_day_ago = clock.now() - timedelta(hours=25)
    Transaction.objects.filter(pk=opened.pk).update(started_at=a_day_ago)
    make.a_client(owner, opened.staging_branch).append(dataset.table)
    assert describe()["written_at"]
    refused = check_problem(api_client(writer).post(f"{here}/abort"), 403, "not_the_opener")
    assert f"from {parse_datetime(describe()['abortable_at']):%Y-%m-%d %H:%M} UTC on" in refused["detail"]

    Transaction.objects.filter(pk=opened.pk).update(written_at=a_day_ago)
    check_problem(api_client(writer).post(f"{here}/commit"), 403, "not_the_opener")
    assert api_client(writer).post(f"{here}/abort").json()["state"] == "ABORTED"
    assert describe()["abortable_at"] is None


def test_a_clock_that_jumps_ahead_makes_no_transaction_idle(dataset: Dataset, owner: User) -> None:
    opened = make.a_transaction(dataset, owner, branch="feature")
    with mock.patch.object(clock, "now", return_value=clock.now() + timedelta(days=365)):
        assert not opened.is_idle


def test_schema(api: APIClient, dataset: Dataset, owner: User) -> None:
    fields = [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "tags", "required": False, "type": {
            "type": "list", "element-id": 3, "element": "string", "element-required": False}},
    ]  # fmt: skip
    make.a_client(owner, "feature").commit(
        dataset.table,
        {"action": "add-schema", "schema": {"type": "struct", "fields": fields}},
        {"action": "set-current-schema", "schema-id": -1},
    )

    branch = api.get(url(dataset, "/schema?branch=feature")).json()
    master = api.get(url(dataset, "/schema")).json()
    other = api.get(url(dataset, "/schema?branch=never-heard-of")).json()

    assert [(column["name"], column["type"], column["required"]) for column in branch["columns"]] == [
        ("id", "long", True),
        ("tags", "list<string>", False),
    ]
    assert branch["branch"] == "feature"
    assert branch["transaction"] == queries.latest_committed(dataset, "feature").pk  # type: ignore[union-attr]
    assert (master["branch"], master["transaction"], master["columns"]) == ("master", None, [])
    assert other["columns"] == []
    check_problem(api.get(url(dataset, "/schema?branch=main")), 422, "branch_name")
    check_problem(api.get(url(dataset, "/schema?branch=a&transaction=b")), 422, "invalid_input")


def test_bad_previews(api: APIClient, dataset: Dataset, owner: User) -> None:
    assert api.get(url(dataset, "/preview")).json()["rows"] == []
    check_problem(api.get(url(dataset, "/preview?limit=0")), 400, "bad_request")
    check_problem(api.get(url(dataset, "/preview?cursor=zzz")), 400, "bad_cursor")
    check_problem(api.get(url(dataset, "/preview?cursor=cjk5OTk5OQ")), 400, "beyond_preview")
    check_problem(api.get(url(dataset, "/preview?sort=nothing")), 422, "no_such_column")
    check_problem(api.get(url(dataset, "/preview?columns=nothing")), 422, "no_such_column")
    make.write(make.a_client(owner), dataset)
    client = make.a_client(owner)
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    client.commit(
        dataset.table,
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
    )
    problem = check_problem(api.get(url(dataset, "/preview")), 503, "unreadable_data")
    assert dataset.path in problem["detail"]


def test_unknown_datasets_are_not_found(api: APIClient) -> None:
    check_problem(api.get("/api/v1/datasets/999999"), 404, "not_found")


def test_lists_have_pages(api: APIClient, dataset: Dataset) -> None:
    for name in ("a", "b", "c"):
        api.post(url(dataset, "/branches"), {"name": name}, format="json")

    first = api.get(url(dataset, "/branches?limit=2")).json()
    second = api.get(first["next"]).json()

    assert [branch["name"] for branch in first["results"] + second["results"]] == ["a", "b", "c", "master"]
    assert (first["previous"], second["next"]) == (None, None)
