"""A second spelling of a branch: whoever reads, writes, builds or looks by it is refused alike, and not asked to try again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from pyiceberg.exceptions import BadRequestError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.factories import datasets as make
from tests.factories import repositories
from webapp.accounts.models import Folder
from webapp.core.errors import BadRequest
from webapp.datasets import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from rest_framework.test import APIClient

    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("home")]
WORDS = "There is a branch iso-a, and names are unique without case: write iso-a, not iso-A."
COLUMNS = Schema(NestedField(1, "id", LongType()))


@pytest.fixture
def api(api_client: Callable[..., APIClient], user: User) -> APIClient:
    return api_client(user)


@pytest.fixture
def spelled(dataset: Dataset, user: User) -> Dataset:
    """A dataset with something on master and on iso-a."""
    make.write(make.a_client(user), dataset)
    make.write(make.a_client(user, "iso-a"), dataset)
    return dataset


def test_catalog_refuses_reads_and_writes_alike(spelled: Dataset, user: User) -> None:
    client = make.a_client(user, "iso-A")
    snapshot = client.on("iso-a").load(spelled.table).metadata["snapshots"][0]["snapshot-id"]
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot}
    path = "namespaces/shop/tables/orders"

    answers = [
        client.load(spelled.table),
        client.load(f"{spelled.table}.branch_iso-A"),
        make.a_client(user, "iso-a").load(f"{spelled.table}.branch_iso-A"),
        client.commit(spelled.table, {"action": "set-properties", "updates": {"a": "b"}}),
        client.commit(spelled.table, ref),
        client.call("POST", f"{path}/plan", {}),
    ]

    assert [(answer.status, answer.error) for answer in answers] == [(400, ("BadRequestException", WORDS))] * len(
        answers
    )
    assert client.call("HEAD", path).status == 400
    assert make.a_client(user, "iso-a").load(spelled.table).status == 200


def test_pyiceberg_gives_up_at_once(spelled: Dataset, user: User) -> None:
    catalog = make.a_pyiceberg(user, "iso-A")
    before = spelled.transactions.count()

    with pytest.raises(BadRequestError, match="write iso-a, not iso-A"):
        catalog.load_table(("shop", "orders"))
    table = make.a_pyiceberg(user, "other").load_table(("shop", "orders"))
    table.catalog = catalog
    with pytest.raises(BadRequestError, match="write iso-a, not iso-A"), table.transaction() as change:
        change.set_properties(a="b")

    assert spelled.transactions.count() == before


def test_rest_and_pages_refuse_alike(api: APIClient, spelled: Dataset, client: Client, user: User) -> None:
    url = f"/api/v1/datasets/{spelled.pk}"
    answers = [
        api.get(f"{url}/{kind}", {"branch": "iso-A"}) for kind in ("schema", "preview", "transactions", "changelog")
    ]
    answers.append(api.get(f"{url}/compare", {"from": "master", "to": "iso-A"}))
    answers.append(api.post(f"{url}/transactions", {"branch": "iso-A"}, format="json"))
    file = SimpleUploadedFile("rows.csv", b"id\n1\n")
    answers.append(api.post(f"{url}/upload?branch=iso-A", {"file": file}, format="multipart"))

    for answer in answers:
        assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (400, "branch_spelling", WORDS)
    assert api.get(f"{url}/schema", {"branch": "Master"}).json()["code"] == "branch_spelling"
    client.force_login(user)
    page = client.get("/d/shop/orders", {"branch": "iso-A"})
    assert page.status_code == 400
    assert WORDS in page.content.decode()


def test_a_branch_that_git_alone_has_counts(dataset: Dataset, user: User) -> None:
    """One name everywhere: nobody may make iso-A on a dataset while the owning repository has iso-a."""
    repository = repositories.a_repository("shop", by=make.who(user))
    Folder.objects.filter(name="shop").update(repository="shop")
    repositories.a_branch(repository, "iso-a", by=make.who(user))
    client = make.a_client(user, "iso-A")

    assert client.load(dataset.table).error == ("BadRequestException", WORDS)
    assert make.try_write(client, dataset) == 400
    assert client.create_table("shop.fresh").error == ("BadRequestException", WORDS)
    assert make.try_write(client.on("iso-a"), dataset) == 200


def test_a_transaction_of_a_build_is_no_conflict_to_wait_for(spelled: Dataset, user: User) -> None:
    """A build whose output has its branch in another spelling would wait for ever: a Conflict is what builds wait for."""
    with pytest.raises(BadRequest, match="write iso-a, not iso-A"):
        make.a_transaction(spelled, user, branch="iso-A", chain=("iso-A", "master"))
    assert queries.find_branch(spelled, "iso-A") is None


def test_a_branch_that_no_client_has_written_counts(dataset: Dataset, user: User) -> None:
    """A branch that exists in the database alone counts as well: the catalog knows nothing of it yet."""
    make.a_transaction(dataset, user, branch="iso-a", chain=("iso-a", "master"))

    answer = make.a_client(user, "iso-A").load(dataset.table)

    assert (answer.status, answer.error[1]) == (400, WORDS)
    with pytest.raises(BadRequest, match="write iso-a, not iso-A"):
        queries.parse_view(dataset, branch="iso-A")
