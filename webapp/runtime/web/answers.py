"""Answers that the event loop gives by itself, without a thread: refusals, and that it is alive."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import lru_cache
from typing import Any

from django.template.loader import render_to_string

from webapp.core.errors import AppError
from webapp.core.problems import describe_problem, list_headers

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
PROGRAMS = ("/api/", "/events/")
TEXT = "text/plain; charset=utf-8"


async def send_answer(
    send: Send, *, status: int, body: bytes, kind: str, headers: Iterable[tuple[str, str]] = ()
) -> None:
    """Send a whole answer."""
    lines = [("content-type", kind), ("content-length", str(len(body))), *headers]
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in lines]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


async def send_refusal(scope: Scope, send: Send, error: AppError) -> None:
    """Send an error: a problem document to programs, a page to people."""
    if scope["path"].startswith(PROGRAMS):
        body, kind = json.dumps(describe_problem(error)).encode(), "application/problem+json"
    else:
        body, kind = _page(error.title, error.detail), "text/html; charset=utf-8"
    await send_answer(send, status=error.status, body=body, kind=kind, headers=list_headers(error))


@lru_cache(maxsize=64)
def _page(title: str, detail: str) -> bytes:
    return render_to_string("errors/refused.html", {"title": title, "detail": detail}).encode()
