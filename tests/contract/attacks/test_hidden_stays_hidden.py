"""Columns that were hidden once: what does not open them, and what does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import normalize

import pyarrow as pa
import pytest
from django.test import Client
from pyiceberg.exceptions import ForbiddenError

from jobs.protocol import fold_column
from tests.factories import catalog, datasets, repositories
from tests.factories.build_rows import World, a_world
from webapp.accounts import services as accounts
from webapp.accounts.models import Folder, User
from webapp.accounts.permissions import list_sensitive, role_on_folder
from webapp.comparisons.diffs.schema import diff_schemas
from webapp.comparisons.rules.dataset_rules import ComparisonRules
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.permissions import see_rows
from webapp.repositories import services as repository_services

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.core.principals import Principal

pytestmark = [pytest.mark.contract, pytest.mark.django_db]
OWNER = '[pipeline]\nfolders = ["/alpha"]\n'
TABLE = '[datasets."/alpha/people"]\nkey = ["id"]\n'
HIDDEN = 'sensitive = ["name"]\nsensitive_readers = ["stewards"]\n'


@pytest.fixture
def alpha(home: Path) -> World:
    """A repository whose dataset has rows with a hidden column."""
    world = a_world("alpha", raw=[])
    table = pa.table({"id": [1, 2], "name": ["a", "b"]})
    client = datasets.a_pyiceberg(world.user)
    client.create_namespace_if_not_exists("alpha")
    client.create_table("alpha.people", table.schema).append(table)
    state(world, TABLE, HIDDEN)
    return world


@pytest.fixture
def reader(alpha: World) -> Principal:
    return repositories.a_member(alpha.repository, "reader", "rita")


def state(world: World, *lines: str, branch: str = "master") -> None:
    """Commit what the owner says of its dataset."""
    repositories.a_commit(world.repository, {"pipeline.toml": "".join([OWNER, *lines])}, branch=branch)


def people() -> Dataset:
    return Dataset.objects.get(path="/alpha/people")


def is_hidden(reader: Principal, *ends: Any) -> bool:
    return see_rows(reader, people(), *ends).hides("name")


def test_default_of_a_hidden_column_is_not_shown(alpha: World, reader: Principal, settings: Any) -> None:
    """Older rows have the default as their value."""
    client = datasets.a_client(alpha.user)
    canary = {"initial-default": "mira-4711", "write-default": "mira-4711"}
    fields = [catalog.field(1, "id"), {**catalog.field(2, "name", "string"), **canary}]
    client.create_table("alpha.staff", *fields, properties={"format-version": "3"})
    client.append("alpha.staff")
    state(alpha, '[datasets."/alpha/staff"]\nsensitive = ["name"]\n')
    dataset = Dataset.objects.get(path="/alpha/staff")
    first = Transaction.objects.get(dataset=dataset, state="COMMITTED")
    browser = Client()
    api = f"/api/v1/datasets/{dataset.pk}"
    addresses = [
        f"{api}/schema",
        f"{api}/compare?before=&after={first.pk}",
        "/d/alpha/staff?tab=schema",
        "/d/alpha/staff",
    ]
    for who, is_shown in ((reader, False), (alpha.maker, True)):
        browser.force_login(User.objects.get(pk=who.user_id))
        answers = [browser.get(address).content.decode() for address in addresses]
        assert ("mira-4711" in answers[0]) == is_shown, answers[0]
        assert not any("mira-4711" in answer for answer in answers[1:])
    diff = diff_schemas({"fields": []}, {"fields": fields})
    assert "mira-4711" not in " ".join(column.sentence for column in diff.columns)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[broken",
        OWNER,
        "[datasets]\n",
        '[datasets."/alpha/people"]\nsensitive = "name"\n',
        "x = 1\n" * 40_000,
    ],
)
def test_no_file_and_no_broken_one_opens_anything(alpha: World, reader: Principal, text: str | None) -> None:
    assert is_hidden(reader)
    repositories.a_commit(alpha.repository, {"pipeline.toml": text})
    assert is_hidden(reader, "master")
    assert is_hidden(reader)


def test_a_maintainer_opens_it_by_a_statement(alpha: World, reader: Principal) -> None:
    state(alpha, TABLE, "sensitive = []\n")
    assert not is_hidden(reader, "master")
    state(alpha)
    assert not is_hidden(reader, "master"), "what was opened stays open"


def test_a_column_that_master_dropped_stays_hidden_in_old_transactions(alpha: World, reader: Principal) -> None:
    old = Transaction.objects.get(dataset=people(), state="COMMITTED")
    with datasets.a_pyiceberg(alpha.user).load_table("alpha.people").update_schema() as update:
        update.delete_column("name")
    for lines in ((TABLE,), (TABLE, "sensitive = []\n"), (TABLE, 'sensitive = ["id"]\n'), ()):
        state(alpha, *lines)
        assert is_hidden(reader, old)
        assert is_hidden(reader, "master")
        with pytest.raises(ForbiddenError, match="name"):
            datasets.a_pyiceberg(User.objects.get(pk=reader.user_id)).load_table("alpha.people")
    assert not is_hidden(alpha.maker, old)


def test_a_column_that_was_renamed_before_it_was_dropped_stays_hidden(alpha: World, reader: Principal) -> None:
    old = Transaction.objects.get(dataset=people(), state="COMMITTED")
    with datasets.a_pyiceberg(alpha.user).load_table("alpha.people").update_schema() as update:
        update.rename_column("name", "nickname")
    state(alpha, TABLE, 'sensitive = ["nickname"]\n')
    with datasets.a_pyiceberg(alpha.user).load_table("alpha.people").update_schema() as update:
        update.delete_column("nickname")
    state(alpha, TABLE)
    assert is_hidden(reader, old)


def test_a_dataset_that_is_renamed_stays_hidden(alpha: World, reader: Principal) -> None:
    datasets.a_pyiceberg(alpha.user).rename_table("alpha.people", "alpha.persons")
    assert "name" in list_sensitive(reader, "/alpha/persons")
    state(alpha, '[datasets."/alpha/persons"]\nkey = ["id"]\n')
    assert list_sensitive(reader, "/alpha/persons") == frozenset()


def test_data_that_outlives_its_branch_stays_hidden(alpha: World, reader: Principal) -> None:
    state(alpha, TABLE, "sensitive = []\n")
    repositories.a_branch(alpha.repository, "side", by=alpha.maker)
    state(alpha, TABLE, HIDDEN, branch="side")
    table = datasets.a_pyiceberg(alpha.user, "side").load_table("alpha.people")
    table.append(pa.table({"id": [3], "name": ["c"]}))
    repository_services.delete_branch(repository=alpha.repository, name="side", data="keep", by=alpha.maker)
    assert is_hidden(reader, "side")
    assert not is_hidden(reader, "master")


def test_a_key_replays_nothing_to_somebody_who_lost_a_right(alpha: World, reader: Principal) -> None:
    user = User.objects.get(pk=reader.user_id)
    accounts.grant_role(repository="alpha", user=user, role="writer", by=None)
    token = accounts.create_token(user=user, name="t")[1]
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k1"}

    def ask() -> Any:
        body = {"name": "rows-of-people"}
        address = "/api/v1/repositories/alpha/branches"
        return Client().post(address, body, content_type="application/json", headers=headers)

    first, second = ask(), ask()
    assert first.status_code == 201, first.content
    assert (second.status_code, second.headers["Idempotent-Replay"]) == (201, "true")
    state(alpha, TABLE, 'sensitive = ["name", "id"]\n')
    check_not_replayed(ask())
    accounts.grant_role(repository="alpha", user=user, role=None, by=None)
    check_not_replayed(ask())


def check_not_replayed(answer: Any) -> None:
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_rights")
    assert b"people" not in answer.content


def test_a_key_is_replayed_to_who_made_a_repository_by_it(alpha: World, reader: Principal) -> None:
    """A request may give its user rights."""
    token = accounts.create_token(user=User.objects.get(pk=reader.user_id), name="t")[1]
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k1"}
    answers = [
        Client().post("/api/v1/repositories", {"name": "own"}, content_type="application/json", headers=headers)
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 201]


def test_deleting_the_repository_gives_hidden_columns_to_nobody(alpha: World) -> None:
    writer = repositories.a_member(alpha.repository, "writer", "wim")
    Folder.objects.filter(name="alpha").update(creator=writer.user_id)
    repository_services.delete_repository(repository=alpha.repository, by=alpha.maker)
    assert role_on_folder(writer, "alpha") is None


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_column_is_hidden_in_whichever_form_of_unicode_its_name_is_written(
    alpha: World, reader: Principal, form: Literal["NFC", "NFD"]
) -> None:
    client = datasets.a_pyiceberg(alpha.user)
    rows = pa.table({"id": [1], normalize("NFC", "größe"): ["a"], normalize("NFD", "länge"): ["b"]})
    client.create_table("alpha.sizes", rows.schema).append(rows)
    columns = [normalize(form, name) for name in ("Größe", "Länge")]
    state(alpha, f'[datasets."/alpha/sizes"]\nsensitive = {json.dumps(columns, ensure_ascii=False)}\n')
    sight = see_rows(reader, Dataset.objects.get(path="/alpha/sizes"))
    assert sight.pick_hidden(rows.column_names) == rows.column_names[1:]
    for name in (*rows.column_names[1:], *columns):
        assert fold_column(name) in sight.hidden  # so the processes that read rows find them
        assert ComparisonRules(key=(name,)).list_named(sight.hidden)
        assert ComparisonRules(row_filter=f"{name} > 1").list_named(sight.hidden)


@pytest.mark.parametrize("is_first", [True, False])
def test_another_spelling_of_the_path_opens_nothing(alpha: World, reader: Principal, *, is_first: bool) -> None:
    lines = [f"{TABLE}{HIDDEN}", '[datasets."/Alpha/People"]\nkey = ["id"]\n']
    state(alpha, *(lines if is_first else reversed(lines)))
    assert is_hidden(reader)
