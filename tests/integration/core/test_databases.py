"""What both databases must have in common: refusals, and one chain of audit entries under many writers."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from django.db import DataError, InterfaceError, OperationalError, ProgrammingError, connection
from django.test import Client

from tests.factories.catalog import Catalog
from webapp.accounts.models import AuditEntry, Token
from webapp.accounts.services import create_token, record_audit
from webapp.accounts.services.audit import seal_audit
from webapp.accounts.services.checking import check_audit_chain
from webapp.core.failures import explain_failure
from webapp.core.fsck import Finding

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


def test_the_run_uses_the_database_that_it_says() -> None:
    url = os.environ.get("DATABASE_URL", "")
    assert connection.vendor == ("postgresql" if url.startswith("postgres") else "sqlite")


def test_errors_say_whose_mistake_it_is() -> None:
    def status(error: Exception) -> int | None:
        found = explain_failure(error)
        return None if found is None else found.status

    assert [status(error("x")) for error in (OperationalError, InterfaceError, DataError)] == [503, 503, 400]
    assert status(ProgrammingError("broken SQL is our mistake")) is None


@pytest.mark.parametrize(
    "where", ["webapp.accounts.queries.authenticate_person", "webapp.datasets.api.queries.list_datasets"]
)
def test_a_database_that_is_away_is_a_503(client: Client, admin: User, where: str) -> None:
    _row, secret = create_token(user=admin, name="t")
    client.raise_request_exception = False
    with mock.patch(where, side_effect=OperationalError("server closed the connection unexpectedly")):
        answer = client.get("/api/v1/datasets", headers={"Authorization": f"Bearer {secret}"})
    assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
    assert answer["Retry-After"]
    client.force_login(admin)
    with mock.patch("webapp.accounts.queries.principal_for_user", side_effect=OperationalError("gone")):
        page = client.get("/datasets")
    assert page.status_code == 503
    assert page["Retry-After"]


@pytest.mark.parametrize("text", ["\0", "a\0b", "x" * 3000, "\ud800"])
def test_text_that_a_database_cannot_hold_is_no_error_of_ours(
    client: Client, admin: User, home: Any, text: str
) -> None:
    _row, secret = create_token(user=admin, name="t")
    client.raise_request_exception = False
    headers = {"Authorization": f"Bearer {secret}"}
    catalog = Catalog(secret)
    catalog.create_namespace("shop")
    escaped = json.dumps(text).encode()
    answers = [
        client.get("/api/v1/datasets", {"path": text.encode("utf-8", "surrogatepass")}, headers=headers).status_code,
        client.post("/api/v1/tokens", b'{"name": %s}' % escaped, "application/json", headers=headers).status_code,
        client.post(
            "/api/v1/users",
            b'{"username": %s, "password": "a-long-password-1"}' % escaped,
            "application/json",
            headers=headers,
        ).status_code,
        client.post("/api/v1/repositories", b'{"name": %s}' % escaped, "application/json", headers=headers).status_code,
        catalog.call("POST", "namespaces", b'{"namespace": [%s]}' % escaped).status,
        catalog.call("POST", "namespaces", b'{"namespace": ["props"], "properties": {"a": %s}}' % escaped).status,
        catalog.call(
            "POST", "namespaces/shop/tables", b'{"name": %s, "schema": {"type": "struct", "fields": []}}' % escaped
        ).status,
        catalog.call("GET", "namespaces/shop/tables/a%00b").status,
        catalog.call("GET", "namespaces/a%00b").status,
    ]
    assert [status for status in answers if status >= 500] == []


def test_audit_entries_are_one_chain_under_many_writers(home: Any) -> None:
    def write(number: int) -> None:
        for turn in range(5):
            record_audit(by=None, verb="try", object=f"{number}.{turn}")
        connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    sealers = [threading.Thread(target=lambda: (seal_audit(), connection.close())) for _ in range(3)]
    for thread in sealers:
        thread.start()
    for thread in sealers:
        thread.join(60)
    assert sorted(AuditEntry.objects.values_list("position", flat=True)) == list(range(1, 31))
    assert [finding for finding in check_audit_chain() if isinstance(finding, Finding)] == []


def test_a_token_is_found_by_one_of_many_connections(admin: User) -> None:
    _row, secret = create_token(user=admin, name="t")
    seen: list[int] = []

    def look() -> None:
        seen.append(Catalog(secret).call("GET", "config").status)
        connection.close()

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert seen == [200] * 8
    assert Token.objects.count() == 1
