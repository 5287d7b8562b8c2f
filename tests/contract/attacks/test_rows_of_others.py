"""Rows that somebody may not see, on every way that there is to them from a repository that reads them.

Branches of different repositories share their names: what is loaded into a folder of others on a branch is compared in
the pull request of a branch of that name, if its code reads it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from django.test import Client

from tests.factories import build_rows, datasets, repositories
from tests.factories.crawl import ask, ask_everything, crawl
from tests.factories.everything import World, make_world
from webapp.accounts.models import RepositoryRole
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.services import run_comparison
from webapp.datasets.models import Dataset
from webapp.pulls.models import PullDataset, PullRequest
from webapp.pulls.services import refresh_pull
from webapp.repositories.models import Repository

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
CANARY = "salary-of-mira-4711"
COLUMN = "hidden_column_4711"


@pytest.fixture
def world(readers: Path) -> World:
    return make_world()


@pytest.fixture
def hidden(world: World) -> Dataset:
    """A dataset of another repository, changed on a branch of the name that the pull request has, which reads it."""
    vault = build_rows.a_world("vault", raw=())
    repositories.a_commit(vault.repository, {"pipeline.toml": f'[datasets."/vault/hidden"]\nkey = ["{COLUMN}"]\n'})
    dataset = datasets.a_dataset("/vault/hidden", by=vault.user)
    for branch in ("", "fix"):
        table = datasets.a_pyiceberg(vault.user, branch).load_table("vault.hidden")
        rows = pa.table({"id": [1, 2], COLUMN: [CANARY, f"{CANARY}-{branch}"]})
        with table.update_schema() as update:
            update.union_by_name(rows.schema)
        table.append(rows)
    shop = build_rows.World(Repository.objects.get(name="shop"), vault.maker)
    spec = build_rows.a_jobspec("clean", inputs=["/shop/raw", "/vault/hidden"], outputs=["/shop/clean"])
    spec = replace(spec, inputs=tuple(replace(source, columns=(COLUMN,)) for source in spec.inputs))
    repositories.a_commit(shop.repository, {"reads.txt": "/vault/hidden\n"}, branch="fix")
    shop.publish(spec, branch="fix")
    refresh_pull(pull=PullRequest.objects.get(number=world.values["number"]))
    for comparison in Comparison.objects.filter(dataset=dataset):
        run_comparison(comparison_id=comparison.pk)
    return dataset


def test_no_way_leads_from_a_pull_request_to_rows_of_others(world: World, hidden: Dataset) -> None:
    row = PullDataset.objects.get(path="/vault/hidden")
    assert row.comparison is not None
    assert row.comparison.state == ComparisonState.READY, row.comparison.error
    assert row.comparison.rules["key"] == [COLUMN]  # as its own repository says, and named to nobody else
    queries = ("", "?branch=fix&from=master&to=fix&scope=table")
    counts = {}
    for role in ("reader", "maintainer", "admin"):
        client = Client(raise_request_exception=False)
        client.force_login(world.users[role])
        page = f"/r/shop/pulls/{world.values['number']}/data?dataset=/vault/hidden"
        pages = (page, f"{page}&show=statistics", f"{page}&show=time", "/d/vault/hidden")
        # An admin sees them: a few pages say that they are there to be found.
        answers = (
            [ask(client, address) for address in pages] if role == "admin" else [*crawl(client, world, more=pages)]
        )
        for number in {world.values["dataset_id"], hidden.pk}:
            answers += ask_everything(world, role, queries=queries, dataset_id=number)
        counts[role] = sum(CANARY in answer.text or COLUMN in answer.text for answer in answers)
        assert role == "admin" or len(answers) > 150
        assert role == "admin" or sum("/lineage" in answer.address for answer in answers) > 1
        assert {answer.address for answer in answers if answer.status >= 500} <= {"/readyz"}
    admin = counts.pop("admin")
    assert set(counts.values()) == {0}
    assert admin > 5  # or nothing of it would be there to be found


def test_rights_that_are_taken_away_end_at_once(world: World, hidden: Dataset) -> None:
    RepositoryRole.objects.create(repository="vault", user=world.users["reader"], role="reader")
    address = f"/api/v1/repositories/shop/pulls/{world.values['number']}/datasets/{hidden.pk}/rows"
    header = world.bearer("reader", "")
    assert CANARY in Client().get(address, headers=header).content.decode()
    page = f"/r/shop/pulls/{world.values['number']}/data"
    reader = Client()
    reader.force_login(world.users["reader"])
    assert CANARY in reader.get(page, {"dataset": "/vault/hidden"}).content.decode()
    RepositoryRole.objects.filter(repository="vault", user=world.users["reader"]).delete()
    assert Client().get(address, headers=header).status_code == 404
    assert reader.get(page, {"dataset": "/vault/hidden"}).status_code == 404
    shown = reader.get(page).content.decode()
    assert "Not listed: 1 dataset that you may not see, no access to" in shown
    told = Client().get(f"/api/v1/repositories/shop/pulls/{world.values['number']}", headers=header).json()
    assert (told["unseen"]["datasets"], told["unseen"]["compared"]) == (1, 1)
    assert (
        told["unseen"]["inserted"] == PullDataset.objects.get(path="/vault/hidden").comparison.summary["inserted"] > 0
    )
    assert CANARY not in shown
    for other in (page.removesuffix("/data"), page.replace("/data", "/schema")):
        assert "Not listed: 1 dataset that you may not see" in reader.get(other).content.decode()
    PullDataset.objects.exclude(path="/vault/hidden").delete()
    schema = reader.get(page.replace("/data", "/schema")).content.decode()
    assert "No dataset that you may see is changed" in schema
    assert "changes no JobSpec" not in schema
