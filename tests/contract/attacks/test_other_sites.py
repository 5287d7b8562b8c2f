"""Pages of other sites: no form of theirs is taken, no link of theirs changes anything, and a session opens neither catalog nor Git.

Addresses come from the table of addresses, openapi.json and the catalog's list of endpoints: a new one is attacked by itself.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from django.test.utils import CaptureQueriesContext

from tests.factories.everything import BODIES, Upload, World, fill_endpoint, list_operations, list_pages, make_world
from tests.factories.rows import digest_rows, list_refs
from webapp.accounts.rules.scopes import READING_METHODS
from webapp.catalog.rules.endpoints import ENDPOINTS
from webapp.core.errors import AppError
from webapp.repositories.views import git_http

pytestmark = [pytest.mark.contract, pytest.mark.django_db, pytest.mark.timeout(900)]
KEPT = {"accounts_auditentry", "pulls_comparison"}
"""Reading is noted, and an answer that takes a job is computed when it is first asked for: neither changes what anybody wrote."""
WRITE = re.compile(r'(?:INSERT INTO|UPDATE|DELETE FROM)\s+"(\w+)"')
OURS, THEIRS = "http://testserver", "https://other.example"
HEALTH = ("/healthz", "/readyz")


@pytest.fixture
def world(readers: Path) -> World:
    return make_world()


class Browser:
    """A person's browser that refuses nothing by itself, with the secret that our forms carry."""

    def __init__(self, world: World, role: str) -> None:
        self.client = Client(enforce_csrf_checks=True, raise_request_exception=False)
        self.client.force_login(world.users[role])
        page = self.client.get("/settings").content.decode()
        secret = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert secret is not None
        self.secret = secret[1]

    def send(self, write: Write, *, query: str = "", secret: str = "", **headers: str) -> int:
        sent = {"X-CSRFToken": secret, **headers} if secret else headers
        answer = self.client.generic(write.method, write.address + query, write.body, write.kind, headers=sent)
        return int(answer.status_code)


@dataclass(frozen=True)
class Write:
    """A request that changes something."""

    method: str
    address: str
    body: bytes = b"{}"
    kind: str = "application/json"


def list_writes(world: World) -> Iterator[Write]:
    yield from (Write("POST", world.address(path)) for path in list_pages() if path not in HEALTH)
    for method, path in list_operations():
        body = BODIES.get(f"{method} {path}", {})
        if isinstance(body, Upload):
            content = encode_multipart(BOUNDARY, body)
            yield Write(method, world.address(path), content, MULTIPART_CONTENT)
        elif method not in READING_METHODS:
            yield Write(method, world.address(path), json.dumps(body).encode())


def test_no_form_of_another_site_is_taken(world: World) -> None:
    browser = Browser(world, "reader")
    taken = []
    writes = list(list_writes(world))
    before = digest_rows(), list_refs()
    for write in writes:
        attacks = {
            "without the secret": browser.send(write, Origin=OURS),
            "with another secret": browser.send(write, secret="a" * 64, Origin=OURS),
            "with the secret in the address": browser.send(
                write, query=f"?csrfmiddlewaretoken={browser.secret}", Origin=OURS
            ),
            "from another site": browser.send(write, secret=browser.secret, Origin=THEIRS),
            "from nowhere": browser.send(write, secret=browser.secret, Origin="null"),
            "with a key": browser.send(write, Origin=OURS, **{"Idempotency-Key": "k1"}),
        }
        taken += [(write.method, write.address, attack, status) for attack, status in attacks.items() if status != 403]
    assert taken == []
    assert (digest_rows(), list_refs()) == before
    # The same from our own pages gets past: what was refused above was refused for where it came from.
    ours = [browser.send(write, secret=browser.secret, Origin=OURS) for write in writes]
    assert sum(status != 403 for status in ours) > len(ours) / 2


def test_no_link_changes_anything(world: World) -> None:
    people = [Client(raise_request_exception=False) for _ in range(2)]
    for client, role in zip(people, ("admin", "reader"), strict=True):
        client.force_login(world.users[role])
    addresses = [world.address(path) for path in list_pages()]
    addresses += [world.address(path) for method, path in list_operations() if method == "GET"]
    changed = []
    before = digest_rows(), list_refs()
    query = "?_method=DELETE&method=DELETE&form=description&act=deactivate"
    for client, address, headers in itertools.product(people, addresses, ({}, {"HX-Request": "true"})):
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(address + query, headers={**headers, "X-HTTP-Method-Override": "DELETE"})
            if answer.streaming:
                b"".join(answer)  # type: ignore[call-overload]
        written = {table for statement in queries for table in WRITE.findall(statement["sql"])}
        changed += [(address, table) for table in written - KEPT]
    assert changed == []
    after = digest_rows(), list_refs()
    assert {table for table in before[0] if before[0][table] != after[0][table]} <= KEPT
    assert before[1] == after[1]


def test_a_session_opens_no_catalog_and_no_git(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    client.force_login(world.users["admin"])
    for endpoint in ENDPOINTS:
        answer = client.generic(endpoint.method, fill_endpoint(endpoint.path), b"{}", "application/json")
        expected = 400 if endpoint.operation == "getToken" else 401
        assert answer.status_code == expected, (endpoint.operation, answer.status_code)
    monkeypatch.setattr(git_http, "close_old_connections", lambda: None)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    for service in ("git-upload-pack", "git-receive-pack"):
        scope: dict[str, Any] = {
            "method": "GET",
            "path": "/git/shop.git/info/refs",
            "query_string": f"service={service}".encode(),
            "headers": [(b"cookie", cookie.encode())],
        }
        with pytest.raises(AppError) as refusal:
            git_http._enter(git_http._Call.of(scope))
        assert refusal.value.status == 401


def test_no_address_takes_a_token(world: World) -> None:
    secret = world.secrets["admin", ""]
    query = f"?token={secret}&access_token={secret}&authorization=Bearer+{secret}&auth_token={secret}"
    for method, path in list_operations():
        answer = Client().generic(method, world.address(path) + query, b"{}", "application/json")
        assert answer.status_code == 401, (method, path, answer.status_code)
    for path in list_pages():
        answer = Client().get(world.address(path) + query)
        is_open = path in HEALTH or path.startswith(("/login", "/logout/provider"))
        assert is_open or answer.status_code in (302, 405), (path, answer.status_code)
    for endpoint in ENDPOINTS:
        answer = Client().generic(endpoint.method, fill_endpoint(endpoint.path) + query, b"{}", "application/json")
        assert answer.status_code in (400, 401), endpoint.operation
