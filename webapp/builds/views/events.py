"""Event streams: a job's log line by line, a build's changes. Async, served by the ASGI half only."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse

from webapp.accounts.queries import authenticate_again
from webapp.accounts.services import note_reading
from webapp.builds import queries
from webapp.builds.serializers import LogEndSerializer, StreamedLineSerializer
from webapp.core.errors import AppError, NotFound, PermissionDenied, Unauthenticated
from webapp.core.numbers import read_count
from webapp.core.problems import problem_response
from webapp.dispatch.logs import LogReader
from webapp.runtime.web import shares

if TYPE_CHECKING:
    from webapp.builds.models import Build, Job
    from webapp.core.principals import Principal

LOOK_SECONDS = 0.25
KEEPALIVE_SECONDS = 15
RETRY_MS = 2000
LINES_PER_LOOK = 500
WITHDRAWN = {"reason": "withdrawn", "code": 1}
RIGHTS_SECONDS = 2
"""Seconds for which a stream can go on after its reader lost their rights."""
LOST_LOG_SECONDS = 5
"""A finished job without a closing line: its worker died before it could write one."""


async def job_log(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Stream a job's log after `Last-Event-ID` (a byte offset) or `?after=` (a line number), until its end."""
    try:
        job = await _authorise(request, lambda principal: queries.get_job(principal, job_id))
    except AppError as error:
        return problem_response(error)
    offset = _read_number(request.headers.get("Last-Event-ID", ""))
    after = 0 if offset else _read_number(request.GET.get("after", ""))
    rights = _Rights(request, lambda principal: queries.get_job(principal, job_id))
    note_reading(by=request.principal, verb="read_log", object=queries.find_log_owner(job))  # type: ignore[attr-defined]
    return _stream(_follow_log(job, offset=offset, after=after, rights=rights))


async def build(request: HttpRequest, build_id: int) -> HttpResponseBase:
    """Stream a build's changes until it is over."""
    try:
        build = await _authorise(request, lambda principal: queries.get_build(principal, build_id))
    except AppError as error:
        return problem_response(error)
    return _stream(_follow_build(build, _Rights(request, lambda principal: queries.get_build(principal, build_id))))


class _Rights:
    """Asks again and again, while a stream runs, what was asked before it began."""

    def __init__(self, request: HttpRequest, get: Callable[[Principal], Any]) -> None:
        self._request = request
        self._get = get
        self._asked_at = time.monotonic()

    async def are_withdrawn(self) -> bool:
        """Return whether the session, the token or the role is gone."""
        if time.monotonic() - self._asked_at < RIGHTS_SECONDS:
            return False
        self._asked_at = time.monotonic()
        return not await _in_thread(self._ask)

    def _ask(self) -> bool:
        try:
            self._get(authenticate_again(self._request))
        except (NotFound, PermissionDenied, Unauthenticated):
            return False
        return True


async def _authorise(request: HttpRequest, get: Callable[[Principal], Any]) -> Any:
    principal: Principal | None = getattr(request, "principal", None)
    if principal is None:
        raise Unauthenticated("Sign in to follow this.")
    request.scope[shares.UNTIL_SENT].enter_context(shares.streams.taking(principal.username))  # type: ignore[attr-defined]
    return await _in_thread(get, principal)


async def _in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
    """Query in a thread, and give back a connection that has grown old: a stream outlives many."""

    def run() -> Any:
        close_old_connections()
        return call(*arguments)

    return await sync_to_async(run, thread_sensitive=False)()


def _stream(events: AsyncIterator[str]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(events, content_type="text/event-stream")
    response["Cache-Control"] = "no-cache, no-transform"
    response["X-Accel-Buffering"] = "no"
    return response


def _read_number(text: str) -> int:
    return read_count(text, most=2**62) or 0


def _event(name: str, data: object, *, event_id: object = None) -> str:
    head = f"id: {event_id}\n" if event_id is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(data, default=str)}\n\n"


async def _follow_log(job: Job, *, offset: int, after: int, rights: _Rights) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MS}\n\n"
    reader = LogReader(queries.log_file(job), offset=offset)
    quiet = silent = time.monotonic()
    try:
        while True:
            if await rights.are_withdrawn():
                yield _event("done", WITHDRAWN)
                return
            lines = await asyncio.to_thread(reader.read, limit=LINES_PER_LOOK)
            now = time.monotonic()
            if lines:
                new = [line for line in lines if line.n > after]
                if new:
                    yield _event("line", StreamedLineSerializer(new, many=True).data, event_id=lines[-1].end)
                quiet = silent = now
                continue
            if reader.ended is not None:
                yield _event("done", LogEndSerializer(reader.ended).data)
                return
            if now - silent > LOST_LOG_SECONDS:
                silent = now
                if await _in_thread(_is_job_over, job.pk):
                    yield _event("done", {"reason": "lost", "code": 1})
                    return
            if now - quiet > KEEPALIVE_SECONDS:
                quiet = now
                yield ": keep-alive\n\n"
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        reader.close()


def _is_job_over(job_id: str) -> bool:
    return queries.is_job_over(job_id)


async def _follow_build(build: Build, rights: _Rights) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MS}\n\n"
    seen: dict[str, Any] = {}
    quiet = time.monotonic()
    while True:
        if await rights.are_withdrawn():
            yield _event("done", WITHDRAWN)
            return
        now_seen: dict[str, Any] = await _in_thread(queries.read_progress, build.pk)
        if now_seen != seen:
            seen, quiet = now_seen, time.monotonic()
            yield _event("change", seen, event_id=seen["version"])
        if seen.get("is_over", True):
            yield _event("done", {"state": seen.get("state")})
            return
        if time.monotonic() - quiet > KEEPALIVE_SECONDS:
            quiet = time.monotonic()
            yield ": keep-alive\n\n"
        await asyncio.sleep(LOOK_SECONDS * 2)
