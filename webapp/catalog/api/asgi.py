"""The catalog beside Django's request cycle: an ASGI application over the same handlers, in a pool of threads."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any

from django.db import DatabaseError, close_old_connections

from webapp.accounts.services import note_turned_away
from webapp.catalog.api.handlers import authenticate, explain, handle, read_token, refuse
from webapp.catalog.api.http import MAX_BODY, CatalogRequest, CatalogResponse
from webapp.catalog.api.repeats import KEPT_BYTES, Repeats
from webapp.catalog.rules import endpoints
from webapp.catalog.rules.refs import split_path
from webapp.core.change_counter import ChangeCounter
from webapp.core.errors import AppError
from webapp.runtime.web import bodies
from webapp.runtime.web.bodies import WITHOUT_BODY, Incoming, refuse_body
from webapp.runtime.web.gates import Gate

Message = MutableMapping[str, Any]
BASE = "/iceberg"
THREADS = 8
WAITING = 256

gate = Gate("catalog", threads=THREADS, waiting=WAITING)
_repeats = Repeats(ChangeCounter(), limit=KEPT_BYTES)


async def application(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answer one request to `/iceberg/...`."""
    question = _repeats.ask(scope)
    repeat = None if question is None else _repeats.find(question)
    if repeat is not None:
        await _send(send, repeat)
        return
    request = CatalogRequest(
        method=scope["method"],
        raw_path=raw_path(scope),
        raw_query=scope["query_string"].decode("latin-1"),
        headers=[(key.decode("latin-1").lower(), value.decode("latin-1")) for key, value in scope["headers"]],
        address=(scope.get("client") or ("",))[0],
    )
    incoming = Incoming(receive, method=request.method, headers=scope["headers"])
    held = 0
    try:
        if not incoming.is_over:
            body = await _read(request, incoming)
            held = len(body)
            request = replace(request, body=body)
        response = await gate.run(_handle, request)
        if question is not None:
            _repeats.keep(question, response)
    except AppError as error:
        response = refuse(error, request)
        if not error.is_for_want_of_rights:  # those are noted with whose they are
            note_turned_away(
                method=request.method, path=f"{BASE}{request.raw_path}", address=request.address, error=error
            )
    finally:
        bodies.memory.give_back(held)
    if response.pause_s:
        await asyncio.sleep(response.pause_s)  # of the event loop, not of a thread
    await _send(send, response)
    if not incoming.is_over:
        await incoming.drop()


async def _send(send: Callable[[Message], Awaitable[None]], response: CatalogResponse) -> None:
    headers = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in response.headers]
    # The length of an answer without a body is no secret, except where the status forbids the header.
    if response.status not in (204, 304):
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def raw_path(scope: Message) -> str:
    """Return the path as it was sent, relative to the catalog's base."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path: str = raw.decode("latin-1").partition("?")[0]
    return path.removeprefix(BASE)


async def _read(request: CatalogRequest, incoming: Incoming) -> bytes:
    """Read the body, counted in the memory of all bodies; the token comes first."""
    if request.method in WITHOUT_BODY:
        refuse_body(incoming, what=request.method)
    endpoint, _ = endpoints.match(request.method, split_path(request.raw_path))
    if endpoint.operation != "getToken":
        read_token(request)
    body = bytearray()
    try:
        while piece := await incoming.read_of_head():
            bodies.memory.take(len(piece))
            body += piece
        if not incoming.is_over:
            # Of a body that is announced as long nothing is read before it is known who sends it.
            await gate.run(_authenticate, request)
            incoming.limit = MAX_BODY
            incoming.check_size()
        while piece := await incoming.read():
            bodies.memory.take(len(piece))
            body += piece
    except BaseException:
        bodies.memory.give_back(len(body))
        raise
    return bytes(body)


def _authenticate(request: CatalogRequest) -> None:
    close_old_connections()
    try:
        authenticate(request)
    except (DatabaseError, UnicodeEncodeError) as error:
        raise explain(error, request) from error


def _handle(request: CatalogRequest) -> CatalogResponse:
    close_old_connections()
    return handle(request)
