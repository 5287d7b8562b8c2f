"""The catalog beside Django's request cycle: an ASGI application over the same handlers, in a pool of threads."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections

from webapp.catalog.api.handlers import handle
from webapp.catalog.api.http import MAX_BODY, CatalogRequest, CatalogResponse

Message = MutableMapping[str, Any]
BASE = "/iceberg"
THREADS = 8

_pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="catalog")


async def application(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answer one request to `/iceberg/...`."""
    request = CatalogRequest(
        method=scope["method"],
        raw_path=raw_path(scope),
        raw_query=scope["query_string"].decode("latin-1"),
        headers=[(key.decode("latin-1").lower(), value.decode("latin-1")) for key, value in scope["headers"]],
        body=await _body(receive),
    )
    response = await asyncio.get_running_loop().run_in_executor(_pool, _handle, request)
    headers = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in response.headers]
    # The length of an answer without a body is no secret, except where the status forbids the header.
    if response.status not in (204, 304):
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def raw_path(scope: Message) -> str:
    """The path as it was sent, relative to the catalog's base."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path: str = raw.decode("latin-1").partition("?")[0]
    return path.removeprefix(BASE)


async def _body(receive: Callable[[], Awaitable[Message]]) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        # One byte more than allowed is enough for the handler to refuse; the rest is read and dropped.
        body += message.get("body", b"")[: MAX_BODY + 1 - len(body)]
        if not message.get("more_body") or message["type"] == "http.disconnect":
            return bytes(body)


def _handle(request: CatalogRequest) -> CatalogResponse:
    close_old_connections()
    return handle(request)
