"""A column that its repository calls sensitive, on every way that there is to its rows: pages, REST, SQL, the catalog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import Group
from django.core.mail import EmailMultiAlternatives
from django.test import Client
from pyiceberg.exceptions import ForbiddenError

from tests.factories import datasets, repositories
from tests.factories.crawl import ask, ask_everything, crawl
from tests.factories.everything import World, make_world
from webapp.accounts import services as accounts
from webapp.accounts.models import SensitiveColumns, User
from webapp.accounts.queries import principal_for_user
from webapp.accounts.rules.sight import EVERYTHING, RowSight
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.services import run_comparison
from webapp.core.errors import InvalidInput
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.permissions import see_rows
from webapp.datasets.services import abort_by_hand
from webapp.dispatch import processes
from webapp.dispatch.processes import Handle, Sandbox
from webapp.notices.models import Mail
from webapp.notices.services.mailing import send_mail
from webapp.previews import services as previews
from webapp.previews.models import CodePreview
from webapp.pulls.models import Comment, PullRequest
from webapp.pulls.services import add_comment, refresh_pull
from webapp.repositories.models import Repository
from webapp.repositories.services import FileDraft
from webapp.sql import queries
from webapp.sql import services as sql
from webapp.sql.models import Query

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
CANARY = "salary-of-mira-4711"
PIPELINE = '[pipeline]\nfolders = ["/shop"]\n[datasets."/shop/raw"]\nkey = ["id"]\n'
RULE = 'sensitive = ["Name"]\n'
COPY = """\
from transforms.api import transform
from transforms.tables import TableInput, TableOutput


@transform.using(raw=TableInput("/shop/raw"), out=TableOutput("/shop/copied"))
def copy(raw, out):
    rows = raw.arrow(columns=["id", "name"])
    print(rows.to_pylist())
    out.write_table(rows)
"""
COMPARED = "from=master&to=fix&keys=id"
ORACLES = {
    "preview?sort=-name": 422,
    f"compare?{COMPARED}&sort=name": 400,
    f"compare?{COMPARED}&q=name~salary": 400,
    "compare?from=master&to=fix&keys=name": 422,
    "changelog?keys=name": 422,
    "blame?key.name=a": 422,
}
"""Questions whose answers would say what a hidden value is like, and how they are refused."""


@pytest.fixture
def world(readers: Path) -> World:
    """One of everything; master calls the column name sensitive, and a branch that forgets it has other names in it."""
    world = make_world()
    shop = Repository.objects.get(name="shop")
    maintainer = principal_for_user(world.users["maintainer"])
    abort_by_hand(transaction=Transaction.objects.get(pk=world.values["transaction"]), by=maintainer)
    repositories.a_commit(shop, {"pipeline.toml": PIPELINE + RULE})
    repositories.a_commit(shop, {"pipeline.toml": PIPELINE}, branch="fix")
    for branch, names in (("", ["a", CANARY]), ("fix", [CANARY, f"{CANARY}-of-fix"])):
        table = datasets.a_pyiceberg(world.users["admin"], branch).load_table("shop.raw")
        rows = {"id": [1, 2], "name": names, "amount": [1.5, 4.0], "tags": [["x"], []]}
        table.overwrite(pa.table(rows, schema=table.schema().as_arrow()))
    pull = PullRequest.objects.get(number=world.values["number"])
    refresh_pull(pull=pull)
    add_comment(pull=pull, body="Hm", by=maintainer, anchor={"dataset": "/shop/raw", "key": {"name": CANARY}})
    world.values["query_id"] = run_sql(world, "maintainer", "SELECT id, name FROM raw ORDER BY id").pk
    world.values["preview_id"] = run_preview(world, "maintainer").pk
    ask_and_run(world)
    return world


def ask_and_run(world: World) -> None:
    """Ask for a comparison, a changelog and the history of a row, and work them out."""
    dataset = f"/api/v1/datasets/{world.values['dataset_id']}"
    for address in (f"compare?{COMPARED}", "changelog", "changelog?keys=id", "blame?key.id=2", "blame?key.name=a"):
        Client().get(f"{dataset}/{address}", headers=world.bearer("maintainer", ""))
    for comparison in Comparison.objects.exclude(state=ComparisonState.READY):
        run_comparison(comparison_id=comparison.pk)


def run_sql(world: World, role: str, text: str) -> Query:
    """Run SQL as somebody, in the sandbox."""
    query = sql.start_query(
        repository=Repository.objects.get(name="shop"),
        branch="master",
        sql=text,
        by=principal_for_user(world.users[role]),
    )
    sql.run_query(query_id=query.pk)
    query.refresh_from_db()
    return query


def run_preview(world: World, role: str) -> CodePreview:
    """Run code that is not committed as somebody, in the sandbox."""
    preview = previews.start_preview(
        repository=Repository.objects.get(name="shop"),
        branch="fix",
        file="pipelines/copy.py",
        drafts=[FileDraft("", "pipelines/__init__.py", ""), FileDraft("", "pipelines/copy.py", COPY)],
        by=principal_for_user(world.users[role]),
    )
    previews.run_preview(preview_id=preview.pk)
    preview.refresh_from_db()
    return preview


def get(world: World, role: str, address: str) -> Any:
    """Ask the REST API about the dataset, as somebody."""
    return ask(Client(), f"/api/v1/datasets/{world.values['dataset_id']}/{address}", **world.bearer(role, ""))


def list_addresses(world: World) -> list[str]:
    """Pages of rows that no link of another leads to in this state."""
    dataset, pull = world.values["dataset_id"], f"/r/shop/pulls/{world.values['number']}"
    return [
        "/d/shop/raw",
        "/d/shop/raw?branch=fix",
        "/d/shop/raw?q=salary",
        "/d/shop/raw?sort=name",
        f"/datasets/{dataset}/blame?key.id=2",
        f"/datasets/{dataset}/blame?key.name={CANARY[:3]}",
        f"{pull}/data?dataset=/shop/raw",
        f"{pull}/data?dataset=/shop/raw&show=statistics",
        f"{pull}/data?dataset=/shop/raw&show=time&column=name",
        pull,
        f"/r/shop/sql/{world.values['query_id']}",
        f"/r/shop/previews/{world.values['preview_id']}",
    ]


def browser_of(world: World, role: str) -> Client:
    """Return a signed-in browser of somebody."""
    client = Client(raise_request_exception=False)
    client.force_login(world.users[role])
    return client


def list_answers(world: World, role: str) -> list[Any]:
    """Ask for every page and everything that the REST API has to read, as somebody."""
    client = browser_of(world, role)
    pages = list_addresses(world)
    answers = [*crawl(client, world, more=pages)] if role == "reader" else [ask(client, page) for page in pages]
    htmx = {"HX-Request": "true"}
    fragment = f"/datasets/{world.values['dataset_id']}/compare?{COMPARED}"
    trend = f"/datasets/{world.values['dataset_id']}/trend?branch=fix&column=name"
    answers += [ask(client, address, **htmx) for address in (fragment, f"{fragment}&show=statistics", trend)]
    queries = ("", f"?branch=fix&{COMPARED}&scope=table&key.id=2", "?q=salary")
    return [*answers, *ask_everything(world, role, queries=queries if role == "reader" else queries[:1])]


def test_no_way_leads_a_reader_to_a_sensitive_value_and_counts_are_seen(world: World) -> None:
    check_counts(world)
    answers = list_answers(world, "reader")
    assert len(answers) > 150
    assert sum("/lineage" in answer.address for answer in answers) > 1
    assert [answer.address for answer in answers if CANARY in answer.text] == []
    assert {answer.address for answer in answers if answer.status >= 500} <= {"/readyz"}
    whole = "\n".join(answer.text for answer in answers)
    assert "hidden from you" in whole
    assert '"masked":["name"]' in whole
    shown = list_answers(world, "maintainer")
    assert sum(CANARY in answer.text for answer in shown) > 12  # or nothing of it would be there to be found


def check_counts(world: World) -> None:
    """Counts are seen, and nothing says what a value is like."""
    told = json.loads(get(world, "reader", f"compare?{COMPARED}").content)
    assert (told["state"], told["masked"]) == ("ready", ["name"])
    assert told["summary"]["updated"] == 2
    assert [row["changed"] for row in told["rows"]] == [["name"], ["name"]]
    assert [row["after"]["name"] for row in told["rows"]] == [None, None]
    assert [row["after"]["id"] for row in told["rows"]] == [1, 2]
    statistics = json.loads(get(world, "reader", f"compare/statistics?{COMPARED}").content)
    [measure] = [column for column in statistics["columns"] if column["name"] == "name"]
    assert (measure["changed"], measure["after"]["distinct"], measure["after"]["max"]) == (2, 2, None)
    answer = get(world, "reader", "trend?branch=fix&column=name")
    trend = json.loads(answer.content)
    assert CANARY not in answer.text
    [*_, newest] = [step["measured"] for step in trend["steps"]]
    assert (trend["masked"], newest["distinct"], newest["max"], newest["mean"]) == (["name"], 2, None, None)
    head, *_ = get(world, "reader", f"compare/rows.csv?{COMPARED}").text.rpartition("change,copies")[2].splitlines()
    assert "after.amount" in head
    assert "name" not in head
    for address, status in ORACLES.items():
        answer = get(world, "reader", address)
        assert (answer.status, "hidden from you" in answer.text) == (status, True), answer.content
        assert get(world, "maintainer", address).status == 200


def check_sql(world: World) -> None:
    query = run_sql(world, "reader", "SELECT name, upper(name) || 'x', min(name) OVER (), id FROM raw ORDER BY id")
    assert query.error == ""
    page = Client().get(f"/api/v1/repositories/shop/queries/{query.pk}/rows", headers=world.bearer("reader", ""))
    assert page.json()["rows"] == [[None, None, None, 1], [None, None, None, 2]]
    assert query.tables[0]["masked"] == ["name"]
    [found, *_] = Path(datasets.a_pyiceberg(world.users["admin"]).load_table("shop.raw").location().removeprefix("file://")).rglob("*.parquet")  # fmt: skip
    for text in (
        f"SELECT name FROM raw, read_parquet('{found}') file WHERE file.name IS NOT NULL",
        f"SELECT * FROM raw, parquet_metadata('{found}')",
        f"SELECT json_serialize_plan('SELECT min(name) FROM read_parquet(''{found}'')') FROM raw",
        "SELECT sql FROM raw, duckdb_views()",
    ):
        refused = run_sql(world, "reader", text)
        assert "is not called here" in refused.error, refused.error
    check_names_of_files(world, str(found))
    others = f"/api/v1/repositories/shop/queries/{world.values['query_id']}"
    assert Client().get(f"{others}/rows", headers=world.bearer("reader", "")).status_code == 404
    assert CANARY in Client().get(f"{others}/rows", headers=world.bearer("maintainer", "")).content.decode()


def check_names_of_files(world: World, file: str) -> None:
    """A name that a WITH defines somewhere in the text does not open the file of that name."""
    for text in (
        f'WITH "{file}" AS (SELECT * FROM "{file}") SELECT * FROM "{file}"',
        f'WITH x AS (WITH y AS (SELECT * FROM "{file}") SELECT * FROM y) SELECT x.name::INTEGER FROM x',
        f'SELECT * FROM raw, (WITH "file:{file}" AS (SELECT 1) SELECT 1), "file:{file}"',
        f"PIVOT '{file}' ON id IN (1, 2) USING max(name)",
        f"SELECT * FROM raw, LATERAL (SELECT * FROM '{file}') f",
        "WITH t AS (SELECT * FROM sqlite_master) SELECT * FROM t, raw",
        'SELECT * FROM raw, "rows of table 0"',
    ):
        with pytest.raises(InvalidInput) as refused:
            run_sql(world, "reader", text)
        assert CANARY not in refused.value.detail
    query = run_sql(world, "reader", "WITH raw AS (SELECT id, name FROM raw) SELECT count(name), count(*) FROM raw")
    assert query.error == ""
    page = Client().get(f"/api/v1/repositories/shop/queries/{query.pk}/rows", headers=world.bearer("reader", ""))
    assert page.json()["rows"] == [[0, 2]]
    folder = queries.result_folder(query)
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert files
    assert not any(CANARY.encode() in content for content in files)
    assert not queries.reader_folder(query).exists()


def check_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that runs a text sees no table and reaches no network."""
    launched: dict[str, Sandbox] = {}

    def launch(entrypoint: str, manifest: Path, *, sandbox: Sandbox, **more: Any) -> Handle:
        launched[entrypoint] = sandbox
        if entrypoint == "query":
            told = manifest.read_text()
            assert "warehouse" not in told
        return processes.launch(entrypoint, manifest, sandbox=sandbox, **more)

    monkeypatch.setattr(sql, "launch", launch)
    monkeypatch.setattr(sql, "find_hosts", lambda _: ("127.0.0.1:9",))
    query = run_sql(world, "reader", "SELECT id, name FROM raw")
    assert (query.error, set(launched)) == ("", {"query", "tables"})
    assert launched["query"] == Sandbox(writable=[str(queries.result_folder(query))])
    assert launched["tables"].hosts == ("127.0.0.1:9",)
    assert any("warehouse" in folder for folder in launched["tables"].readonly)


def check_previews(world: World) -> None:
    """A writer who may not see a column runs code over NULL, and sees none of it in what others have run."""
    preview = run_preview(world, "writer")
    assert (preview.error, preview.tables[0]["masked"]) == ("", ["name"])
    answers = [
        Client().get(f"/api/v1/repositories/shop/previews/{preview.pk}{part}", headers=world.bearer("writer", ""))
        for part in ("", "/rows", "/log")
    ]
    assert answers[1].json()["rows"] == [[1, None], [2, None]]
    assert CANARY not in "".join(answer.content.decode() for answer in answers)
    owned = f"/api/v1/repositories/shop/previews/{world.values['preview_id']}/rows"
    assert Client().get(owned, headers=world.bearer("writer", "")).status_code == 404
    assert CANARY in Client().get(owned, headers=world.bearer("maintainer", "")).content.decode()


def test_sql_and_catalog_lead_to_no_hidden_value_and_the_default_branch_says_who_sees_it(
    world: World, mailoutbox: list[EmailMultiAlternatives], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    check_mails(world, mailoutbox)
    check_sql(world)
    with monkeypatch.context() as patch:
        check_process(world, patch)
    check_previews(world)
    check_catalog(world)
    check_who_sees(world)


def check_mails(world: World, mailoutbox: list[EmailMultiAlternatives]) -> None:
    """A comment on a row whose key is hidden is told by mail without the key."""
    reader = world.users["reader"]
    User.objects.filter(pk=reader.pk).update(email="reader@example.org")
    add_comment(
        pull=PullRequest.objects.get(number=world.values["number"]),
        body=f"Look, @{reader.username}",
        by=principal_for_user(world.users["maintainer"]),
        anchor={"dataset": "/shop/raw", "key": {"name": CANARY}},
    )
    assert CANARY in json.dumps(Comment.objects.latest("pk").anchor)
    for mail in Mail.objects.filter(notification__user=reader):
        send_mail(mail_id=mail.pk)
    [*_, mail] = mailoutbox
    assert f"Look, @{reader.username}" in mail.body
    assert CANARY not in "".join([mail.subject, mail.body, *(str(part.content) for part in mail.alternatives)])


def check_catalog(world: World) -> None:
    for branch in ("", "fix"):
        client = datasets.a_pyiceberg(world.users["reader"], branch)
        for name in ("shop.raw", *(["shop.raw.branch_main"] if branch else [])):
            with pytest.raises(ForbiddenError, match="hidden from you"):
                client.load_table(name)
        assert client.table_exists("shop.raw")
    assert datasets.a_pyiceberg(world.users["maintainer"]).load_table("shop.raw").scan().to_arrow().num_rows == 2
    check_lines_for_clients(world)


def check_lines_for_clients(world: World) -> None:
    """The page of a dataset offers no lines for clients that the catalog would refuse, and says why."""
    for role, is_refused in (("reader", True), ("maintainer", False)):
        page = ask(browser_of(world, role), "/d/shop/raw").text
        assert ("Name is hidden from you, and files hide nothing" in " ".join(page.split())) == is_refused
        assert ("load_catalog" in page) != is_refused


def check_who_sees(world: World) -> None:
    """The default branch alone says who sees a column."""
    shop, dataset = Repository.objects.get(name="shop"), Dataset.objects.get(path="/shop/raw")
    reader = principal_for_user(world.users["reader"])
    group = Group.objects.create(name="stewards")
    group.user_set.add(world.users["reader"])
    readers = 'sensitive_readers = ["stewards"]\n'
    repositories.a_commit(shop, {"pipeline.toml": PIPELINE + RULE + readers}, branch="fix")
    assert see_rows(reader, dataset, "fix").hides("NAME")
    repositories.a_commit(shop, {"pipeline.toml": PIPELINE + RULE + readers})
    assert see_rows(reader, dataset, "fix") == EVERYTHING
    group.user_set.clear()
    assert see_rows(reader, dataset, "fix").hides("name")
    repositories.a_commit(shop, {"pipeline.toml": "[broken"})
    assert see_rows(reader, dataset).hides("name"), "a file that cannot be read takes nothing back"
    repositories.a_commit(shop, {"pipeline.toml": PIPELINE})
    assert see_rows(reader, dataset, "master") == EVERYTHING
    assert see_rows(reader, dataset, "fix").hides("name"), "a branch hides what is its own"
    table = datasets.a_pyiceberg(world.users["admin"], "fix").load_table("shop.raw")
    with table.update_schema() as update:
        update.rename_column("name", "nickname")
    assert see_rows(reader, dataset, "fix") == RowSight(frozenset({"name", "nickname"})), (
        "it is the same under any name"
    )
    assert CANARY not in get(world, "reader", "preview?branch=fix").text
    accounts.forget_repository(repository="shop")
    assert not SensitiveColumns.objects.exists()
