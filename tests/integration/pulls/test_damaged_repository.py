"""A pull request whose repository cannot be opened: its pages and REST say so, and that it may pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import repositories as make
from webapp.pulls.services import pulls

if TYPE_CHECKING:
    from django.test import Client
    from rest_framework.test import APIClient

    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PARTS = ("", "/commits", "/code", "/schema", "/data", "/lineage", "/checks", "/conflicts", "/merge-box", "/news")


def cut_settings(repository: Path) -> None:
    (repository / "config").write_text("[core")


def lead_a_ref_to_itself(repository: Path) -> None:
    ref = repository / "refs/heads/feature"
    ref.unlink()
    ref.symlink_to(ref.name)


@pytest.mark.parametrize("damage", [cut_settings, lead_a_ref_to_itself])
def test_a_damaged_repository_is_named_and_breaks_no_page(
    home: Path,
    admin: User,
    client: Client,
    api_client: Callable[..., APIClient],
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
) -> None:
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    repository = make.a_repository("shop")
    make.a_branch(repository, "feature")
    make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature")
    pulls.open_pull(
        repository=repository, title="Change", source="feature", target="master", by=make.maker_of(repository)
    )
    damage(repository.path)
    client.force_login(admin)
    client.raise_request_exception = False
    pages = [f"/r/shop/pulls/1{part}" for part in PARTS]
    rest: Any = api_client(admin)
    rest.raise_request_exception = False
    parts = ("", *("/commits", "/files", "/datasets", "/lineage", "/checks", "/conflicts", "/timeline"))
    addresses = [f"/api/v1/repositories/shop/pulls/1{part}" for part in parts]
    statuses = {page: client.get(page).status_code for page in pages}
    statuses |= {address: rest.get(address).status_code for address in addresses}
    assert set(statuses.values()) <= {200, 204, 503}, statuses
    assert client.get("/r/shop/pulls/1/code").status_code == 503
