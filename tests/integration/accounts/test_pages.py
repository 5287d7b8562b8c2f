"""Sign-in, settings and tokens in a browser's terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.test import Client

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def sign_in(client: Client, username: str, password: str | None = None, **more: str) -> object:
    return client.post("/login", {"username": username, "password": password or f"{username}-password-1", **more})


def test_login_page_shows_a_form_to_nobody(client: Client) -> None:
    answer = client.get("/login")

    assert answer.status_code == 200
    assert b"Sign in to Tributary" in answer.content


def test_login_leads_to_the_page_that_was_asked_for(client: Client, admin: User) -> None:
    asked = client.get("/settings")
    assert asked.status_code == 302
    assert asked["Location"] == "/login?next=%2Fsettings"

    answer = sign_in(client, "admin", next="/settings")

    assert answer["Location"] == "/settings"
    assert client.get("/settings").status_code == 200


def test_login_leads_to_no_other_host(client: Client, admin: User) -> None:
    answer = sign_in(client, "admin", next="https://elsewhere.example/x")

    assert answer["Location"] == "/"


def test_login_refuses_a_wrong_password_and_says_so(client: Client, admin: User) -> None:
    answer = sign_in(client, "admin", "wrong")

    assert answer.status_code == 422
    assert b"User name or password is wrong." in answer.content


def test_login_needs_the_form_token(admin: User) -> None:
    answer = sign_in(Client(enforce_csrf_checks=True), "admin")

    assert answer.status_code == 403


def test_logout_ends_the_session_and_is_no_link(client: Client, admin: User) -> None:
    sign_in(client, "admin")
    assert client.get("/logout").status_code == 405

    assert client.post("/logout")["Location"] == "/login"
    assert client.get("/settings").status_code == 302


def test_settings_change_the_theme_of_the_next_page(client: Client, admin: User) -> None:
    sign_in(client, "admin")

    answer = client.post(
        "/settings", {"color_mode": "dark", "light_theme": "light", "dark_theme": "dark_dimmed", "hotkeys": ""}
    )

    assert answer["Location"] == "/settings"
    page = client.get("/settings").content.decode()
    assert 'data-color-mode="dark"' in page
    assert 'data-dark-theme="dark_dimmed"' in page


def test_token_is_shown_once_and_ends_when_revoked(
    client: Client, admin: User, api_client: Callable[..., Client]
) -> None:
    sign_in(client, "admin")

    page = client.post("/settings/tokens", {"name": "notebook", "days": "30", "scope": "read"})

    secret = next(
        word for word in page.content.decode().replace("<", " ").replace(">", " ").split() if word.startswith("trb_")
    )
    assert page["Cache-Control"] == "no-store"
    assert secret not in client.get("/settings/tokens").content.decode()
    headers = {"HTTP_AUTHORIZATION": f"Bearer {secret}"}
    assert Client().get("/api/v1/tokens", **headers).status_code == 200
    token_id = Client().get("/api/v1/tokens", **headers).json()["results"][0]["id"]
    client.post(f"/settings/tokens/{token_id}/revoke")
    assert Client().get("/api/v1/tokens", **headers).status_code == 401


def test_page_of_somebody_elses_token_is_not_found(client: Client, make_user: Callable[..., User]) -> None:
    from webapp.accounts.services import create_token

    token, _ = create_token(user=make_user("mira"), name="hers")
    make_user("olek")
    sign_in(client, "olek")

    assert client.post(f"/settings/tokens/{token.pk}/revoke").status_code == 404


def test_unknown_address_is_a_page_in_words(client: Client) -> None:
    answer = client.get("/no/such/page")

    assert answer.status_code == 404
    assert b"There is nothing here" in answer.content


def test_every_page_carries_the_security_headers(client: Client) -> None:
    answer = client.get("/login")

    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
