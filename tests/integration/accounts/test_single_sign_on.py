"""Signing in by a real provider: who comes back is who the provider says, and whoever does not has lost nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from tests.factories.oidc import INES, OidcProvider, running_oidc_provider
from webapp.accounts import services
from webapp.accounts.models import AuditEntry, LoginFailure, ProviderIdentity
from webapp.accounts.queries import principal_for_user
from webapp.accounts.services.provider import _providers
from webapp.accounts.services.readings import flush_readings
from webapp.core.errors import Conflict

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
URL = "http://testserver"


@pytest.fixture(scope="module")
def oidc_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcProvider]:
    with running_oidc_provider(tmp_path_factory.mktemp("oidc"), url=URL) as provider:
        yield provider


@pytest.fixture
def oidc(oidc_process: OidcProvider, settings: Any) -> OidcProvider:
    for name, value in oidc_process.settings_for(URL).items():
        setattr(settings, name, value)
    oidc_process.set_accounts(ines=INES)
    return oidc_process


def go(client: Client, oidc: OidcProvider, *, login: str | None = "ines", next: str = "/settings") -> Any:
    """Go to the provider and come back."""
    leaving = client.get("/login/provider", {"next": next})
    assert leaving.status_code == 302, leaving.content
    return client.get(oidc.walk(leaving["Location"], login=login))


def list_entries(verb: str) -> list[tuple[str, str, str]]:
    flush_readings()
    return list(AuditEntry.objects.filter(verb=verb).order_by("pk").values_list("actor", "object", "outcome"))


def test_first_sign_in_makes_the_account_and_later_ones_follow_the_groups(oidc: OidcProvider, admin: User) -> None:
    client = Client()
    asked = parse_qs(urlsplit(client.get("/login/provider")["Location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert {"code_challenge", "nonce", "state"} <= asked.keys()

    assert go(client, oidc)["Location"] == "/settings"

    assert b"Signed in as <b>ines</b>" in client.get("/settings").content
    identity = ProviderIdentity.objects.select_related("user").get(issuer=oidc.issuer, subject="ines")
    user = identity.user
    assert (user.username, user.get_full_name(), user.email) == ("ines", "Inés Ruiz", "ines@example.org")
    assert not user.has_usable_password()
    assert [group.name for group in user.groups.all()] == ["stewards"]
    assert list_entries("sign_in") == [("ines", "ines", "allowed")]
    assert LoginFailure.objects.count() == 0

    by = principal_for_user(admin)
    services.set_group(name="owners", usernames=["ines"], by=by)
    services.set_group(name="reviewers", usernames=["ines"], by=by)
    oidc.set_accounts(ines={**INES, "groups": ["reviewers", "authors"], "email": "ines@example.com"})
    go(Client(), oidc)

    user.refresh_from_db()
    assert user.email == "ines@example.com"
    assert sorted(user.groups.values_list("name", flat=True)) == ["authors", "owners", "reviewers"]
    oidc.set_accounts(ines={**INES, "groups": []})
    go(Client(), oidc)
    assert sorted(user.groups.values_list("name", flat=True)) == ["owners", "reviewers"], "made by hand, and stay"
    assert Group.objects.filter(name="stewards").exists()


def test_a_group_of_the_provider_is_no_local_group_of_the_same_name(oidc: OidcProvider, admin: User) -> None:
    by = principal_for_user(admin)
    services.set_group(name="stewards", usernames=[], by=by)
    services.set_group(name="Authors", usernames=[], by=by)
    oidc.set_accounts(ines={**INES, "groups": ["stewards", "authors", "own\u200bers", "readers"]})
    go(Client(), oidc)
    user = ProviderIdentity.objects.get().user

    def list_groups() -> list[str]:
        return sorted(user.groups.values_list("name", flat=True))

    assert list_groups() == ["readers"]
    assert ("system", "ines", "refused") in list_entries("set_groups")
    services.set_group(name="stewards", usernames=[], provided=True, by=by)
    go(Client(), oidc)
    assert list_groups() == ["readers", "stewards"]
    services.set_group(name="stewards", usernames=[], provided=False, by=by)
    go(Client(), oidc)
    assert list_groups() == ["readers"]
    with pytest.raises(Conflict, match="unique without case"):
        services.set_group(name="READERS", usernames=[], by=by)


def test_the_admin_group_makes_admins_and_takes_back_what_it_gave(oidc: OidcProvider, settings: Any) -> None:
    settings.TRIBUTARY_OIDC_ADMIN_GROUP = "stewards"
    client = Client()
    go(client, oidc)
    assert client.get("/settings/users").status_code == 200

    oidc.set_accounts(ines={**INES, "groups": []})
    go(Client(), oidc)

    assert client.get("/settings/users").status_code == 403, "in the other session, too"
    assert [verb for verb in ("grant_admin", "revoke_admin") if list_entries(verb)] == ["grant_admin", "revoke_admin"]


def test_nobody_gets_the_account_of_another_by_name_or_address(
    oidc: OidcProvider, make_user: Callable[..., User]
) -> None:
    local = make_user("ines")
    local.email = "ines@example.org"
    local.save()
    client = Client()

    go(client, oidc)

    user = ProviderIdentity.objects.get().user
    assert user != local
    assert (user.username, user.email) == ("ines-2", "")


@pytest.mark.parametrize("what", ["no", "deactivated", "replayed", "other browser", "nonce", "secret", "bad issuer"])
def test_whoever_is_not_vouched_for_stays_outside_and_is_told_why(
    what: str, oidc: OidcProvider, settings: Any, make_user: Callable[..., User]
) -> None:
    client = Client()
    if what == "deactivated":
        go(Client(), oidc)
        services.set_active(
            user=ProviderIdentity.objects.get().user,
            is_active=False,
            by=principal_for_user(make_user("a", is_admin=True)),
        )
    leaving = client.get("/login/provider", {"next": "/settings"})["Location"]
    back = oidc.walk(leaving, login=None if what == "no" else "ines")
    if what == "replayed":
        assert client.get(back).status_code == 302
        client.post("/logout")
    elif what == "other browser":
        client = Client()
    elif what == "nonce":
        session = client.session
        (key,) = [key for key in session.keys() if key.startswith("_state_")]
        session[key]["data"]["nonce"] = "another"
        session.save()
    elif what == "secret":
        settings.TRIBUTARY_OIDC_CLIENT_SECRET = "wrong"
    elif what == "bad issuer":
        back = back.replace("iss=http", "iss=https")

    answer = client.get(back)

    code = {
        "no": "access_denied",
        "deactivated": "user_inactive",
        "replayed": "sign_in_lost",
        "other browser": "sign_in_lost",
        "nonce": "token_invalid",
    }.get(what, "provider_refused")
    assert answer.status_code == (400 if code == "sign_in_lost" else 403)
    page = answer.content.decode()
    assert f"<code>{code}</code>" in page
    assert "Try Example ID again" in page
    assert ("/login/provider?next=%2Fsettings" in page) is (code != "sign_in_lost")
    assert client.get("/settings").status_code == 302, "nobody is signed in"
    assert ("anonymous", "Example ID", "refused") in list_entries("sign_in")


def test_an_account_is_linked_from_the_profile_page_of_its_session_alone(
    oidc: OidcProvider, make_user: Callable[..., User]
) -> None:
    local, other = make_user("olek"), Client()
    client = Client()
    client.force_login(local)
    page = client.get("/settings/profile").content.decode()
    (link,) = re.findall(r"/login/provider\?link=([^\"]+)", page)
    other.force_login(make_user("mira"))
    for stranger in (Client(), other):
        assert stranger.get(f"/login/provider?link={link}").status_code == 403
    leaving = client.get(f"/login/provider?link={link}")
    back = oidc.walk(leaving["Location"], login="ines")

    assert client.get(back)["Location"] == "/settings/profile"

    assert "as <code>ines</code>" in client.get("/settings/profile").content.decode()
    assert go(Client(), oidc)["Location"] == "/settings"
    identity = ProviderIdentity.objects.get()
    assert identity.user == local
    assert [group.name for group in local.groups.all()] == ["stewards"]
    (link,) = re.findall(r"/login/provider\?link=([^\"]+)", other.get("/settings/profile").content.decode())
    taken = other.get(oidc.walk(other.get(f"/login/provider?link={link}")["Location"], login="ines"))
    assert (taken.status_code, "identity_taken" in taken.content.decode()) == (409, True)

    client.post("/settings/profile/unlink")

    assert not ProviderIdentity.objects.exists()
    assert not local.groups.exists()
    assert [entry[0] for verb in ("link_identity", "unlink_identity") for entry in list_entries(verb)] == ["olek"] * 2
    go(client, oidc)
    client.post("/settings/profile/unlink")
    assert ProviderIdentity.objects.get().user.username == "ines", "who has no password stays linked"


def test_a_provider_that_is_away_is_asked_once_and_passwords_still_work(
    oidc: OidcProvider, settings: Any, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRIBUTARY_OIDC_ISSUER = "http://127.0.0.1:9"
    client = Client()

    answer = client.get("/login/provider", {"next": "/settings"})

    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert b"Example ID does not answer now" in answer.content
    monkeypatch.setattr("webapp.accounts.services.provider._make_provider", lambda: pytest.fail("asked again"))
    assert client.get("/login/provider").status_code == 503
    assert "Sign in with Example ID" in client.get("/login").content.decode()
    assert client.post("/login", {"username": "admin", "password": "admin-password-1"}).status_code == 302
    _providers.note_away()


def test_with_the_provider_alone_passwords_open_the_accounts_of_admins_only(
    oidc: OidcProvider, settings: Any, admin: User, make_user: Callable[..., User]
) -> None:
    settings.TRIBUTARY_OIDC_ONLY = True
    make_user("mira")
    client = Client()

    assert "Sign in as an admin with a password" in client.get("/login").content.decode()
    assert client.post("/login", {"username": "mira", "password": "mira-password-1"}).status_code == 422
    assert client.post("/login", {"username": "admin", "password": "admin-password-1"}).status_code == 302


def test_signing_out_offers_to_leave_the_provider_too(oidc: OidcProvider) -> None:
    client = Client()
    go(client, oidc)

    assert client.post("/logout")["Location"] == "/login"

    assert client.get("/settings").status_code == 302
    assert "Sign out of Example ID" in client.get("/login").content.decode()
    way_out = urlsplit(client.get("/logout/provider")["Location"])
    assert f"{way_out.scheme}://{way_out.netloc}" == oidc.issuer
    asked = parse_qs(way_out.query)
    assert asked["post_logout_redirect_uri"] == [f"{URL}/login"]
    assert {"id_token_hint", "client_id"} <= asked.keys()
    assert client.get("/logout/provider")["Location"] == "/login", "once"


def test_the_way_there_begins_at_our_own_address_leads_to_no_other_host_and_is_limited(
    oidc: OidcProvider, settings: Any
) -> None:
    elsewhere = Client(HTTP_HOST="localhost").get("/login/provider", {"next": "/settings"})
    assert elsewhere["Location"] == f"{URL}/login/provider?next=%2Fsettings&here=1"

    assert go(Client(), oidc, next="https://elsewhere.example/")["Location"] == "/"

    client = Client()
    statuses = {client.get("/login/provider").status_code for _ in range(60)}
    assert statuses == {302, 429}
    settings.TRIBUTARY_OIDC_ISSUER = ""
    assert client.get("/login/provider").status_code == 404
