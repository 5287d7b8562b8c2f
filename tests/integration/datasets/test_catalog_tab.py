"""The Catalog tab: snapshots and branches as a graph, what each branch tracks and protects, properties, damage, rights."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.factories import catalog as tables
from tests.factories import datasets as make
from webapp.catalog import queries as catalog
from webapp.catalog.storage import metadata_files
from webapp.core.errors import NotFound
from webapp.datasets import services
from webapp.datasets.pages import datasets as pages

if TYPE_CHECKING:
    from django.test import Client

    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset
    from webapp.datasets.pages.table import TablePanel

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("home")]
BUDGET_MS = 200


def read(user: User, **asked: Any) -> TablePanel:
    page = pages.read_dataset_page(
        make.who(user), path="/shop/orders", request=pages.DatasetRequest(tab="catalog", **asked)
    )
    assert page.table is not None
    return page.table


def change_columns(client: Any, dataset: Dataset, *names: str) -> None:
    fields = [tables.field(number, name) for number, name in enumerate(names, 1)]
    assert client.commit(dataset.table, *tables.set_schema(tables.schema(*fields))).status == 200


def test_each_branch_has_its_line_and_its_own_schema_spec_and_order(dataset: Dataset, user: User) -> None:
    change_columns(make.a_client(user), dataset, "id")
    make.write(make.a_client(user), dataset, rows=10, total=10)
    feature = make.a_client(user, "feature/a")
    change_columns(feature, dataset, "id", "extra")
    make.write(feature, dataset, rows=5, total=15)
    spec = {"fields": [{"source-id": 1, "field-id": 1000, "name": "id_bucket", "transform": "bucket[4]"}]}
    order = {"order-id": 1, "fields": [
        {"source-id": 2, "transform": "identity", "direction": "desc", "null-order": "nulls-last"}]}  # fmt: skip
    assert feature.commit(
        dataset.table,
        {"action": "add-spec", "spec": {"spec-id": 1, **spec}}, {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order}, {"action": "set-default-sort-order", "sort-order-id": -1},
    ).status == 200  # fmt: skip
    make.write(make.a_client(user), dataset, rows=7, total=17)

    panel = read(user)

    master, branch = panel.branches.rows
    assert (master.name, master.kind, master.rows) == ("master", "tracks", 17)
    assert (branch.name, branch.kind, branch.rows, branch.files) == ("feature/a", "tracks", 15, 1)
    words = [
        "".join(part.text for part in one.parts)
        for one in (branch.schema, branch.spec, branch.order)
        if one is not None
    ]
    assert words[0].endswith("and extra long, optional (field 2)")
    assert words[1:] == ["bucket[4](id)", "extra desc"]
    assert [
        (row.node.line.owner, row.change.rows_added, [ref.name for ref in row.refs]) for row in panel.graph.rows
    ] == [
        ("master", 7, ["master"]),
        ("feature/a", 5, ["feature/a"]),
        ("master", 10, []),
    ]
    assert panel.graph.rows[1].node.grew_from == "master"
    assert all(row.transaction is not None for row in panel.graph.rows)


def test_only_the_branch_s_own_history(dataset: Dataset, user: User) -> None:
    make.write(make.a_client(user), dataset)
    make.write(make.a_client(user, "feature"), dataset)
    make.write(make.a_client(user), dataset)

    panel = read(user, branch="feature", only=True)

    assert [(row.node.line.owner, row.node.grew_from) for row in panel.graph.rows] == [
        ("feature", "master"),
        ("master", None),
    ]
    assert panel.graph.is_one_branch
    assert read(user, branch="unheard-of", only=True).graph.total == 2, "it reads master by fallback"


def test_tags_plain_branches_fallback_and_open_transactions(dataset: Dataset, user: User) -> None:
    client = make.a_client(user)
    make.write(client, dataset)
    head = client.load(dataset.table).metadata["current-snapshot-id"]
    kept = {"max-ref-age-ms": 5 * 86_400_000}
    assert client.commit(dataset.table, tables.set_ref("v1", head, "tag", **kept)).status == 200
    assert client.commit(dataset.table, tables.set_ref("plain", head)).status == 200
    opened = make.a_transaction(dataset, user, branch="quiet", chain=("master",))
    make.fill(opened, user)
    make.a_transaction(dataset, user, branch="root")

    panel = read(user)

    assert [(tag.name, tag.head, tag.keeps and tag.keeps.days) for tag in panel.tags] == [("v1", head, 5)]
    assert {row.name: (row.kind, row.reads) for row in panel.branches.rows} == {
        "master": ("tracks", "master"),
        "plain": ("follows", "plain"),
        "quiet": ("tracks", "quiet"),
        "root": ("falls-back", ""),
    }
    assert panel.branches.internal == 1
    staged, base = panel.graph.rows
    assert [(ref.kind, ref.name) for ref in staged.refs] == [("open", opened.staging_branch)]
    assert [ref.kind for ref in base.refs] == ["branch", "branch", "branch", "tag"]
    assert staged.transaction is None


def test_page_says_it_all(signed: Client, dataset: Dataset, user: User) -> None:
    client = make.a_client(user)
    change_columns(client, dataset, "id")
    make.write(client, dataset, rows=1234, total=1234)
    updates = {"owner": "team", "s3.secret-access-key": "hunter2"}
    assert client.commit(dataset.table, {"action": "set-properties", "updates": updates}).status == 200
    change_columns(make.a_client(user, "feature/a"), dataset, "id", "extra")

    page = " ".join(signed.get("/d/shop/orders?tab=catalog").content.decode().split())

    assert "hunter2" not in page
    assert "hidden: looks like a secret" in page
    assert "and 3 in which branches keep their ids" in page
    assert "+1,234" in page
    assert 'id="schema-2"' in page
    assert page.index("schema 1 and <code>extra</code>") < page.index("Tracked by")
    assert "spark.sql.catalog.t.uri" in page
    assert str(client.load(dataset.table).metadata["current-snapshot-id"]) in page


def test_nothing_is_there_yet(signed: Client, dataset: Dataset) -> None:
    assert "No snapshots yet" in signed.get("/d/shop/orders?tab=catalog").content.decode()
    assert "No snapshots on this branch" in signed.get("/d/shop/orders?tab=catalog&own=1").content.decode()


@pytest.mark.parametrize("damage", ["missing", "broken"])
@pytest.mark.parametrize("tab", ["catalog", "schema", "history", "preview", "branches"])
def test_damaged_metadata_is_an_error_on_the_page(
    signed: Client, dataset: Dataset, user: User, damage: str, tab: str
) -> None:
    make.write(make.a_client(user), dataset)
    file = Path(unquote(urlsplit(catalog.get_file(table=dataset.table).location).path))
    if damage == "missing":
        file.unlink()
    else:
        file.write_text('{"format-version": 2, ')
    metadata_files.forget_all()

    answer = signed.get("/d/shop/orders", {"tab": tab})

    assert answer.status_code == 200
    assert "The catalog cannot read this table" in answer.content.decode()
    assert f"{file.name} is missing or damaged" in answer.content.decode()
    assert "Other tables are not touched" in answer.content.decode()
    assert "Try again" in answer.content.decode()


def test_strangers_see_nothing(client: Client, dataset: Dataset) -> None:
    stranger = make.a_user("olek", is_admin=False)
    client.force_login(stranger)

    assert client.get("/d/shop/orders?tab=catalog").status_code == 404
    with pytest.raises(NotFound):
        read(stranger)


def test_thousand_snapshots_are_paged_and_quick(signed: Client, dataset: Dataset, user: User) -> None:
    make.write(make.a_client(user), dataset)
    fill_with_snapshots(dataset, 1_000)
    assert signed.get("/d/shop/orders?tab=catalog").status_code == 200

    spent = []
    for page in (0, 7, 19, 20):
        begun = time.thread_time()
        answer = signed.get(f"/d/shop/orders?tab=catalog&page={page}")
        spent.append(1000 * (time.thread_time() - begun))
        assert answer.content.count(b'<tr data-row id="snapshot-') == (50 if page < 20 else 1)

    assert "1,001–1,001 of 1,001 snapshots" in answer.content.decode()
    assert all(row.url.endswith(f"#snapshot-{row.head}") for row in read(user).branches.rows)
    assert statistics.median(spent) <= BUDGET_MS


def fill_with_snapshots(dataset: Dataset, number: int) -> None:
    """Give the table a long history on twenty branches, as one metadata file."""
    from webapp.catalog.models import Table

    file = catalog.get_file(table=dataset.table)
    metadata = {**file.metadata, "snapshots": list(file.metadata["snapshots"]), "refs": dict(file.metadata["refs"])}
    first = metadata["refs"]["main"]["snapshot-id"]
    for place in range(number):
        branch = f"b{place % 20}" if place % 3 else "main"
        made = tables.snapshot(metadata, **{
            "parent-snapshot-id": metadata["refs"].get(branch, {}).get("snapshot-id", first),
            "summary": {"operation": "append", "added-records": "10", "total-records": str(place)},
        })  # fmt: skip
        metadata["snapshots"].append(made)
        metadata["last-sequence-number"] += 1
        metadata["refs"][branch] = {"snapshot-id": made["snapshot-id"], "type": "branch"}
    metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"]
    written = metadata_files.write(metadata, location=metadata["location"], version=9)
    Table.objects.filter(metadata_location=file.location).update(metadata_location=written.location)


def test_of_long_histories_the_newest_tracked_ids_are_listed(dataset: Dataset, user: User) -> None:
    from webapp.catalog.models import Table

    make.write(make.a_client(user), dataset)
    change_columns(make.a_client(user, "old"), dataset, "id")
    file = catalog.get_file(table=dataset.table)
    more = [{**tables.schema(tables.field(1, f"x{number}")), "schema-id": number} for number in range(2, 100)]
    longer = {**file.metadata, "schemas": [*file.metadata["schemas"], *more]}
    written = metadata_files.write(longer, location=longer["location"], version=9)
    Table.objects.filter(metadata_location=file.location).update(metadata_location=written.location)

    page = pages.read_dataset_page(make.who(user), path="/shop/orders", request=pages.DatasetRequest(tab="catalog"))

    assert page.protected is not None
    assert page.protected.left_out == 50
    listed = [one.name for one in page.protected.rows if one.name.startswith("Schema")]
    assert listed == ["Schema 0", "Schema 1", *(f"Schema {number}" for number in range(52, 100))]


def test_a_deleted_branch_gives_its_schema_free(dataset: Dataset, user: User) -> None:
    change_columns(make.a_client(user), dataset, "id")
    change_columns(make.a_client(user, "feature"), dataset, "id", "extra")

    def protections() -> dict[str, bool]:
        page = pages.read_dataset_page(make.who(user), path="/shop/orders", request=pages.DatasetRequest(tab="catalog"))
        assert page.protected is not None
        return {one.name: one.is_protected for one in page.protected.rows if one.name.startswith("Schema")}

    assert protections() == {"Schema 0": False, "Schema 1": True, "Schema 2": True}
    services.delete_branch(dataset=dataset, name="feature", by=make.who(user))
    assert protections() == {"Schema 0": False, "Schema 1": True, "Schema 2": False}
