"""Guessing is slow, and nobody locks anybody out; passwords change, and who is shut out is out at once."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from tests.factories.catalog import Catalog
from webapp.accounts import services
from webapp.accounts.models import LoginFailure, Token
from webapp.accounts.rules import throttle
from webapp.core import clock
from webapp.core.errors import AppError, TooManyRequests
from webapp.repositories.views import git_http

if TYPE_CHECKING:
    from rest_framework.test import APIClient

    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
TOKENS = "/api/v1/tokens"


class _Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.at = clock.now()

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    moved = _Clock()
    for name in ("now", "shared_now"):
        monkeypatch.setattr(clock, name, moved)
    return moved


def sign_in(client: Client, username: str, password: str | None = None, *, address: str = "192.0.2.1") -> Any:
    given = {"username": username, "password": password or f"{username}-password-1"}
    return client.post("/login", given, REMOTE_ADDR=address)


def guess(username: str, *, times: int, address: str = "192.0.2.66") -> list[int]:
    return [sign_in(Client(), username, f"wrong-{n}", address=address).status_code for n in range(times)]


def test_wrong_passwords_of_others_never_keep_the_right_one_out(admin: User, now: _Clock) -> None:
    at_home = Client()
    assert sign_in(at_home, "admin").status_code == 302
    at_home.post("/logout")

    assert guess("admin", times=11) == [422] * 5 + [429] * 6

    assert sign_in(Client(), "admin").status_code == 302, "from another address"
    assert sign_in(at_home, "admin", address="192.0.2.66").status_code == 302, "a known device, even from there"


def test_guessing_is_delayed_twice_as_long_each_time_and_never_for_ever(admin: User, now: _Clock) -> None:
    waits = []
    for n in range(12):
        answer = sign_in(Client(), "admin", f"wrong-{n}")
        while answer.status_code == 429:
            wait = int(answer["Retry-After"])
            waits.append(wait)
            assert b"Try again in" in answer.content
            now.at += timedelta(seconds=wait)
            answer = sign_in(Client(), "admin", f"wrong-{n}")
        assert answer.status_code == 422
    assert waits == [2, 3, 5, 9, 17, 33, 61][: len(waits)] or waits == [1, 2, 4, 8, 16, 32, 60][: len(waits)], waits
    now.at += timedelta(seconds=61)
    assert sign_in(Client(), "admin").status_code == 302
    assert guess("admin", times=5, address="192.0.2.1") == [422] * 5, "a success forgets what was before it"


def test_many_names_from_one_address_and_one_name_from_many_are_slowed_down(admin: User, now: _Clock) -> None:
    statuses = [sign_in(Client(), f"user{n}", "x", address="2001:db8::1").status_code for n in range(60)]
    assert statuses == [422] * 50 + [429] * 10
    same_network = sign_in(Client(), "another", "x", address="2001:db8::ffff:1")
    assert same_network.status_code == 429, "IPv6 users have a network each"
    assert sign_in(Client(), "another", "x", address="2001:db8:0:1::1").status_code == 422
    for n in range(25):
        assert guess("admin", times=4, address=f"198.51.100.{n}") == [422] * 4
    assert guess("admin", times=2, address="198.51.100.1") == [422, 429], "its own tries are used up"


def test_a_crowd_in_many_networks_never_keeps_the_right_one_waiting(admin: User, now: _Clock) -> None:
    crowd = [f"198.51.100.{n}" for n in range(100)]
    for address in crowd:
        guess("admin", times=5, address=address)
    for _ in range(3):
        assert {sign_in(Client(), "admin", "x", address=address).status_code for address in crowd[::4]} <= {422, 429}
        now.at += timedelta(seconds=1)
        assert sign_in(Client(), "admin", "mistyped", address="203.0.113.9").status_code == 422
        assert sign_in(Client(), "admin", address="203.0.113.9").status_code == 302, "a device that nobody knows"


def test_a_known_device_waits_for_its_own_failures_alone(admin: User, make_user: Callable[..., User]) -> None:
    make_user("mira")
    device = Client()
    sign_in(device, "mira")
    device.post("/logout")
    assert {sign_in(device, "mira", "wrong").status_code for _ in range(30)} == {422}
    assert sign_in(device, "mira").status_code == 302
    device.post("/logout")
    assert [sign_in(device, "admin", "wrong").status_code for _ in range(7)] == [422] * 5 + [429] * 2, "not the admin's"
    forged = Client()
    forged.cookies[django_settings.DEVICE_COOKIE_NAME] = device.cookies[django_settings.DEVICE_COOKIE_NAME].value + "x"
    guess("mira", times=6)
    assert sign_in(forged, "mira", address="192.0.2.66").status_code == 429


def test_the_device_cookie_is_kept_from_scripts(admin: User, client: Client) -> None:
    cookie = sign_in(client, "admin").cookies[django_settings.DEVICE_COOKIE_NAME]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")


def test_attempts_at_the_same_time_are_counted_before_they_are_looked_at(db: None) -> None:
    for _ in range(5):
        services.sign_in.begin_attempt(username="admin", address="192.0.2.1")
    with pytest.raises(TooManyRequests):
        services.sign_in.begin_attempt(username="ADMIN", address="192.0.2.1")


def test_the_api_says_when_to_come_back(admin: User) -> None:
    def ask(password: str) -> Any:
        encoded = base64.b64encode(f"admin:{password}".encode()).decode()
        return Client().post(TOKENS, {"name": "x"}, "application/json", headers={"Authorization": f"Basic {encoded}"})

    statuses = [ask("wrong").status_code for _ in range(8)]
    assert statuses == [401] * 5 + [429] * 3
    refused = ask("admin-password-1")
    assert (refused.status_code, refused.json()["code"]) == (429, "login_paused")
    assert int(refused["Retry-After"]) <= 2


def test_wrong_tokens_are_slowed_down_and_right_ones_never(
    admin: User, now: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_http, "close_old_connections", lambda: None)
    secret = services.create_token(user=admin, name="ci")[1]

    def ask_git(token: str) -> int:
        header = b"Basic " + base64.b64encode(f"admin:{token}".encode())
        scope = {
            "method": "GET", "path": "/git/x.git/info/refs", "query_string": b"service=git-upload-pack",
            "headers": [(b"authorization", header)], "client": ("192.0.2.1", 1),
        }  # fmt: skip
        try:
            git_http._enter(git_http._Call.of(scope))
        except AppError as error:
            return error.status
        return 200

    def ask_oauth(token: str) -> int:
        form = f"grant_type=client_credentials&client_id=admin&client_secret={token}".encode()
        return Catalog("").call("POST", "oauth/tokens", form).status

    assert [ask_git("trb_wrong") for _ in range(7)] == [401] * 5 + [429] * 2
    assert ask_git(secret) == 404, "known, and there is no such repository"
    assert [ask_oauth("trb_wrong") for _ in range(7)] == [401] * 5 + [429] * 2
    assert ask_oauth(secret) == 200
    assert sign_in(Client(), "admin").status_code == 302, "passwords are another matter"


def test_no_request_with_a_right_token_writes_a_count(admin: User, api_client: Callable[..., APIClient]) -> None:
    api_client(admin).get(TOKENS)
    assert not LoginFailure.objects.exists()


def test_limits_stay_small_after_any_number_of_failures() -> None:
    assert throttle.BY_ADDRESS.wait_after(10**9) == timedelta(seconds=30)


def test_changing_ones_password_ends_the_other_sessions(admin: User, client: Client) -> None:
    other = Client()
    sign_in(client, "admin")
    sign_in(other, "admin")
    page = "/settings/password"
    wrong = client.post(page, {"current": "x", "password": "a-new-long-secret", "repeated": "a-new-long-secret"})
    differing = client.post(page, {"current": "admin-password-1", "password": "a-new-long-secret", "repeated": "y"})
    weak = client.post(page, {"current": "admin-password-1", "password": "12345678", "repeated": "12345678"})
    assert (wrong.status_code, differing.status_code, weak.status_code) == (422, 422, 422)
    assert b"The current password is wrong." in wrong.content
    assert b"The two new passwords differ." in differing.content
    assert b"too common" in weak.content and b"entirely numeric" in weak.content

    given = {"current": "admin-password-1", "password": "a-new-long-secret", "repeated": "a-new-long-secret"}
    assert client.post(page, given)["Location"] == page

    assert client.get("/settings").status_code == 200
    assert other.get("/settings").status_code == 302
    assert sign_in(Client(), "admin").status_code == 422
    assert sign_in(Client(), "admin", "a-new-long-secret").status_code == 302


def test_password_changes_through_the_api_with_the_present_one_and_no_token(
    admin: User, api_client: Callable[..., APIClient]
) -> None:
    body = {"current_password": "admin-password-1", "password": "a-new-long-secret"}
    assert api_client(admin).post("/api/v1/password", body, format="json").status_code == 401
    encoded = base64.b64encode(b"admin:admin-password-1").decode()
    headers = {"HTTP_AUTHORIZATION": f"Basic {encoded}"}
    wrong = api_client().post("/api/v1/password", {**body, "current_password": "x"}, format="json", **headers)
    assert (wrong.status_code, list(wrong.json()["errors"])) == (422, ["current_password"])
    assert api_client().post("/api/v1/password", body, format="json", **headers).status_code == 204
    assert api_client().post("/api/v1/password", body, format="json", **headers).status_code == 401


def test_deactivation_ends_sessions_and_tokens_and_they_stay_ended(
    admin: User, make_user: Callable[..., User], api_client: Callable[..., APIClient]
) -> None:
    mira = make_user("mira")
    browser, program = Client(), api_client(mira)
    sign_in(browser, "mira")
    boss = api_client(admin)

    answer = boss.patch("/api/v1/users/mira", {"is_active": False}, format="json")

    assert (answer.status_code, answer.json()["is_active"]) == (200, False)
    assert browser.get("/settings").status_code == 302
    assert program.get(TOKENS).status_code == 401
    assert sign_in(Client(), "mira").status_code == 422
    assert "mira" in [user["username"] for user in boss.get("/api/v1/users").json()["results"]]
    assert boss.patch("/api/v1/users/mira", {"is_active": True}, format="json").status_code == 200
    assert browser.get("/settings").status_code == 302
    assert program.get(TOKENS).status_code == 401
    assert sign_in(Client(), "mira").status_code == 302
    assert boss.patch("/api/v1/users/admin", {"is_active": False}, format="json").status_code == 409


def test_admins_end_the_tokens_of_others_and_give_passwords(
    admin: User, make_user: Callable[..., User], client: Client, api_client: Callable[..., APIClient]
) -> None:
    mira = make_user("mira")
    lost, other = services.create_token(user=mira, name="lost")[0], services.create_token(user=mira, name="other")[0]
    listed = api_client(admin).get("/api/v1/users/mira/tokens").json()["results"]
    assert {token["name"] for token in listed} == {"lost", "other"}
    assert api_client(make_user("olek")).delete(f"{TOKENS}/{lost.pk}").status_code == 404
    assert api_client(admin).delete(f"{TOKENS}/{lost.pk}").status_code == 204
    sign_in(client, "admin")
    assert b"other" in client.get("/settings/users/mira").content
    client.post(f"/settings/tokens/{other.pk}/revoke", {"owner": "mira"})
    assert not Token.objects.filter(user=mira, revoked_at=None).exists()
    weak = client.post("/settings/users/mira", {"act": "password", "password": "mira"})
    assert weak.status_code == 422
    client.post("/settings/users/mira", {"act": "password", "password": "another-long-secret"})
    assert sign_in(Client(), "mira", "another-long-secret").status_code == 302
    client.post("/settings/users/mira", {"act": "deactivate"})
    assert b"deactivated" in client.get("/settings/users").content
    client.post("/settings/users", {"username": "nils", "password": "a-third-long-secret"})
    assert sign_in(Client(), "nils", "a-third-long-secret").status_code == 302


def test_people_of_the_demo_have_passwords_of_their_own_kept_until_changed(home: Path, db: None) -> None:
    from webapp.accounts.models import User
    from webapp.accounts.queries import principal_for_user

    services.prepare_admin()
    for name in ("ines", "mira"):
        services.prepare_demo_person(name=name)
        services.prepare_demo_person(name=name)
    file = home / "demo-passwords"
    kept = dict(line.split(": ") for line in file.read_text().splitlines())
    assert file.stat().st_mode & 0o777 == 0o600
    assert len({*kept.values(), (home / "admin-password").read_text().strip()}) == 3
    mira = User.objects.get(username="mira")
    assert mira.check_password(kept["mira"])
    services.set_password(user=mira, password="a-new-long-secret", by=principal_for_user(mira))
    assert list(dict(line.split(": ") for line in file.read_text().splitlines())) == ["ines"]


def test_a_changed_password_of_the_admin_outlives_a_restart_until_another_is_given(
    home: Path, db: None, settings: Any
) -> None:
    from webapp.accounts.models import User
    from webapp.accounts.queries import principal_for_user

    settings.TRIBUTARY_ADMIN_PASSWORD = "the-first-given"
    services.prepare_admin()
    admin = User.objects.get(username="admin")
    services.set_password(user=admin, password="a-new-long-secret", by=principal_for_user(admin))
    assert "secret" not in (home / "admin-password").read_text()
    services.prepare_admin()
    assert User.objects.get().check_password("a-new-long-secret")
    settings.TRIBUTARY_ADMIN_PASSWORD = "the-second-given"
    services.prepare_admin()
    assert User.objects.get().check_password("the-second-given")
