"""The two adapters: ASGI beside Django, and a Django view. Both hand the same raw request to the same handlers."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.factories.catalog import Catalog
from webapp.catalog.api import asgi
from webapp.catalog.api.http import CatalogRequest, CatalogResponse

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


def call(
    path: bytes, *chunks: bytes, method: str = "GET", headers: Any = (), query: bytes = b"", raw: bool = True
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Send one request through the ASGI application."""
    sent: list[Any] = []
    bodies = list(chunks) or [b""]
    scope = {"type": "http", "method": method, "path": path.decode(), "query_string": query, "headers": list(headers)}
    if raw:
        scope["raw_path"] = path

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": bodies.pop(0), "more_body": bool(bodies)}

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
    headers = [(b"X-PLTR-Branch", b"a"), (b"x-pltr-branch", b"b")]
    status, answered, body = call(
        b"/iceberg/v1/namespaces/a%1Fb%2Fc?x", b"12", b"34", method="POST", headers=headers, query=b"x=%1F"
    )
    assert (status, answered, body) == (200, {b"etag": b'"x"', b"content-length": b"2"}, b"{}")
    assert seen[0].raw_path == "/v1/namespaces/a%1Fb%2Fc"
    assert seen[0].raw_query == "x=%1F"
    assert seen[0].body == b"1234"
    assert seen[0].header_values("x-pltr-branch") == ["a", "b"]
    call(b"/iceberg/v1/config", raw=False)
    assert seen[1].raw_path == "/v1/config"


def test_a_body_beyond_the_limit_is_refused_without_being_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "MAX_BODY", 10)
    monkeypatch.setattr("webapp.catalog.api.handlers.MAX_BODY", 10)
    status, _headers, body = call(b"/iceberg/v1/namespaces", *[b"x" * 8] * 100, method="POST")
    assert (status, json.loads(body)["error"]["code"]) == (413, 413)


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
