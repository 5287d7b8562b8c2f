"""A database that is busy for a while: what a request notes is written later, and a job is put back, not failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from webapp.accounts import queries
from webapp.accounts.models import Token
from webapp.core import clock, databases
from webapp.core.databases import keep_trying
from webapp.core.later import Later

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration]


@pytest.mark.django_db
def test_a_request_by_token_writes_nothing(api_client: Callable[..., Any], admin: User) -> None:
    client = api_client(admin)
    with CaptureQueriesContext(connection) as captured:
        assert client.get("/api/v1/tokens").status_code == 200
    writes = [query["sql"] for query in captured if query["sql"].split()[0] in {"UPDATE", "INSERT", "DELETE", "BEGIN"}]
    assert writes == []
    token = Token.objects.get(user=admin)
    assert token.last_used_at is None
    queries.token_uses.flush()
    token.refresh_from_db()
    assert token.last_used_at is not None


@pytest.mark.django_db
def test_of_two_processes_the_later_use_stays(api_client: Callable[..., Any], admin: User) -> None:
    api_client(admin)
    token = Token.objects.get(user=admin)
    early, late = clock.now() - timedelta(minutes=5), clock.now()
    here, there = Later(queries._write_uses), Later(queries._write_uses)
    here.note(token.pk, early)
    there.note(token.pk, late)
    there.flush()
    here.flush()
    token.refresh_from_db()
    assert token.last_used_at == late


def test_what_a_busy_database_does_not_take_is_kept_with_what_came_since() -> None:
    written: list[dict[int, datetime]] = []
    first, second = clock.now() - timedelta(minutes=2), clock.now()

    def write(noted: Any) -> None:
        written.append(dict(noted))
        if len(written) == 1:
            later.note(1, second)
            raise OperationalError("database is locked")

    later = Later(write)
    later.note(1, first)
    later.note(2, first)
    later.flush()
    later.flush()
    later.flush()
    assert written == [{1: first, 2: first}, {1: second, 2: first}]


@pytest.mark.django_db(transaction=True)
def test_what_meets_a_busy_database_is_repeated_until_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "PAUSE_S", 0.01)
    tries: list[float] = []

    def act() -> str:
        tries.append(time.monotonic())
        if len(tries) < 4:
            raise OperationalError("database is locked")
        return "done"

    assert keep_trying(act, seconds=30) == "done"
    with pytest.raises(OperationalError):
        keep_trying(lambda: (_ for _ in ()).throw(OperationalError("locked")), seconds=0.05)


@pytest.mark.django_db
def test_nothing_is_repeated_within_somebodys_block() -> None:
    tries = []

    def act() -> None:
        tries.append(threading.get_ident())
        raise OperationalError("database is locked")

    with pytest.raises(OperationalError):
        keep_trying(act, seconds=30)
    assert len(tries) == 1
