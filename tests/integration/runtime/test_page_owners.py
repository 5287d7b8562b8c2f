"""Whose share of the page threads a request uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import Client

from tests.factories import repositories as make
from tests.factories.loops import run_loop
from webapp.accounts.models import User
from webapp.config import asgi

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Names of users repeat from test to test, their credentials do not."""
    asgi._owners.clear()
    yield
    asgi._owners.clear()


def find_owner(path: str, *, token: str = "", session: str = "", more: str = "") -> str:
    headers = [(b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}; other={more}".encode())]
    if token:
        headers.append((b"authorization", token.encode()))
    scope: dict[str, Any] = {"path": path, "headers": headers, "client": ("192.0.2.7", 4711)}
    return run_loop(asgi._find_owner(scope))


def test_all_sessions_and_tokens_of_a_user_have_one_share(home: object) -> None:
    person = make.a_person("ines")
    keys = []
    for _ in range(3):
        client = Client()
        client.force_login(User.objects.get(pk=person.user_id))
        keys.append(client.session.session_key)
    tokens = [make.a_token(person) for _ in range(2)]
    owners = {find_owner("/", session=str(key), more=str(number)) for number, key in enumerate(keys)}
    owners |= {find_owner("/api/v1/profile", token=f"Bearer {token}") for token in tokens}
    owners |= {find_owner("/", session=str(keys[0]), token=f"Bearer x{number}") for number in range(2)}
    owners |= {find_owner("/api/v1/profile", session=str(keys[0]), token="Basic eDp5")}
    assert owners == {"user ines"}


@pytest.mark.parametrize("path", ["/", "/api/v1/profile", "/login"])
def test_invalid_credentials_share_with_their_address(path: str, home: object) -> None:
    owners = {find_owner(path, session="no", token=token) for token in ("", "Bearer no", "Bearer ", "Basic é")}
    assert owners == {"address 192.0.2.7"}
    assert not asgi._owners
