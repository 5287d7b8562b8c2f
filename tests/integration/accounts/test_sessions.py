"""Sessions end: for want of requests, of age, with the password, one by one and all others; and are listed until then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from webapp.accounts import queries, services
from webapp.accounts.models import AuditEntry, UserSession
from webapp.accounts.queries import principal_for_user, session_uses
from webapp.accounts.services.sessions import remove_ended_sessions
from webapp.core import clock
from webapp.dispatch.stamps import set_back_stamps

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


class Clock:
    """A clock that a test moves on, for us and for Django, whose sessions read its own."""

    def __init__(self) -> None:
        self.at = clock.now()

    def __call__(self) -> datetime:
        return self.at

    def move(self, **time: float) -> None:
        session_uses.flush()
        self.at += timedelta(**time)
        clock._cautious = clock._Cautious()  # as a process that began by then


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    for name in ("now", "shared_now", "statement_now"):
        monkeypatch.setattr(clock, name, moved)
    monkeypatch.setattr(timezone, "now", moved)
    return moved


def sign_in(username: str = "admin", *, address: str = "192.0.2.1", agent: str = FIREFOX) -> Client:
    client = Client(REMOTE_ADDR=address, HTTP_USER_AGENT=agent)
    given = {"username": username, "password": f"{username}-password-1"}
    assert client.post("/login", given).status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get("/settings").status_code == 200


def test_a_session_ends_without_requests_and_at_its_age(admin: User, now: Clock, settings: Any) -> None:
    settings.TRIBUTARY_SESSION_IDLE_HOURS, settings.TRIBUTARY_SESSION_HOURS = 24, 60
    busy, idle = sign_in(), sign_in()
    assert int(busy.cookies[settings.SESSION_COOKIE_NAME]["max-age"]) == 60 * 3600
    for _ in range(2):
        now.move(hours=20)
        assert is_in(busy)
    assert not is_in(idle)
    now.move(hours=19)
    assert is_in(busy)
    # Saving a session gives it no longer life either.
    busy.post("/settings", {"color_mode": "dark", "light_theme": "light", "dark_theme": "dark"})
    now.move(hours=2)
    assert not is_in(busy)

    assert remove_ended_sessions()["ended sessions removed"] >= 2
    assert not UserSession.objects.exists()
    assert not Session.objects.exists()


@pytest.mark.parametrize("days", [-1, 1])
def test_clock_of_one_host_changes_no_session(
    admin: User, monkeypatch: pytest.MonkeyPatch, settings: Any, days: int
) -> None:
    settings.TRIBUTARY_SESSION_IDLE_HOURS, settings.TRIBUTARY_SESSION_HOURS = 24, 240
    shared, ahead = clock.now(), timedelta(days=days)
    for name in ("shared_now", "statement_now"):
        monkeypatch.setattr(clock, name, lambda: shared)
    for module in (clock, timezone):
        monkeypatch.setattr(module, "now", lambda: shared + ahead)
    monkeypatch.setattr(clock, "_cautious", clock._Cautious())  # as a process that began by that clock
    client = sign_in()
    assert is_in(client)
    session_uses.flush()
    [row] = UserSession.objects.all()
    assert abs(row.began_at - shared) < timedelta(seconds=1)
    assert abs(row.seen_at - shared) < timedelta(seconds=1)
    assert abs(Session.objects.get().expire_date - shared - timedelta(hours=24)) < timedelta(seconds=1)
    shared += timedelta(hours=23)
    assert remove_ended_sessions() == {}
    assert queries.list_sessions(user_id=admin.pk).exists()
    assert is_in(client)
    shared += timedelta(hours=2)  # what the last request gave is not written yet
    assert not is_in(client)
    assert not queries.list_sessions(user_id=admin.pk).exists()


def test_clock_that_was_ahead_makes_no_session_longer(admin: User, now: Clock) -> None:
    now.move(days=1)
    sign_in()
    now.move(days=-1)
    set_back_stamps()
    [row] = UserSession.objects.all()
    assert (row.began_at, row.seen_at) == (now.at, now.at)
    assert Session.objects.get().expire_date == now.at + timedelta(hours=168)


def test_clock_that_was_ahead_makes_nobody_wait_longer(admin: User, now: Clock) -> None:
    now.move(days=1)
    wrong = {"username": "admin", "password": "wrong"}
    assert {Client().post("/login", wrong).status_code for _ in range(7)} >= {429}
    now.move(days=-1, seconds=2)
    refused = Client().post("/login", wrong)
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) <= 3


def test_ways_to_a_provider_are_forgotten_after_an_hour(now: Clock) -> None:
    client = Client()
    session = client.session
    session["x"] = 1
    session.save()
    now.move(minutes=61)
    assert type(session)(session.session_key).load() == {}
    assert remove_ended_sessions() == {"ended sessions removed": 1}


def test_sessions_are_listed_and_ended_one_by_one(
    admin: User, make_user: Callable[..., User], api_client: Callable[..., Any]
) -> None:
    here, there = sign_in(), sign_in(address="2001:db8::7", agent="curl/8.14")
    make_user("mira")
    hers = sign_in("mira")
    page = here.get("/settings/profile").content.decode()
    assert "Firefox on Linux" in page
    assert "2001:db8::7" in page
    assert page.count("this one") == 1
    listed = api_client(admin).get("/api/v1/sessions").json()["results"]
    assert [(session["device"], session["is_current"]) for session in listed] == [
        ("curl/8.14", False),
        ("Firefox on Linux", False),
    ]
    number = listed[0]["id"]
    assert hers.post("/settings/sessions/end", {"session": number}).status_code == 404
    assert is_in(there)

    assert here.post("/settings/sessions/end", {"session": number})["Location"] == "/settings/profile"

    assert not is_in(there)
    assert is_in(here)
    assert here.post("/settings/sessions/end", {"session": "x"}).status_code == 404
    assert AuditEntry.objects.get(verb="end_session").detail["address"] == "2001:db8::7"
    here.post("/logout")
    assert not UserSession.objects.filter(user=admin).exists()


def test_all_others_end_also_those_on_no_list_and_this_one_goes_on(admin: User) -> None:
    here, there, unlisted = sign_in(), sign_in(), Client()
    unlisted.force_login(admin)

    here.post("/settings/sessions/end", {"others": "1"})

    assert [is_in(client) for client in (here, there, unlisted)] == [True, False, False]
    assert here.get("/settings/profile").content.decode().count("this one") == 1
    token = here.get("/settings").context["csrf_token"]
    assert here.delete("/api/v1/sessions", headers={"X-CSRFToken": str(token)}).status_code == 204
    assert is_in(here)


@pytest.mark.parametrize("by_admin", [True, False])
def test_another_password_leaves_no_other_session(by_admin: bool, admin: User, make_user: Callable[..., User]) -> None:
    mira = make_user("mira")
    here, there = sign_in("mira"), sign_in("mira")
    new = "another-password-1"
    if by_admin:
        services.set_password(user=mira, password=new, by=principal_for_user(admin))
    else:
        changed = {"current": "mira-password-1", "password": new, "repeated": new}
        assert here.post("/settings/password", changed).status_code == 302

    assert [is_in(here), is_in(there)] == [not by_admin, False]
    assert UserSession.objects.filter(user=mira).count() == (0 if by_admin else 1)
    services.set_active(user=mira, is_active=False, by=principal_for_user(admin))
    assert not UserSession.objects.filter(user=mira).exists()


def test_the_profile_says_who_somebody_is(admin: User, make_user: Callable[..., User], api_client: Any) -> None:
    mira = make_user("mira")
    services.set_group(name="stewards", usernames=["mira"], by=principal_for_user(admin))
    services.grant_role(repository="shop", user=mira, role="writer", by=None)
    page = sign_in("mira").get("/settings/profile").content.decode()
    assert all(text in page for text in ("mira", "stewards", "shop", "writer"))
    assert api_client(mira).get("/api/v1/profile").json() == {
        "username": "mira",
        "name": "",
        "email": "",
        "is_admin": False,
        "groups": ["stewards"],
        "provider": None,
    }
    assert Client().get("/settings/profile").status_code == 302
