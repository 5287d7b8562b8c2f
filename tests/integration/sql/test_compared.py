"""One query on two branches: both results, and what differs between them, by REST and on the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.test import Client

from tests.factories import build_rows, datasets, repositories
from tests.factories.everything import World, make_world
from tests.factories.pages import read_page
from webapp.accounts.models import AuditEntry, RepositoryRole
from webapp.accounts.services.readings import flush_readings
from webapp.repositories.models import Repository
from webapp.repositories.queries import read_file
from webapp.sql import services
from webapp.sql.models import Query
from webapp.sql.rules.states import QueryState

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
API = "/api/v1/repositories/shop/queries"


@pytest.fixture
def world(readers: Path) -> World:
    """A shop whose branch `side` has one row more than master."""
    world = make_world()
    repositories.a_branch(Repository.objects.get(name="shop"), "side")
    table = datasets.a_pyiceberg(world.users["admin"], "side").load_table("shop.raw")
    table.append(pa.table({"id": [9], "name": ["branch"], "amount": [2.5], "tags": [["z"]]}))
    return world


def ask(world: World, role: str, sql: str, **more: str) -> Any:
    """Send a query on `side` as somebody, to be compared with master."""
    body = {"branch": "side", "base": "master", "sql": sql, **more}
    return Client().post(API, body, "application/json", headers=world.bearer(role, ""))


def run(world: World, sql: str) -> Query:
    """Send a query as a reader and run it here, in the sandbox."""
    answer = ask(world, "reader", sql)
    assert answer.status_code == 202, answer.content
    services.run_query(query_id=answer.json()["id"])
    query = Query.objects.get(pk=answer.json()["id"])
    assert query.state == QueryState.READY, query.error
    return query


def test_both_results_and_their_difference_are_shown(world: World) -> None:
    query = run(world, "SELECT id, any_value(name) AS name FROM raw GROUP BY id")
    told, rows, base, difference = (
        Client().get(f"{API}/{query.pk}{part}", headers=world.bearer("reader", "")).json()
        for part in ("", "/rows", "/rows?side=base&limit=1", "/difference")
    )
    assert (told["base"], told["rows"], told["base_rows"]) == ("master", 3, 2)
    assert told["base_tables"][0]["branch"] == "master"
    counts = {"inserted": 1, "deleted": 0, "updated": 0, "lines": 1}
    assert told["difference"] == {"state": "different", "reason": "", "key": "id", "columns": [], **counts}
    assert (len(rows["rows"]), len(base["rows"]), base["total"], base["next"]) == (3, 1, 2, "1")
    assert difference["rows"] == [{"change": "inserted", "copies": 1, "before": None, "after": [9, "branch"]}]
    assert (difference["lines"], difference["next"]) == (1, None)
    browser = Client()
    browser.force_login(world.users["reader"])
    page = read_page(browser.get(f"/r/shop/sql/{query.pk}?base_page=9"))
    for text in ("From master to side", "Result on side", "Result on master", "rows matched by<code>id</code>"):
        assert text in page
    assert re.search(r"<option [^>]*\bselected>master</option>", page)
    flush_readings()
    reads = AuditEntry.objects.filter(actor="a-reader", verb="read_rows", object="/shop/raw")
    assert {entry.branch for entry in reads} == {"side", "master"}
    assert AuditEntry.objects.get(verb="run_query", branch="side").detail["base"] == "master"
    equal = run(world, "SELECT 1 AS x")
    assert equal.summary["difference"]["state"] == "equal"
    assert "the same rows and the same columns" in read_page(browser.get(f"/r/shop/sql/{equal.pk}"))


def test_a_table_that_the_base_has_no_data_of_is_empty_there(world: World) -> None:
    datasets.a_dataset("/shop/new", by=world.users["admin"])
    table = datasets.a_pyiceberg(world.users["admin"], "side").load_table("shop.new")
    with table.update_schema() as update:
        update.union_by_name(pa.schema({"x": pa.int64()}))
    table.append(pa.table({"x": [1, 1]}))
    query = run(world, "SELECT * FROM new")
    assert query.base_tables[0]["transaction"] == ""
    assert query.summary["difference"]["inserted"] == 2
    browser = Client()
    browser.force_login(world.users["reader"])
    page = read_page(browser.get(f"/r/shop/sql/{query.pk}"))
    assert "no data yet, so no rows" in page
    assert "×2" in page


def test_what_cannot_be_compared_says_why_and_rights_hold_for_both_sides(world: World) -> None:
    for base, status in (("side", 422), ("nowhere", 404), ("_job/1", 403)):
        assert ask(world, "reader", "SELECT 1", base=base).status_code == status
    alone = ask(world, "reader", "SELECT 1", base="").json()
    services.run_query(query_id=alone["id"])
    for part in ("/difference", "/rows?side=base"):
        answer = Client().get(f"{API}/{alone['id']}{part}", headers=world.bearer("reader", ""))
        assert (answer.status_code, answer.json()["code"]) == (409, "not_compared")
    answer = Client().get(f"{API}/{alone['id']}/rows?side=left", headers=world.bearer("reader", ""))
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_side")
    vault = build_rows.a_world("vault", raw=())
    datasets.a_dataset("/vault/hidden", by=vault.user)
    refused = ask(world, "reader", 'SELECT * FROM "/vault/hidden"')
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_table")
    query = Query.objects.create(
        repository=Repository.objects.get(name="shop"),
        branch="side",
        base="master",
        base_tables=[{"names": ["h"], "path": "/vault/hidden", "branch": "master", "transaction": ""}],
    )
    address = f"{API}/{query.pk}"
    assert Client().get(address, headers=world.bearer("reader", "")).status_code == 404
    RepositoryRole.objects.create(repository="vault", user=world.users["reader"], role="reader")
    assert Client().get(address, headers=world.bearer("reader", "")).status_code == 200


def test_a_query_is_saved_as_a_check_of_its_branch_or_a_new_one(world: World) -> None:
    shop = Repository.objects.get(name="shop")
    browser = Client()
    browser.force_login(world.users["writer"])
    fields = {"branch": "side", "sql": "SELECT id FROM raw\nWHERE id IS NULL", "name": "ids", "expects": "Empty"}
    for wrong, problem in (
        ({"name": "../ids"}, "letters, digits"),
        ({"expects": "much"}, "nothing that can be expected"),
        ({"sql": "DELETE FROM raw"}, "A query only reads"),
        ({"branch": "nowhere"}, "nowhere"),
    ):
        page = browser.post("/r/shop/sql/save", {**fields, **wrong})
        assert (page.status_code, problem in read_page(page)) == (422, True), wrong
    saved = browser.post("/r/shop/sql/save", fields)
    assert (saved.status_code, saved["Location"]) == (302, "/r/shop/blob/side/checks/ids.sql")
    blob = read_file(shop, "side", "checks/ids.sql")
    assert blob.decode() == "-- expect: empty\nSELECT id FROM raw\nWHERE id IS NULL\n"
    changed = {"sql": blob.decode(), "expects": "rows < 3", "new_branch": "more"}
    again = browser.post("/r/shop/sql/save", {**fields, **changed})
    assert again["Location"] == "/r/shop/blob/more/checks/ids.sql"
    assert read_file(shop, "more", "checks/ids.sql") == blob.replace(b"empty", b"rows < 3")
    assert browser.post("/r/shop/sql/save", {**fields, "branch": "master"}).status_code == 422
    browser.force_login(world.users["reader"])
    assert browser.post("/r/shop/sql/save", fields).status_code == 422
    assert "Save as check" not in read_page(browser.get("/r/shop/sql"))
