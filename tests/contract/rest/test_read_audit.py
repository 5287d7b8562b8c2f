"""Every way to rows leaves one entry in the audit log: whoever is shown a value of a table is noted as its reader.

A canary is among the rows. Whatever shows it, of all operations of the REST API and of all pages, has noted the read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.test import Client

from tests.factories import datasets, repositories
from tests.factories.api_document import PREFIX
from tests.factories.catalog import Catalog, table_path
from tests.factories.crawl import Answer, ask
from tests.factories.everything import DATASET, PULL, REPOSITORY, World, list_operations, list_pages, make_world
from webapp.accounts.queries import principal_for_user
from webapp.accounts.rules.audit import READS
from webapp.accounts.services import readings
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.services import run_comparison
from webapp.datasets.models import Transaction
from webapp.datasets.services import abort_by_hand
from webapp.pulls.models import PullRequest
from webapp.pulls.services import refresh_pull
from webapp.repositories.models import Repository
from webapp.sql import services as sql
from webapp.sql.models import Query

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
CANARY = "salary-of-mira-4711"
PIPELINE = '[pipeline]\nfolders = ["/shop"]\n[datasets."/shop/raw"]\nkey = ["id"]\n'
COMPARED = "from=master&to=fix&keys=id"
QUERY = f"{REPOSITORY}/queries/{{query_id}}"
ROWS = f"{PULL}/datasets/{{dataset_id}}"
REST = {
    f"{DATASET}/preview": ("read_preview", ""),
    f"{DATASET}/compare": ("read_rows", COMPARED),
    f"{DATASET}/compare/rows.csv": ("export_rows", COMPARED),
    f"{DATASET}/compare/rows.parquet": ("export_rows", COMPARED),
    f"{DATASET}/compare/statistics": ("read_statistics", f"{COMPARED}&scope=changed"),
    f"{DATASET}/changelog": ("read_changelog", "keys=id"),
    f"{DATASET}/blame": ("read_history", "key.id=2"),
    f"{DATASET}/trend": ("read_statistics", "branch=fix&column=name"),
    f"{ROWS}/rows": ("read_rows", ""),
    f"{ROWS}/rows.csv": ("export_rows", ""),
    f"{ROWS}/rows.parquet": ("export_rows", ""),
    f"{ROWS}/statistics": ("read_statistics", "scope=changed"),
    f"{ROWS}/spread": ("read_statistics", "by=name"),
    f"{QUERY}/rows": ("read_rows", ""),
    f"{QUERY}/difference": ("read_rows", ""),
}
"""Operations that show rows: the verb, and what they are asked."""
PULL_PAGE = "/r/{repo}/pulls/{number}"
PAGES = {
    "/d/shop/raw?tab=preview": "read_preview",
    f"/datasets/{{dataset_id}}/compare?{COMPARED}": "read_rows",
    f"/datasets/{{dataset_id}}/compare?{COMPARED}&show=statistics": "read_rows",
    "/datasets/{dataset_id}/blame?key.id=2": "read_history",
    "/datasets/{dataset_id}/trend?branch=fix&column=name": "read_statistics",
    f"{PULL_PAGE}/data?dataset=/shop/raw": "read_rows",
    f"{PULL_PAGE}/data?dataset=/shop/raw&show=statistics": "read_rows",
    f"{PULL_PAGE}/data?dataset=/shop/raw&show=time&column=name": "read_rows",
    "/r/{repo}/sql/{query_id}": "read_rows",
}
ACTS = {
    f"{DATASET}/compare": ("read_rows", COMPARED),
    f"{DATASET}/compare/cancel": ("read_rows", COMPARED),
    f"{DATASET}/blame": ("read_history", "key.id=2"),
}
"""Acts that answer with the rows that there are already."""


@pytest.fixture
def world(readers: Path) -> World:
    """One of everything, with a canary in each row of a table that both master and a branch have changed."""
    world = make_world()
    shop, admin = Repository.objects.get(name="shop"), principal_for_user(world.users["admin"])
    abort_by_hand(transaction=Transaction.objects.get(pk=world.values["transaction"]), by=admin)
    for branch in ("master", "fix"):
        repositories.a_commit(shop, {"pipeline.toml": PIPELINE}, branch=branch)
    for branch, names in (("", ["a", CANARY]), ("fix", [CANARY, f"{CANARY}-of-fix"])):
        table = datasets.a_pyiceberg(world.users["admin"], branch).load_table("shop.raw")
        rows = {"id": [1, 2], "name": names, "amount": [1.5, 4.0], "tags": [["x"], []]}
        table.overwrite(pa.table(rows, schema=table.schema().as_arrow()))
    refresh_pull(pull=PullRequest.objects.get(number=world.values["number"]))
    query = sql.start_query(repository=shop, branch="master", base="fix", sql="SELECT id, name FROM raw", by=admin)
    sql.run_query(query_id=query.pk)
    assert Query.objects.get(pk=query.pk).error == ""
    world.values["query_id"] = query.pk
    for address in (f"compare?{COMPARED}", "changelog?keys=id", "blame?key.id=2"):
        Client().get(f"{world.address(DATASET)}/{address}", headers=world.bearer("admin", ""))
    for comparison in Comparison.objects.exclude(state=ComparisonState.READY):
        run_comparison(comparison_id=comparison.pk)
    return world


def list_reads(act: Callable[[], Any]) -> tuple[Any, list[tuple[str, str, str, int]]]:
    """Do something, and list what it noted: who read what of which table, and how often."""
    with readings._lock:
        readings._pending.clear()
    answer = act()
    with readings._lock:
        noted = dict(readings._pending)
    return answer, [
        (reading.actor, reading.verb, reading.object, count)
        for reading, count in noted.items()
        if reading.outcome == "allowed"
    ]


def find_wrong(answer: Answer, reads: list[tuple[str, str, str, int]], verb: str) -> list[Any]:
    """What an answer and its entries should be, and are not."""
    objects = {name for actor, told, name, _ in reads if (actor, told) == ("a-admin", verb)}
    is_right = answer.status in (200, 202) and CANARY in answer.text and objects == {"/shop/raw"}
    return [] if is_right and {told for _, told, _, _ in reads} == {verb} else [(answer.address, answer.status, reads)]


def test_every_read_of_rows_is_noted(world: World) -> None:
    seen: set[str] = set()
    wrong: list[Any] = []
    program, browser = Client(), Client()
    browser.force_login(world.users["admin"])
    header = world.bearer("admin", "")
    for path, (verb, query) in REST.items():
        answer, reads = list_reads(lambda: ask(program, f"{world.address(path)}?{query}", **header))
        wrong += find_wrong(answer, reads, verb)
        seen.add(verb)
    for path, verb in PAGES.items():
        answer, reads = list_reads(lambda: ask(browser, world.address(path), **{"HX-Request": "true"}))
        wrong += find_wrong(answer, reads, verb)
    catalog = Catalog(world.secrets["admin", ""])
    table = table_path("shop.raw")
    for method, path, body, verb in (
        ("GET", table, None, "load_table"),
        ("GET", f"{table}/credentials", None, "load_credentials"),
        ("POST", f"{table}/plan", {}, "plan_scan"),
    ):
        loaded, reads = list_reads(lambda: catalog.call(method, path, body))
        if (loaded.status, reads) != (200, [("a-admin", verb, "/shop/raw", 1)]):
            wrong.append((path, loaded.status, reads))
        seen.add(verb)
    assert wrong == []
    assert seen == set(READS)


def test_an_act_that_answers_with_rows_is_a_read_of_them(world: World) -> None:
    wrong = []
    for path, (verb, query) in ACTS.items():
        address = f"{world.address(path)}?{query}"
        answer, reads = list_reads(lambda: Client().post(address, headers=world.bearer("admin", "")))
        is_shown = CANARY in answer.content.decode()
        if not is_shown or [read[:3] for read in reads] != [("a-admin", verb, "/shop/raw")]:
            wrong.append((path, answer.status_code, reads))
    assert wrong == []


def test_nothing_else_shows_a_row_without_noting_it(world: World) -> None:
    browser = Client(raise_request_exception=False)
    browser.force_login(world.users["admin"])
    header = world.bearer("admin", "")
    addresses = [(f"{world.address(path)}", header) for method, path in list_operations() if method == "GET"]
    addresses += [(world.address(path), {}) for path in list_pages()]
    addresses += [(f"/d/shop/raw?tab={tab}", {}) for tab in ("history", "schema", "table", "branches", "compare")]
    assert len(addresses) > 150
    unnoted = []
    for address, headers in addresses:
        answer, reads = list_reads(lambda: ask(browser, address, **headers))
        if CANARY in answer.text and not reads and not address.startswith(f"{PREFIX}/audit"):
            unnoted.append(address)
    assert unnoted == []
