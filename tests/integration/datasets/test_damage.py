"""A dataset whose table cannot be read: REST and the catalog name the same damage, and the file to go back to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.factories import datasets as make
from webapp.catalog import queries as catalog
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.local_files import local_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rest_framework.test import APIClient

    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("home")]


def damage_by_nesting(file: Path, _other: Path) -> None:
    file.write_bytes(b"[" * 100_000)


def damage_by_copy(file: Path, other: Path) -> None:
    file.write_bytes(other.read_bytes())


def damage_by_uuid(file: Path, _other: Path) -> None:
    content = json.loads(file.read_bytes())
    file.write_text(json.dumps({**content, "table-uuid": "00000000-0000-0000-0000-000000000000"}))


@pytest.mark.parametrize("damage", [damage_by_nesting, damage_by_copy, damage_by_uuid])
def test_rest_and_catalog_name_the_damage(
    dataset: Dataset,
    user: User,
    api_client: Callable[..., APIClient],
    damage: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = make.a_dataset("/shop/other", by=user)
    make.write(make.a_client(user), other)
    client = make.a_client(user)
    make.write(client, dataset)
    earlier = catalog.get_file(table=dataset.table).location
    make.write(client, dataset, total=2)
    api = api_client(user)
    address = f"/api/v1/datasets/{dataset.pk}"
    assert api.get(address).json()["damage"] == ""
    files = [local_path(catalog.get_file(table=each.table).location) for each in (dataset, other)]
    metadata_files.forget_all()
    damage(*files)
    walks = []
    monkeypatch.setattr(
        metadata_files, "_find_way_back", lambda row, find=metadata_files._find_way_back: walks.append(row) or find(row)
    )

    said = client.load(dataset.table).error[1]
    assert str(files[0]) in said
    assert f"register {earlier} with `overwrite`" in said
    described = api.get(address)
    assert (described.status_code, described.json()["damage"]) == (200, said)
    for part in ("transactions", "transactions?branch=master", "schema", "preview"):
        answer = api.get(f"{address}/{part}")
        assert (answer.status_code, answer.json()["detail"]) == (503, said), part

    assert len(walks) == 1, "what is known of the damage is remembered"
    body = {"name": "orders", "metadata-location": earlier, "overwrite": True}
    assert client.call("POST", "namespaces/shop/register", body).status == 200
    assert api.get(address).json()["damage"] == ""
    assert api.get(f"{address}/transactions").status_code == 200
