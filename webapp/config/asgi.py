"""One port, three halves: event streams and Git under Django's ASGI, the catalog beside Django, the rest under WSGI.

Django's ordinary views are many times slower under ASGI than in WSGI threads; streams would hold a thread each.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from a2wsgi import WSGIMiddleware
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
STREAMED = ("/events/", "/git/")
CATALOG = "/iceberg"

streams = get_asgi_application()
pages = WSGIMiddleware(get_wsgi_application(), workers=8)

from webapp.catalog.api.asgi import application as catalog  # noqa: E402 - after the apps are ready


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Hand a connection to the half that serves it."""
    if scope["type"] == "lifespan":
        await _answer_lifespan(receive, send)
    elif scope["type"] != "http":
        await send({"type": "websocket.close"})
    elif scope["path"].startswith(STREAMED):
        await streams(dict(scope), receive, send)  # type: ignore[arg-type]  # its Send is narrower than ASGI's
    elif scope["path"] == CATALOG or scope["path"].startswith(CATALOG + "/"):
        await catalog(scope, receive, send)
    else:
        await pages(scope, _receive_as_coroutine(receive), send)


def _receive_as_coroutine(receive: Receive) -> Receive:
    """Granian answers with a future; the WSGI bridge hands it to another thread, which takes coroutines only."""

    async def wrapped() -> MutableMapping[str, Any]:
        return await receive()

    return wrapped


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
