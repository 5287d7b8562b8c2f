"""What the event loop answers by itself: that it does, that it counts it, and what ends it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from tests.factories.catalog import Catalog, table_path
from tests.integration.catalog.test_catalog_servers import call
from webapp.accounts.models import AuditEntry
from webapp.accounts.queries import principal_for_user
from webapp.accounts.services import claim_folder, create_token, grant_role
from webapp.accounts.services.people import revoke_token_of, set_active
from webapp.accounts.services.readings import flush_readings
from webapp.catalog.api import asgi
from webapp.catalog.api.http import CatalogRequest, CatalogResponse
from webapp.core import clock

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
TABLE = f"/iceberg/v1/{table_path('shop.orders')}".encode()
LIST = b"/iceberg/v1/namespaces/shop/tables"


class Door:
    """The ASGI application as the holder of one token calls it."""

    def __init__(self, token: str, counts: Counter[str]) -> None:
        self._token = token
        self._counts = counts

    def ask(self, path: bytes, **headers: str) -> tuple[int, dict[bytes, bytes], bytes]:
        """Status, headers and body."""
        lines = {"authorization": f"Bearer {self._token}", **headers}
        return call(path, headers=[(name.encode(), value.encode()) for name, value in lines.items()])

    def count_made(self, path: bytes, **headers: str) -> int:
        """How many of two more of the same requests take a thread; both have the same answer."""
        before = self._counts.total()
        assert self.ask(path, **headers) == self.ask(path, **headers)
        return self._counts.total() - before


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts what is answered by threads, by path."""
    counts: Counter[str] = Counter()
    handle = asgi.handle

    def count(request: CatalogRequest) -> CatalogResponse:
        counts[request.raw_path] += 1
        return handle(request)

    monkeypatch.setattr(asgi, "handle", count)
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL does not tell its version, and every answer is made")
    return counts


@pytest.fixture
def orders(catalog: Catalog) -> Catalog:
    """A table with a snapshot."""
    catalog.create_table("shop.orders")
    catalog.append("shop.orders")
    return catalog


@pytest.fixture
def door(orders: Catalog, counts: Counter[str]) -> Door:
    """The admin's."""
    return Door(orders.token, counts)


@pytest.mark.parametrize(
    "path",
    [
        TABLE,
        LIST,
        b"/iceberg/v1/config",
        b"/iceberg/v1/namespaces",
        b"/iceberg/v1/namespaces/shop",
        b"/iceberg/v1/namespaces/shop/views",
    ],
)
def test_what_has_not_changed_is_answered_without_a_thread(door: Door, orders: Catalog, path: bytes) -> None:
    first = door.ask(path)
    assert first[0] == 200
    assert door.count_made(path) == 0
    assert door.ask(path) == first
    # Anything may be meant by another header: somebody asks it for the first time.
    assert door.count_made(path, other="x") == 1
    # Whatever changes, and be it nothing to do with this.
    orders.create_namespace("elsewhere")
    assert door.count_made(path) == 1


def test_a_commit_ends_it_and_so_does_one_on_a_branch(door: Door, orders: Catalog) -> None:
    before = json.loads(door.ask(TABLE)[2])["metadata-location"]
    on_branch = door.ask(TABLE, **{"x-pltr-branch": "b"})
    assert door.count_made(TABLE, **{"x-pltr-branch": "b"}) == 0
    assert orders.on("b").append("shop.orders").status == 200
    assert json.loads(door.ask(TABLE)[2])["metadata-location"] != before
    assert door.ask(TABLE, **{"x-pltr-branch": "b"})[2] != on_branch[2]
    tag = door.ask(TABLE)[1][b"etag"].decode()
    assert door.ask(TABLE, **{"if-none-match": tag})[0] == 304
    assert door.count_made(TABLE, **{"if-none-match": tag}) == 0
    assert orders.append("shop.orders").status == 200
    assert door.ask(TABLE, **{"if-none-match": tag})[0] == 200


def test_refusals_and_what_is_not_there_are_never_repeated(door: Door) -> None:
    for path, status in ((b"/iceberg/v1/namespaces/shop/tables/none", 404), (b"/iceberg/v1/nowhere", 404)):
        assert door.ask(path)[0] == status
        assert door.count_made(path) == 2
    assert Door("nobodys", door._counts).count_made(TABLE) == 2


def test_every_time_is_in_the_audit_log(door: Door) -> None:
    flush_readings()
    AuditEntry.objects.filter(verb="load_table").delete()
    for _ in range(5):
        assert door.ask(TABLE)[0] == 200
    door.ask(LIST)
    assert door._counts[TABLE.decode().removeprefix("/iceberg")] < 5
    flush_readings()
    rows = AuditEntry.objects.filter(verb="load_table").values_list("actor", "object", "count")
    assert sum(count for _actor, _object, count in rows) == 5
    assert {(actor, name) for actor, name, _count in rows} == {("admin", "/shop/orders")}


def test_rights_and_tokens_end_at_once(
    orders: Catalog, counts: Counter[str], make_user: Callable[..., User], admin: User
) -> None:
    claim_folder(folder="shop", repository="shop")
    user = make_user("mira")
    grant_role(repository="shop", user=user, role="reader", by=None)
    mira = Door(create_token(user=user, name="t")[1], counts)

    def fill() -> None:
        for path in (TABLE, LIST):
            assert mira.ask(path)[0] == 200
            assert mira.count_made(path) == 0

    fill()
    grant_role(repository="shop", user=user, role=None, by=None)
    assert (mira.ask(TABLE)[0], mira.ask(LIST)[0]) == (404, 404)
    grant_role(repository="shop", user=user, role="reader", by=None)
    fill()
    by = principal_for_user(admin)
    set_active(user=user, is_active=False, by=by)
    assert (mira.ask(TABLE)[0], mira.ask(LIST)[0]) == (401, 401)
    set_active(user=user, is_active=True, by=by)
    token, secret = create_token(user=user, name="again")
    mira = Door(secret, counts)
    fill()
    revoke_token_of(token_id=token.pk, by=by)
    assert (mira.ask(TABLE)[0], mira.ask(LIST)[0]) == (401, 401)


def test_a_token_ends_when_its_time_is_over_though_nothing_changes(
    door: Door, counts: Counter[str], admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.now()
    _token, secret = create_token(user=admin, name="short", expires_at=now + timedelta(seconds=30))
    short = Door(secret, counts)
    assert short.ask(LIST)[0] == 200
    assert short.count_made(LIST) == 0
    for name in ("now", "shared_now"):
        monkeypatch.setattr(clock, name, lambda: now + timedelta(seconds=30))
    assert short.ask(LIST)[0] == 401
    assert door.ask(LIST)[0] == 200


def test_an_answer_is_made_anew_each_minute_so_that_a_tokens_use_is_noted(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert door.ask(LIST)[0] == 200
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(minutes=1))
    assert door.count_made(LIST) == 1
