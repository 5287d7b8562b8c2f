"""The default limit of a repository's data: a share of the warehouse's disk, measured only if the disk is that full."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client
from django.utils.html import strip_tags

from tests.factories import repositories
from tests.factories.build_rows import a_world
from tests.factories.disks import small_disk
from webapp.accounts.models import User
from webapp.builds.services import quotas
from webapp.core.errors import StorageFull
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
MIB = 1024**2


def read_data(repository: str) -> str:
    """Return what the settings of a repository show of its data to a reader."""
    reader = repositories.a_member(Repository.objects.get(name=repository), "reader")
    client = Client()
    client.force_login(User.objects.get(pk=reader.user_id))
    page = strip_tags(client.get(f"/r/{repository}/settings").content.decode())
    return " ".join(html.unescape(page).split())


def test_repository_may_take_half_of_the_disk(home: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.TRIBUTARY_REPOSITORY_DATA_BYTES = None
    monkeypatch.setattr(quotas, "_sizes", {})
    monkeypatch.setattr(quotas, "KEPT_S", 0.0)
    monkeypatch.setattr(quotas, "MEASURING_SHARE", 0)
    with small_disk(home, size="40m"):
        settings.TRIBUTARY_WAREHOUSE = f"file://{home}/warehouse"
        a_world("shop")
        a_world("other")
        room = quotas.find_data_room(repository="shop")
        assert room is not None
        assert 15 * MIB < room < 20 * MIB
        assert quotas._sizes == {}, "so much is free that nothing need be measured"
        [data] = (home / "warehouse" / "shop").glob("raw-*/data")
        (data / "large").write_bytes(bytes(21 * MIB))
        with pytest.raises(StorageFull, match="repository shop hold 21.0 MB, and may hold 20.0 MB") as refused:
            quotas.find_data_room(repository="shop")
        assert refused.value.code == "repository_full"
        assert "delete branches or expire snapshots" in refused.value.detail
        assert "TRIBUTARY_REPOSITORY_DATA_BYTES" in refused.value.detail
        assert (quotas.find_data_room(repository="other") or 0) > 15 * MIB, "another repository has its own"
        assert "The datasets take 21.0 MB of 20.0 MB. The limit is half of the warehouse's disk" in read_data("shop")
        settings.TRIBUTARY_REPOSITORY_DATA_BYTES = 30 * MIB
        assert "21.0 MB of 30.0 MB. An administrator has set the limit" in read_data("shop")
        settings.TRIBUTARY_REPOSITORY_DATA_BYTES = 0
        assert "have no limit of their own" in read_data("shop")
        assert quotas.find_data_room(repository="shop") is None
