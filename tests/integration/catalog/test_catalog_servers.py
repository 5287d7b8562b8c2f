"""The two adapters: ASGI beside Django, and a Django view. Both hand the same raw request to the same handlers."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.factories.catalog import Catalog, table_path
from webapp.catalog.api import asgi
from webapp.catalog.api.http import CatalogRequest, CatalogResponse
from webapp.runtime.web import bodies
from webapp.runtime.web.gates import Gate

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


def call(
    path: bytes,
    *chunks: bytes,
    method: str = "GET",
    headers: Any = (),
    query: bytes = b"",
    raw: bool = True,
    left: list[bytes] | None = None,
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Send one request through the ASGI application; what it does not read until it answers stays in `left`."""
    sent: list[Any] = []
    pieces = left if left is not None else list(chunks) or [b""]
    scope = {"type": "http", "method": method, "path": path.decode(), "query_string": query, "headers": list(headers)}
    if raw:
        scope["raw_path"] = path

    async def receive() -> dict[str, Any]:
        if sent:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        sent.append(message)

    # A thread of its own: Playwright's event loop may run in this one since the browser tests.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, asgi.application(scope, receive, send)).result()
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def test_a_request_reaches_the_handlers_as_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CatalogRequest] = []

    def handle(request: CatalogRequest) -> CatalogResponse:
        seen.append(request)
        return CatalogResponse(200, b"{}", (("etag", '"x"'),))

    monkeypatch.setattr(asgi, "handle", handle)
    headers = [(b"X-PLTR-Branch", b"a"), (b"x-pltr-branch", b"b"), (b"authorization", b"Bearer a")]
    status, answered, body = call(
        b"/iceberg/v1/namespaces/a%1Fb%2Fc/properties?x", b"12", b"34", method="POST", headers=headers, query=b"x=%1F"
    )
    assert (status, answered, body) == (200, {b"etag": b'"x"', b"content-length": b"2"}, b"{}")
    assert seen[0].raw_path == "/v1/namespaces/a%1Fb%2Fc/properties"
    assert seen[0].raw_query == "x=%1F"
    assert seen[0].body == b"1234"
    assert seen[0].header_values("x-pltr-branch") == ["a", "b"]
    call(b"/iceberg/v1/config", raw=False)
    assert seen[1].raw_path == "/v1/config"


def test_the_token_is_checked_before_a_body_is_read(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "MAX_BODY", 100_000)
    chunks = [b"x" * 20_000] * 10
    length = (b"content-length", b"200000")

    def send(*headers: tuple[bytes, bytes]) -> tuple[int, int]:
        left = list(chunks)
        status, _headers, body = call(b"/iceberg/v1/namespaces", left=left, method="POST", headers=headers)
        assert status == json.loads(body)["error"]["code"]
        return status, len(chunks) - len(left)

    assert send(length) == (401, 0)
    assert send(length, (b"authorization", b"Bearer nobodys")) == (401, 0)
    assert send((b"authorization", b"Bearer nobodys")) == (401, 1)
    known = (b"authorization", f"Bearer {catalog.token}".encode())
    assert send(length, known) == (413, 0)
    assert send(known) == (413, 6)
    assert bodies.memory.held == 0


def test_a_body_is_refused_where_there_is_none(catalog: Catalog) -> None:
    headers = [(b"authorization", f"Bearer {catalog.token}".encode()), (b"content-length", b"2")]
    for method in ("GET", "HEAD", "DELETE"):
        assert call(b"/iceberg/v1/namespaces/shop", b"{}", method=method, headers=headers)[0] == 400


def test_who_finds_too_many_waiting_is_told_when_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "gate", Gate("none", threads=1, waiting=-1))
    status, headers, body = call(b"/iceberg/v1/config")
    assert (status, headers[b"retry-after"]) == (503, b"1")
    assert json.loads(body)["error"]["type"] == "ServiceUnavailableException"


def test_a_request_that_ends_before_its_body_does_has_no_effect(catalog: Catalog) -> None:
    headers = [(b"authorization", f"Bearer {catalog.token}".encode()), (b"content-length", b"99")]
    body = b'{"namespace":["half"]}'
    status, _headers, answer = call(b"/iceberg/v1/namespaces", body, method="POST", headers=headers)
    assert (status, "ended before" in answer.decode()) == (400, True)
    assert catalog.call("GET", "namespaces/half").status == 404


def test_an_answer_without_a_body_has_no_length(catalog: Catalog) -> None:
    headers = [(b"authorization", f"Bearer {catalog.token}".encode())]
    status, answered, body = call(b"/iceberg/v1/namespaces/shop", method="HEAD", headers=headers)
    assert (status, body) == (204, b"")
    assert b"content-length" not in answered


def test_who_lost_a_race_waits_for_the_answer_and_nobody_else_does(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asgi.asyncio, "sleep", pause)
    headers = [(b"authorization", f"Bearer {catalog.token}".encode())]
    catalog.create_table("shop.raced")

    def commit(**requirement: Any) -> int:
        body = json.dumps({"requirements": [requirement], "updates": []}).encode()
        return call(f"/iceberg/v1/{table_path('shop.raced')}".encode(), body, method="POST", headers=headers)[0]

    assert commit(type="assert-current-schema-id", **{"current-schema-id": 0}) == 200
    assert commit(type="nothing") == 400
    assert pauses == []
    assert commit(type="assert-current-schema-id", **{"current-schema-id": 9}) == 409
    (waited,) = pauses
    assert 0 < waited < 0.1
