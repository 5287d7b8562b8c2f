"""The path of a ref, such as heads/master: nobody makes a branch by it in any way; a branch that is there is read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.factories import datasets as make
from tests.factories.catalog import set_ref
from webapp.core.errors import BadRequest
from webapp.datasets import services
from webapp.datasets.models import DatasetBranch
from webapp.datasets.services import recording

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from rest_framework.test import APIClient

    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("home")]
NAME = "heads/master"
WORDS = "'heads/master' means something else to Git"


@pytest.fixture
def written(dataset: Dataset, user: User) -> Dataset:
    make.write(make.a_client(user), dataset)
    return dataset


def test_rest_and_pages_make_none(
    api_client: Callable[..., APIClient], written: Dataset, signed: Client, user: User
) -> None:
    api, url, page = api_client(user), f"/api/v1/datasets/{written.pk}", f"/datasets/{written.pk}"
    file = SimpleUploadedFile("rows.csv", b"id\n1\n")

    answers = [
        api.post(f"{url}/branches", {"name": NAME, "parent": "master"}, format="json"),
        api.post(f"{url}/transactions", {"branch": NAME, "type": "APPEND"}, format="json"),
        api.post(f"{url}/upload?branch={NAME}", {"file": file}, format="multipart"),
    ]
    shown = [
        signed.post(f"{page}/branches", {"name": NAME, "parent": "master"}),
        signed.post(f"{page}/transactions", {"branch": NAME, "type": "APPEND"}, follow=True),
    ]

    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (400, "branch_name")
        assert answer.json()["detail"].startswith(WORDS)
    for seen in shown:
        assert "means something else to Git" in seen.content.decode()
    assert list_branches() == ["master"]


def test_clients_of_the_catalog_make_none(written: Dataset, user: User) -> None:
    plain, headed = make.a_client(user), make.a_client(user, NAME)
    snapshot = plain.load(written.table).metadata["snapshots"][0]["snapshot-id"]

    answers = [
        plain.commit(written.table, set_ref(NAME, snapshot)),
        make.a_client(user, "fix").commit(written.table, set_ref(NAME, snapshot)),
        headed.append(written.table),
        headed.commit(written.table, set_ref("main", snapshot)),
        headed.create_table("shop.fresh"),
    ]

    assert [answer.status for answer in answers] == [400] * len(answers)
    assert all(answer.error[1].startswith(WORDS) for answer in answers)
    assert set(plain.load(written.table).metadata["refs"]) == {"main"}
    assert plain.load("shop.fresh").status == 404
    assert list_branches() == ["master"]


def test_builds_make_none(written: Dataset, user: User) -> None:
    with pytest.raises(BadRequest, match=WORDS):
        make.a_transaction(written, user, branch=NAME, chain=(NAME, "master"))


def test_a_branch_that_is_there_is_read_written_deleted_and_restored(
    written: Dataset, user: User, signed: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases before this one made such branches of datasets."""
    client = make.a_client(user, NAME)
    with monkeypatch.context() as before:
        before.setattr(recording.names, "check_is_no_ref", lambda name: None)
        make.write(client, written)

    make.write(client, written, total=2)
    make.commit(make.a_transaction(written, user, branch=NAME), user)
    assert client.load(written.table).status == 200
    assert signed.get("/d/shop/orders", {"branch": NAME}).status_code == 200

    services.delete_branch(dataset=written, name=NAME, by=make.who(user))
    services.restore_branch(deletion=written.deleted_branches.get(), by=make.who(user))
    assert list_branches() == [NAME, "master"]


def list_branches() -> list[str]:
    return sorted(DatasetBranch.objects.values_list("name", flat=True))
