"""Names that a reader or a rule would take for those of somebody or something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.factories import repositories
from webapp.accounts import services as accounts
from webapp.accounts.models import User
from webapp.accounts.rules.claims import read_claims

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.contract, pytest.mark.django_db]
DISGUISES = ["\u0430lice", "ali\u200bce", "alice\n", "\uff41lice"]


@pytest.mark.parametrize("name", DISGUISES)
def test_nobody_names_anything_in_disguise(home: Path, name: str) -> None:
    admin = repositories.a_person("root", is_admin=True)
    shop = repositories.a_repository("shop", by=admin)
    head = shop.git.get_head("master")
    token = repositories.a_token(admin)
    for address, body in (
        ("users", {"username": name, "password": "a-password-of-tests-1"}),
        ("groups", {"name": name}),
        (f"repositories/shop/commits/{head}/statuses", {"name": name, "state": "success"}),
        ("repositories/shop/branches", {"name": name}),
    ):
        answer: Any = Client().post(
            f"/api/v1/{address}", body, content_type="application/json", headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code in (400, 422), (address, answer.content)
        assert set(answer.json()["errors"]) <= {"username", "name"}


def test_a_provider_disguises_nobody() -> None:
    claims = {
        "iss": "https://idp",
        "sub": "1",
        "preferred_username": "\u0430dmin",
        "nickname": "mallory",
        "given_name": "\u0410lice",
        "family_name": "Smith",
        "groups": ["stew\u0430rds", "stewards\u200b", "authors"],
    }
    profile = read_claims(claims, groups_claim="groups")
    assert (profile.username, profile.first_name, profile.last_name) == ("mallory", "", "")
    assert "stewards" not in profile.groups
    assert "authors" in profile.groups


def test_a_group_that_is_there_keeps_its_name(home: Path) -> None:
    from django.contrib.auth.models import Group

    admin = repositories.a_person("root", is_admin=True)
    Group.objects.create(name="\u0430lice")
    accounts.set_group(name="\u0430lice", usernames=["root"], by=admin)
    assert User.objects.get(username="root").groups.count() == 1
