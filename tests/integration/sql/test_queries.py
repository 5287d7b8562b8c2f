"""SQL over a branch of data: run in the sandbox, by the reader's rights, stopped, cut off and looked at again."""

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
from webapp.sql import queries, services
from webapp.sql.models import Query
from webapp.sql.rules.states import QueryState

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
API = "/api/v1/repositories/shop/queries"
CANARY = "salary-of-mira-4711"


@pytest.fixture
def world(readers: Path) -> World:
    return make_world()


def ask(world: World, role: str, sql: str, branch: str = "master") -> Any:
    """Send a query as somebody."""
    body = {"branch": branch, "sql": sql}
    return Client().post(API, body, "application/json", headers=world.bearer(role, ""))


def run(world: World, role: str, sql: str, branch: str = "master") -> Query:
    """Send a query as somebody and run it here, in the sandbox."""
    answer = ask(world, role, sql, branch)
    assert answer.status_code == 202, answer.content
    services.run_query(query_id=answer.json()["id"])
    return Query.objects.get(pk=answer.json()["id"])


def read(world: World, role: str, address: str) -> Any:
    return Client().get(f"{API}/{address}", headers=world.bearer(role, ""))


def test_a_reader_queries_a_branch_and_pages_the_result(world: World) -> None:
    repositories.a_branch(Repository.objects.get(name="shop"), "side")
    table = datasets.a_pyiceberg(world.users["admin"], "side").load_table("shop.raw")
    table.append(pa.table({"id": [9], "name": ["branch"], "amount": [2.5], "tags": [["z"]]}))
    sql = 'SELECT t.*, count(*) OVER () AS "all" FROM raw t JOIN (SELECT DISTINCT id FROM "/shop/raw") USING (id) ORDER BY id'
    query = run(world, "reader", f"{sql}, name NULLS LAST", "side")
    assert query.state == QueryState.READY, query.error
    [pinned] = query.tables
    assert (pinned["names"], pinned["path"], pinned["branch"]) == (["raw", "/shop/raw"], "/shop/raw", "side")
    told = read(world, "reader", str(query.pk)).json()
    assert [(column["name"], column["type"]) for column in told["columns"]][:2] == [
        ("id", "BIGINT"),
        ("name", "VARCHAR"),
    ]
    assert (told["rows"], told["is_cut"], told["rows_read"], told["by"]) == (5, False, 10, "a-reader")
    page = read(world, "reader", f"{query.pk}/rows?limit=4").json()
    assert page["rows"][0] == [1, "a", 1.5, ["x"], 5]
    assert read(world, "reader", f"{query.pk}/rows?limit=4&cursor={page['next']}").json()["rows"] == [
        [9, "branch", 2.5, ["z"], 5]
    ]
    flush_readings()
    entries = AuditEntry.objects.filter(actor="a-reader")
    assert entries.get(verb="run_query").detail["sql"].startswith("SELECT t.*")
    assert entries.filter(verb="read_rows", object="/shop/raw", branch="side").exists()
    browser = Client()
    browser.force_login(world.users["reader"])
    shown = read_page(browser.get(f"/r/shop/sql/{query.pk}"))
    assert re.search(r"5 rows\s+of 10 read", shown)
    assert "<td>branch</td>" in shown
    assert run(world, "reader", "SELECT count(*) FROM raw").summary["rows_read"] == 4


def test_names_mean_what_their_asker_may_read(world: World) -> None:
    vault = build_rows.a_world("vault", raw=())
    datasets.a_dataset("/vault/hidden", by=vault.user)
    table = datasets.a_pyiceberg(vault.user).load_table("vault.hidden")
    rows = pa.table({"secret": [CANARY]})
    with table.update_schema() as update:
        update.union_by_name(rows.schema)
    table.append(rows)
    for name in ('"/vault/hidden"', "hidden", '"/vault/absent"', "information_schema.tables", "duckdb_tables"):
        answer = ask(world, "reader", f"SELECT * FROM {name}")
        assert (answer.status_code, answer.json()["code"]) == (422, "unknown_table"), name
        assert CANARY not in read_page(answer)
    assert ask(world, "reader", 'SELECT * FROM "/vault/hidden"').json()["detail"] == (
        "There is no dataset /vault/hidden, or you may not read it."
    )
    assert ask(world, "reader", 'SELECT * FROM "/shop/raw"', "nowhere").status_code == 404
    assert ask(world, "reader", 'SELECT * FROM "/shop/raw"', "_job/1").status_code == 403
    RepositoryRole.objects.create(repository="vault", user=world.users["reader"], role="reader")
    query = run(world, "reader", 'SELECT r.id, h.secret FROM "/vault/hidden" h, raw r')
    assert CANARY in read_page(read(world, "reader", f"{query.pk}/rows"))
    assert read(world, "writer", f"{query.pk}/rows").status_code == 404
    RepositoryRole.objects.filter(repository="vault", user=world.users["reader"]).delete()
    assert read(world, "reader", f"{query.pk}/rows").status_code == 404
    page = Client()
    page.force_login(world.users["reader"])
    assert page.get(f"/r/shop/sql/{query.pk}").status_code == 404
    assert CANARY not in read_page(page.get("/r/shop/sql"))


def test_what_is_refused_or_takes_too_much_says_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Client()
    browser.force_login(world.users["reader"])
    for sql, code in (
        ("", "invalid_input"),
        ("SELEC 1", "bad_sql"),
        ("SELECT 1; SELECT 2", "bad_sql"),
        ("COPY (SELECT 1) TO '/tmp/x'", "bad_sql"),
        ("SELECT " + "(" * 40_000, "bad_sql"),
        ("SELECT '" + "x" * 1_000_000 + "'", "invalid_input"),
    ):
        answer = ask(world, "reader", sql)
        assert (answer.status_code, answer.json()["code"]) == (422, code), answer.content[:300]
        assert browser.post("/r/shop/sql", {"branch": "master", "sql": sql}).status_code == 422
    assert Query.objects.count() == 1
    refused = read_page(browser.post("/r/shop/sql", {"branch": "master", "sql": "SELECT <b> FROM"}))
    assert "SELECT &lt;b&gt; FROM" in refused
    monkeypatch.setattr(services, "TIME_LIMIT_S", 1.0)
    monkeypatch.setattr(services, "LIMITS", {**services.LIMITS, "total_memory_bytes": 700 * 2**20})
    for sql, code in (
        ("SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE hash(a, b) = 1", "time_limit"),
        ("SELECT repeat('x', 1000000000) || i FROM range(4) r(i)", "memory_limit"),
        ("SELECT CAST(name AS INTEGER) FROM raw", "refused"),
        ("SELECT * FROM read_csv('/etc/passwd')", "refused"),
    ):
        query = run(world, "reader", sql)
        assert (query.state, query.code) == (QueryState.FAILED, code), (sql, query.error)
        assert "root:" not in query.error
        assert read(world, "reader", f"{query.pk}/rows").status_code == 409


def test_queries_are_stopped_by_their_runners_bounded_in_number_and_removed_when_old(world: World) -> None:
    first, second = (ask(world, "reader", "SELECT 1").json()["id"] for _ in range(2))
    assert (answer := ask(world, "reader", "SELECT 1")).status_code == 429, answer.content
    browser = Client()
    browser.force_login(world.users["reader"])
    assert "Waiting for a worker" in read_page(browser.get(f"/r/shop/sql/{first}"))
    assert browser.post(f"/r/shop/sql/{first}/cancel").status_code == 302
    other = Client()
    other.force_login(world.users["writer"])
    other.post(f"/r/shop/sql/{second}/cancel")
    services.run_query(query_id=first)
    states = [Query.objects.get(pk=pk).state for pk in (first, second)]
    assert states == [QueryState.CANCELLED, QueryState.QUEUED]
    assert "a-reader stopped the query." in read_page(browser.get(f"/r/shop/sql/{first}"))
    query = run(world, "reader", "SELECT * FROM raw")
    assert services.prune_queries() == 0
    Query.objects.filter(pk=query.pk).update(created_at=query.created_at - services.KEPT * 2)
    assert services.prune_queries() == 1
    assert not queries.result_folder(query).exists()
