"""The REST API of accounts, and what every endpoint of the API shares."""

from __future__ import annotations

import base64
import socket
import subprocess
import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from django.db import OperationalError
from django.test import Client

from tests.factories.clients import read_pages
from webapp.accounts.models import Token, User
from webapp.core import clock
from webapp.core.idempotency import _let_go
from webapp.core.models import IdempotencyRecord
from webapp.core.processes import name_process

if TYPE_CHECKING:
    from rest_framework.test import APIClient

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
ClientFactory = Callable[..., "APIClient"]


def basic(username: str, password: str | None = None) -> dict[str, Any]:
    encoded = base64.b64encode(f"{username}:{password or f'{username}-password-1'}".encode()).decode()
    return {"HTTP_AUTHORIZATION": f"Basic {encoded}"}


def test_token_made_with_name_and_password_works(admin: User, api_client: ClientFactory) -> None:
    made = api_client().post("/api/v1/tokens", {"name": "ci", "scopes": ["read"]}, format="json", **basic("admin"))

    assert made.status_code == 201
    assert made.json()["scopes"] == ["read"]
    listed = Client().get("/api/v1/tokens", HTTP_AUTHORIZATION=f"Bearer {made.json()['token']}")
    assert [token["name"] for token in listed.json()["results"]] == ["ci"]
    assert "token" not in listed.json()["results"][0]


def test_token_cannot_make_tokens(admin: User, api_client: ClientFactory) -> None:
    answer = api_client(admin).post("/api/v1/tokens", {"name": "more"}, format="json")

    assert answer.status_code == 401
    assert answer.json()["code"] == "token_by_token"


def test_a_misspelled_scope_makes_no_token(admin: User, api_client: ClientFactory) -> None:
    answer = api_client().post("/api/v1/tokens", {"name": "x", "scope": "read"}, format="json", **basic("admin"))

    assert (answer.status_code, answer.json()["errors"]) == (400, {"scope": ["Did you mean 'scopes'?"]})
    assert not Token.objects.filter(name="x").exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x", "scopes": ["all"]}, "scopes"),
        ({"name": "x", "scopes": "read"}, "scopes"),
        ({"name": "x", "expires_at": "tomorrow"}, "expires_at"),
        ({"name": "x", "expires_at": ""}, "expires_at"),
        ({"name": "x", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
    ],
)
def test_token_with_bad_input_is_refused_by_field(
    admin: User, api_client: ClientFactory, body: dict[str, Any], field: str
) -> None:
    answer = api_client().post("/api/v1/tokens", body, format="json", **basic("admin"))

    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"
    assert field in answer.json()["errors"]


@pytest.mark.parametrize(
    ("header", "code"),
    [({}, "unauthenticated"), ({"HTTP_AUTHORIZATION": "Bearer trb_wrong"}, "token_unknown")],
)
def test_nobody_known_is_told_how_to_sign_in(client: Client, db: None, header: dict[str, str], code: str) -> None:
    answer = client.get("/api/v1/tokens", **header)

    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["WWW-Authenticate"].startswith("Bearer")
    problem = answer.json()
    assert problem["code"] == code
    assert {"type", "title", "status", "detail", "code"} <= set(problem)


def test_expired_token_says_that_it_expired(admin: User, client: Client) -> None:
    from webapp.accounts.models import Token
    from webapp.accounts.services import create_token

    token, secret = create_token(user=admin, name="old")
    Token.objects.filter(pk=token.pk).update(expires_at=clock.now() - timedelta(minutes=1))

    answer = client.get("/api/v1/tokens", HTTP_AUTHORIZATION=f"Bearer {secret}")

    assert answer.status_code == 401
    assert answer.json()["code"] == "token_expired"


def test_token_of_an_inactive_user_is_refused(make_user: Callable[..., User], api_client: ClientFactory) -> None:
    user = make_user("mira")
    client = api_client(user)
    user.is_active = False
    user.save()

    assert client.get("/api/v1/tokens").status_code == 401


def test_session_writes_need_the_form_token(admin: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(admin)

    answer = browser.post("/api/v1/tokens", {"name": "x"}, content_type="application/json")

    assert answer.status_code == 403
    assert browser.get("/api/v1/tokens").status_code == 200


def test_users_are_made_by_admins_only(admin: User, make_user: Callable[..., User], api_client: ClientFactory) -> None:
    body = {"username": "ines", "password": "a-long-enough-secret"}

    assert api_client(make_user("olek")).post("/api/v1/users", body, format="json").status_code == 403
    made = api_client(admin).post("/api/v1/users", body, format="json")
    assert made.status_code == 201
    assert "password" not in made.json()
    assert api_client(admin).post("/api/v1/users", body, format="json").status_code == 409
    weak = api_client(admin).post("/api/v1/users", {"username": "otto", "password": "1"}, format="json")
    assert weak.status_code == 422


def test_groups_hold_users(admin: User, make_user: Callable[..., User], api_client: ClientFactory) -> None:
    make_user("mira")

    made = api_client(admin).post("/api/v1/groups", {"name": "reviewers", "users": ["mira"]}, format="json")

    assert made.status_code == 201
    assert made.json()["users"] == ["mira"]
    unknown = api_client(admin).post("/api/v1/groups", {"name": "others", "users": ["who"]}, format="json")
    assert 400 <= unknown.status_code < 500


def test_audit_is_for_admins_and_names_the_actor(
    admin: User, make_user: Callable[..., User], api_client: ClientFactory
) -> None:
    api_client(admin).post("/api/v1/users", {"username": "ines", "password": "a-long-enough-secret"}, format="json")

    assert api_client(make_user("olek")).get("/api/v1/audit").status_code == 403
    newest = api_client(admin).get("/api/v1/audit?verb=create_user").json()["results"][0]
    assert (newest["actor"], newest["verb"], newest["object"]) == ("admin", "create_user", "ines")


def test_lists_are_paged_by_cursor(admin: User, make_user: Callable[..., User], api_client: ClientFactory) -> None:
    for name in ("a", "b", "c"):
        make_user(f"user-{name}")
    client = api_client(admin)

    users = chain.from_iterable(read_pages(client, "/api/v1/users?limit=3"))
    assert [user["username"] for user in users] == ["admin", "user-a", "user-b", "user-c"]
    for limit in ("0", "251", "²", "-1", "9" * 5000):
        assert client.get("/api/v1/users", {"limit": limit}).status_code == 400, limit
    for start in ("9" * 20, "²", "-1"):
        cursor = base64.urlsafe_b64encode(f"o{start}".encode()).decode()
        assert client.get("/api/v1/users", {"cursor": cursor}).json()["code"] == "bad_cursor"
    assert client.get("/api/v1/users?cursor=nonsense").json()["code"] == "bad_cursor"


class TestIdempotencyKey:
    """The same key and request: the same answer, done once."""

    body = {"username": "ines", "password": "a-long-enough-secret"}  # noqa: RUF012 - shared by the tests below

    def test_replay_answers_the_same_and_does_nothing(self, admin: User, api_client: ClientFactory) -> None:
        client = api_client(admin)

        first = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
        again = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        assert first.status_code == again.status_code == 201
        assert first.json() == again.json()
        assert again["Idempotent-Replay"] == "true"

    def test_a_clock_that_jumps_a_year_ahead_forgets_no_key(self, admin: User, api_client: ClientFactory) -> None:
        client = api_client(admin)
        first = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        with mock.patch.object(clock, "now", return_value=clock.now() + timedelta(days=365)):
            again = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        assert (first.status_code, again.status_code) == (201, 201), again.json()
        assert first.json() == again.json()

    def test_replay_of_a_refusal_is_the_same_refusal(self, admin: User, api_client: ClientFactory) -> None:
        client = api_client(admin)
        bad = {"username": "otto", "password": "1"}

        first = client.post("/api/v1/users", bad, format="json", HTTP_IDEMPOTENCY_KEY="k1")
        again = client.post("/api/v1/users", bad, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        assert first.status_code == again.status_code == 422
        assert first.json() == again.json()
        assert again["Content-Type"] == "application/problem+json"

    def test_key_with_another_body_is_refused(self, admin: User, api_client: ClientFactory) -> None:
        client = api_client(admin)
        client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        other = client.post(
            "/api/v1/users", {**self.body, "username": "otto"}, format="json", HTTP_IDEMPOTENCY_KEY="k1"
        )

        assert other.status_code == 422
        assert other.json()["code"] == "idempotency_reused"

    def test_key_of_a_process_that_died_before_the_act_is_free_again(
        self, admin: User, api_client: ClientFactory
    ) -> None:
        client = self.a_client_whose_first_request_died(admin, api_client, effect="")

        answer = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
        again = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        assert answer.status_code == again.status_code == 201
        assert again["Idempotent-Replay"] == "true"
        assert IdempotencyRecord.objects.get().effect

    def test_key_of_a_process_that_died_behind_the_act_says_that_it_was_done(
        self, admin: User, api_client: ClientFactory
    ) -> None:
        client = self.a_client_whose_first_request_died(admin, api_client, effect="ines")

        answer = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_done")
        assert answer.json()["object"] == "ines"
        assert not User.objects.filter(username="ines").exists()

    def test_key_of_a_request_that_failed_while_nothing_could_be_written_is_free_later(
        self, admin: User, api_client: ClientFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = api_client(admin)
        waiting: list[threading.Timer] = []

        def fail(*_arguments: object, **_more: object) -> None:
            raise OperationalError("database or disk is full")

        def fill(**_more: object) -> None:
            full.setattr("django.db.models.query.QuerySet.delete", fail)
            fail()

        with monkeypatch.context() as full:
            full.setattr("webapp.accounts.services.create_user", fill)
            full.setattr(threading.Timer, "start", lambda timer: waiting.append(timer))
            refused = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
        busy = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
        [timer] = waiting
        _let_go(*timer.args)
        answer = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        assert (refused.status_code, refused.json()["code"]) == (507, "storage_full")
        assert busy.json()["code"] == "idempotency_running"
        assert answer.status_code == 201

    def test_key_of_a_process_that_died_in_an_act_outside_the_database_is_busy_until_that_is_found_out(
        self, admin: User, api_client: ClientFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = self.a_client_whose_first_request_died(admin, api_client, effect="")
        undecided = {IdempotencyRecord.objects.get().pk}
        monkeypatch.setattr("webapp.core.idempotency._undecided", [undecided.__contains__])

        busy = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
        undecided.clear()
        answer = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        assert (busy.status_code, busy.json()["code"]) == (409, "idempotency_running")
        assert answer.status_code == 201

    def test_key_of_a_process_that_lives_is_busy(self, admin: User, api_client: ClientFactory) -> None:
        client = self.a_client_whose_first_request_died(admin, api_client, effect="", holder=name_process())

        answer = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_running")

    @pytest.mark.parametrize(
        ("lives", "status"), [pytest.param(True, 409, id="at work"), pytest.param(False, 201, id="abandoned")]
    )
    def test_a_key_that_looks_old_is_kept_while_it_is_worked_with(
        self, admin: User, api_client: ClientFactory, lives: bool, status: int
    ) -> None:
        holder = name_process() if lives else ""
        client = self.a_client_whose_first_request_died(admin, api_client, effect="", holder=holder)
        IdempotencyRecord.objects.update(created_at=clock.now() - timedelta(days=365))

        answer = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")

        assert answer.status_code == status, answer.json()

    def a_client_whose_first_request_died(
        self, admin: User, api_client: ClientFactory, *, effect: str, holder: str = ""
    ) -> APIClient:
        """A client; the record of its key is as kill -9 in the middle of the request leaves it."""
        client = api_client(admin)
        first = client.post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
        assert first.status_code == 201
        with subprocess.Popen(["sleep", "60"]) as process:
            process.kill()
            dead = f"{socket.gethostname()} {process.pid} 1"
        IdempotencyRecord.objects.update(
            status=0, content_type="", location="", body=b"", effect=effect, holder=holder or dead
        )
        User.objects.get(username="ines").delete()
        return client

    def test_keys_of_two_people_never_meet(
        self, admin: User, make_user: Callable[..., User], api_client: ClientFactory
    ) -> None:
        api_client(admin).post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
        other = make_user("second", is_admin=True)

        answer = api_client(other).post(
            "/api/v1/users", {**self.body, "username": "otto"}, format="json", HTTP_IDEMPOTENCY_KEY="k1"
        )

        assert answer.status_code == 201

    def test_secret_is_never_replayed(self, admin: User, api_client: ClientFactory) -> None:
        browser = api_client()
        headers = {**basic("admin"), "HTTP_IDEMPOTENCY_KEY": "k1"}

        first = browser.post("/api/v1/tokens", {"name": "ci"}, format="json", **headers)
        again = browser.post("/api/v1/tokens", {"name": "ci"}, format="json", **headers)

        assert first.status_code == 201
        assert again.status_code == 409
        assert first.json()["token"] not in again.content.decode()
        secret = first.json()["token"]
        listed = Client().get("/api/v1/tokens", HTTP_AUTHORIZATION=f"Bearer {secret}")
        assert len(listed.json()["results"]) == 1

    def test_empty_key_is_refused(self, admin: User, api_client: ClientFactory) -> None:
        answer = api_client(admin).post("/api/v1/users", self.body, format="json", HTTP_IDEMPOTENCY_KEY="")

        assert answer.status_code == 400


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"'])
def test_body_that_is_no_object_is_a_problem(admin: User, api_client: ClientFactory, body: bytes) -> None:
    answer = api_client(admin).post("/api/v1/users", body, content_type="application/json")

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"


def test_unknown_address_and_method_are_problems(admin: User, api_client: ClientFactory) -> None:
    client = api_client(admin)

    assert client.get("/api/v1/nothing").json()["code"] == "not_found"
    assert client.delete("/api/v1/users").status_code == 405
    assert client.delete("/api/v1/users")["Content-Type"] == "application/problem+json"


def test_token_of_a_job_opens_no_page_of_the_api(admin: User, client: Client) -> None:
    from webapp.accounts.services import create_token
    from webapp.core.principals import JobScope

    scope = JobScope(job_id="abc", branch="_job/abc", base_branch="fix", chain=("fix", "master"))
    _, secret = create_token(user=admin, name="job abc", job_scope=scope)

    answer = client.get("/api/v1/users", HTTP_AUTHORIZATION=f"Bearer {secret}")

    assert answer.status_code == 403
    assert answer.json()["code"] == "job_token"


def test_tokens_of_jobs_are_not_listed(admin: User, api_client: ClientFactory) -> None:
    from webapp.accounts.services import create_token
    from webapp.core.principals import JobScope

    scope = JobScope(job_id="abc", branch="_job/abc", base_branch="fix", chain=("fix", "master"))
    create_token(user=admin, name="job abc", job_scope=scope)

    listed = api_client(admin).get("/api/v1/tokens").json()["results"]

    assert [token["name"] for token in listed] == ["test"]


def test_passwords_cannot_be_tried_for_ever_through_the_api(admin: User, api_client: ClientFactory) -> None:
    seen = {
        api_client().post("/api/v1/tokens", {"name": "x"}, format="json", **basic("admin", "wrong")).status_code
        for _ in range(20)
    }

    assert seen == {401, 429}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("users", {"username": 5, "password": "a-long-password-1"}, "username"),
        ("users", {"username": "x" * 151, "password": "a-long-password-1"}, "username"),
        ("users", {"username": "ines", "password": ["a-long-password-1"]}, "password"),
        ("users", {"password": "a-long-password-1"}, "username"),
        ("groups", {"name": {"a": 1}}, "name"),
        ("groups", {"name": "g", "users": "admin"}, "users"),
        ("groups", {"name": "g", "users": [1]}, "users"),
    ],
)
def test_bodies_of_other_types_are_refused_by_field(
    api_client: Callable[..., APIClient], admin: User, path: str, body: dict[str, Any], field: str
) -> None:
    answer = api_client(admin).post(f"/api/v1/{path}", body, format="json")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
    assert type(admin).objects.count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": ["a"]}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a", "scopes": "read"}, "scopes"),
        ({"name": "a", "scopes": ["everything"]}, "scopes"),
        ({"name": "a", "expires_at": "2030-13-45T00:00:00Z"}, "expires_at"),
        ({"name": "a", "expires_at": "9999-12-31T23:59:59-14:00"}, "expires_at"),
        ({"name": "a", "expires_at": "2030-01-01T00:00:00"}, "expires_at"),
        ({"name": "a", "expires_at": "2000-01-01T00:00:00Z"}, "expires_at"),
    ],
)
def test_bad_tokens_are_refused_by_field(client: Client, admin: User, body: dict[str, Any], field: str) -> None:
    basic = base64.b64encode(b"admin:admin-password-1").decode()
    answer = client.post("/api/v1/tokens", body, "application/json", headers={"Authorization": f"Basic {basic}"})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])


@pytest.mark.parametrize(
    "header", ["Basic \xff", "Basic \xff\xfe=", "Basic", "Basic ====", "Basic Zm9v", "basic \u00e9"]
)
def test_basic_header_that_cannot_be_read_is_a_401(client: Client, db: None, header: str) -> None:
    answer = client.post("/api/v1/tokens", {"name": "x"}, "application/json", HTTP_AUTHORIZATION=header)

    assert answer.status_code == 401


@pytest.mark.parametrize("length", ["9" * 5000, "²", "-1", "1e9"])
def test_length_that_is_no_number_is_refused(admin: User, api_client: ClientFactory, length: str) -> None:
    headers = {"CONTENT_LENGTH": length, "HTTP_IDEMPOTENCY_KEY": "k1"}
    answer = api_client(admin).generic("POST", "/api/v1/users", b"{}", "application/json", **headers)

    assert 400 <= answer.status_code < 500


def test_reading_token_neither_revokes_nor_is_revoked_by_a_writing_one(admin: User, api_client: ClientFactory) -> None:
    from webapp.accounts.models import Token

    victim = Token.objects.create(user=admin, name="victim", digest="d")
    for scope in ("read", "write"):
        answer = api_client(admin, scopes=[scope]).delete(f"/api/v1/tokens/{victim.pk}")
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
    assert api_client(admin, scopes=["maintain"]).delete(f"/api/v1/tokens/{victim.pk}").status_code == 204
