"""Clone, fetch and push over HTTP: an ASGI application of its own, because requests and answers are streams."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from django.db import DatabaseError, close_old_connections

from webapp.accounts.permissions import check_scope
from webapp.accounts.queries import authenticate_person
from webapp.accounts.services import note_reading, note_refusal, note_turned_away, refuse_token
from webapp.core.basic_auth import is_basic, read_basic
from webapp.core.errors import AppError, NotFound, PermissionDenied, Unauthenticated, Unavailable
from webapp.core.failures import explain_failure
from webapp.core.problems import list_headers
from webapp.git.errors import GitError
from webapp.git.http_backend import (
    MAX_PUSH_BYTES,
    ROUTES,
    BackendRequest,
    BackendResponse,
    Hooks,
    is_push,
    run_backend,
)
from webapp.repositories import permissions, queries, services
from webapp.runtime.room import check_room
from webapp.runtime.web import shares
from webapp.runtime.web.answers import TEXT, Scope, Send, send_answer
from webapp.runtime.web.bodies import WITHOUT_BODY, Incoming, Receive, SenderGone, refuse_body, wait_until_gone
from webapp.runtime.web.gates import Gate, Overloaded
from webapp.runtime.web.proxies import read_base

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from webapp.core.principals import Principal
    from webapp.git.values import RefUpdate
    from webapp.repositories.models import Repository

_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="git-hooks")
_doors = Gate("git", threads=4, waiting=64)
_PATH = re.compile(r"/git/(?P<name>[^/]+)\.git/(?P<route>.+)\Z")
_REALM = 'Basic realm="Tributary: user name and token", charset="UTF-8"'
MAX_FETCH_BYTES = 32 * 1024 * 1024
"""What a client may say of the commits that it has."""
PROCESSES = 32
"""Of Git, at a time."""
ROOM_EVERY = 4 * 1024 * 1024
"""So many bytes of a push arrive between two looks at the disk."""
READ_SECONDS = 60
LFS = "info/lfs/"
"""Beginning of the routes of Git LFS."""
_running: set[object] = set()


class LfsNotOffered(AppError):
    """A client asked for Git LFS; 501 tells it to go on without locks, and the message is shown to its user."""

    status = 501
    title = "Not implemented"
    default_code = "no_lfs"

    def __init__(self) -> None:
        super().__init__(
            "Git LFS is not supported here. Run `git lfs untrack` for these files, then commit the files themselves."
        )


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request of Git's smart HTTP protocol; who asks is known before any of its body is read."""
    call = _Call.of(scope)
    incoming = Incoming(receive, method=call.method, headers=scope["headers"])
    has_begun = False

    async def answer(message: MutableMapping[str, Any]) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    try:
        await _serve(call, incoming, receive, answer)
    except SenderGone as error:
        if not has_begun:
            await _refuse(send, error)
    except (AppError, GitError, DatabaseError, OSError) as error:
        refusal = _explain(error)
        if not refusal.is_for_want_of_rights:  # those are noted with whose they are
            note_turned_away(method=call.method, path=scope["path"], address=call.address, error=refusal)
        await _refuse(send, refusal)
        await incoming.drop()


async def _serve(call: _Call, incoming: Incoming, receive: Receive, send: Send) -> None:
    if call.method in WITHOUT_BODY:
        refuse_body(incoming, what=call.method)
    call.check_route()
    principal, repository, most = await _doors.run(_enter, call)
    incoming.limit = MAX_PUSH_BYTES if call.route == "git-receive-pack" else MAX_FETCH_BYTES
    incoming.check_size()
    if len(_running) >= PROCESSES:
        raise Overloaded
    with shares.git.taking(principal.username):
        _running.add(call)
        try:
            answer = await run_backend(
                call.for_git(repository, principal, most),
                read_body=_reading(incoming) if call.pushes else incoming.read,
                hooks=_hooks(call, repository, principal) if call.pushes else None,
            )
            if call.route == "git-upload-pack" and answer.status == HTTPStatus.OK:
                note_reading(by=principal, verb="clone", object=repository.name)
            await _send(answer, receive, send)
        finally:
            _running.discard(call)


def _reading(incoming: Incoming) -> Callable[[], Awaitable[bytes]]:
    """Read a push, and ask for room again and again: many at once may take what was there before their first byte."""
    asked_at = 0

    async def read() -> bytes:
        nonlocal asked_at
        piece = await incoming.read()
        if incoming.received - asked_at >= ROOM_EVERY:
            asked_at = incoming.received
            await asyncio.get_running_loop().run_in_executor(_threads, check_room)
        return piece

    return read


async def _send(answer: BackendResponse, receive: Receive, send: Send) -> None:
    headers = [*answer.headers, ("X-Accel-Buffering", "no")]
    lines = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": lines})
    gone = asyncio.ensure_future(wait_until_gone(receive))
    async with aclosing(answer.body) as chunks:
        try:
            async for chunk in chunks:
                async with asyncio.timeout(READ_SECONDS):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if gone.done():
                    return
        except TimeoutError:
            return
        finally:
            gone.cancel()
    await send({"type": "http.response.body", "body": b""})


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One request, before anything is known of who makes it."""

    method: str
    name: str
    route: str
    service: str
    headers: Mapping[str, str]
    address: str
    base: str

    @classmethod
    def of(cls, scope: Scope) -> _Call:
        match = _PATH.match(scope["path"])
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = parse_qs(scope["query_string"].decode("latin-1"))
        return cls(
            method=scope["method"],
            name=match["name"] if match else "",
            route=match["route"] if match else "",
            service=query.get("service", [""])[-1],
            headers=headers,
            address=(scope.get("client") or ("", 0))[0],
            base=read_base(headers),
        )

    @property
    def pushes(self) -> bool:
        return is_push(route=self.route, service=self.service)

    def check_route(self) -> None:
        if self.route.startswith(LFS):
            raise LfsNotOffered
        if (self.method, self.route) not in ROUTES:
            message = "There is nothing here. Clone /git/<repository>.git with Git 1.6.6 or newer."
            raise NotFound(message)
        if self.route == "info/refs" and self.service not in {"git-upload-pack", "git-receive-pack"}:
            message = "Only Git's smart HTTP protocol is spoken here."
            raise PermissionDenied(message)

    def for_git(self, repository: Repository, principal: Principal, most: int) -> BackendRequest:
        return BackendRequest(
            repository=repository.git.path,
            route=self.route,
            method=self.method,
            query=f"service={self.service}" if self.route == "info/refs" else "",
            content_type=self.headers.get("content-type", ""),
            content_encoding=self.headers.get("content-encoding", ""),
            protocol=self.headers.get("git-protocol", ""),
            remote_user=principal.username,
            remote_addr=self.address,
            max_push_bytes=most,
        )


def _explain(error: Exception) -> AppError:
    if isinstance(error, AppError):
        return error
    if isinstance(error, GitError):
        return Unavailable(str(error))
    refusal = explain_failure(error)
    if refusal is None:
        raise error
    return refusal


async def _refuse(send: Send, error: AppError) -> None:
    """Answer in words that Git shows to its user."""
    headers = [header for header in list_headers(error) if header[0] != "WWW-Authenticate"]
    if error.status == Unauthenticated.status:
        headers.append(("WWW-Authenticate", _REALM))
    body, kind = f"{error.detail}\n".encode(), TEXT
    if isinstance(error, LfsNotOffered):
        body, kind = json.dumps({"message": error.detail}).encode(), "application/vnd.git-lfs+json"
    await send_answer(send, status=error.status, body=body, kind=kind, headers=headers)


def _enter(call: _Call) -> tuple[Principal, Repository, int]:
    """Find out who asks, what of, and how many bytes of a push fit into it; in a thread."""
    close_old_connections()
    principal = None
    try:
        principal = _authenticate(call)
        repository = _open(principal, call.name, pushes=call.pushes)
        most = services.find_push_room(repository=repository, most=MAX_PUSH_BYTES) if call.pushes else 0
    except AppError as error:
        if error.is_for_want_of_rights and "authorization" in call.headers:  # Git always asks once without
            detail = {"status": error.status, "code": error.code, "address": call.address}
            verb = "push" if call.pushes else "fetch"
            note_refusal(by=principal, verb=verb, object=f"/git/{call.name}.git", detail=detail)
        raise
    return principal, repository, most


def _authenticate(call: _Call) -> Principal:
    header = call.headers.get("authorization", "")
    if not is_basic(header):
        message = "Sign in with your user name and a token as password."
        raise Unauthenticated(message)
    credentials = read_basic(header)
    if credentials is None:
        message = "The user name and token cannot be read."
        raise Unauthenticated(message)
    username, secret = credentials
    try:
        principal = authenticate_person(secret)
    except Unauthenticated as error:
        refuse_token(error, username=username, address=call.address)
    if principal.username.casefold() != username.casefold():
        message = f"This token does not belong to {username!r}."
        raise Unauthenticated(message, code="token_of_another_user")
    return principal


def _open(principal: Principal, name: str, *, pushes: bool) -> Repository:
    check_scope(principal, "write" if pushes else "read")
    repository = queries.get_repository(principal, name)
    if pushes:
        permissions.check_write(principal, repository)
        check_room()
    return repository


def _hooks(call: _Call, repository: Repository, principal: Principal) -> Hooks:
    base = f"{call.base}/r/{repository.name}"

    def check(updates: list[RefUpdate], excess: str) -> list[str]:
        try:
            # Again: the token may be revoked, the role withdrawn, since the push began.
            _enter(call)
        except AppError as error:
            return [error.detail]
        return services.check_push(repository=repository, updates=updates, by=principal, excess=excess)

    def done(updates: list[RefUpdate]) -> list[str]:
        services.announce_pushed(repository=repository, updates=updates, by=principal)
        return [line for update in updates for line in _describe(update, base, repository.default_branch)]

    async def check_aside(updates: list[RefUpdate], excess: str) -> list[str]:
        return await _aside(check, updates, excess)

    async def done_aside(updates: list[RefUpdate]) -> list[str]:
        return await _aside(done, updates)

    return Hooks(check=check_aside, done=done_aside)


async def _aside(function: Callable[..., list[str]], *arguments: object) -> list[str]:
    """Run a function with database access in a thread that outlives the request's own.

    Git asks its hooks while the answer is streamed, when the thread of the request's middleware has gone; and what a
    push did must be announced even where its client no longer waits.
    """

    def run() -> list[str]:
        close_old_connections()
        try:
            return function(*arguments)
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(_threads, run)


def _describe(update: RefUpdate, base: str, default_branch: str) -> list[str]:
    branch = update.ref.removeprefix("refs/heads/")
    if branch == update.ref or not update.after:
        return []
    lines = [f"{branch}: JobSpecs are being published, see {base}/commit/{update.after}"]
    if not update.before and branch != default_branch:
        lines.append(f"{branch}: open a pull request at {base}/pulls/new?source={quote(branch, safe='')}")
    return lines
