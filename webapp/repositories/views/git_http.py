"""Clone, fetch and push over HTTP. Served by the ASGI half: requests and answers are streams."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import quote

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import HttpResponse, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt

from webapp.accounts.permissions import check_scope
from webapp.accounts.queries import authenticate_person
from webapp.core.basic_auth import is_basic, read_basic
from webapp.core.errors import AppError, Unauthenticated
from webapp.core.numbers import read_count
from webapp.core.room import check_room
from webapp.git.errors import GitError
from webapp.git.http_backend import MAX_PUSH_BYTES, ROUTES, BackendRequest, Hooks, is_push, run_backend
from webapp.repositories import permissions, queries, services

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from webapp.accounts.rules.principals import Principal
    from webapp.git.values import RefUpdate
    from webapp.repositories.models import Repository

_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="git-hooks")
_REALM = 'Basic realm="Tributary: user name and token", charset="UTF-8"'


@csrf_exempt
async def serve_git(request: HttpRequest, name: str, route: str) -> HttpResponseBase:
    """Answer one request of Git's smart HTTP protocol."""
    method = request.method or ""
    if (method, route) not in ROUTES:
        return _refuse(404, "There is nothing here. Clone /git/<repository>.git with Git 1.6.6 or newer.")
    service = request.GET.get("service", "")
    if route == "info/refs" and service not in {"git-upload-pack", "git-receive-pack"}:
        return _refuse(403, "Only Git's smart HTTP protocol is spoken here.")
    if read_count(request.META.get("CONTENT_LENGTH") or "0", most=MAX_PUSH_BYTES) is None:
        return _refuse(413, f"A push has at most {MAX_PUSH_BYTES // 1024 // 1024} MB.")
    pushes = is_push(route=route, service=service)
    try:
        principal = await sync_to_async(_authenticate)(request)
        repository = await sync_to_async(_open)(principal, name, pushes=pushes)
    except AppError as error:
        return _refuse(error.status, error.detail)
    hooks = _hooks(request, repository, principal) if pushes else None
    try:
        answer = await run_backend(
            BackendRequest(
                repository=repository.path,
                route=route,
                method=method,
                query=f"service={service}" if route == "info/refs" else "",
                content_type=request.META.get("CONTENT_TYPE", ""),
                content_length=request.META.get("CONTENT_LENGTH", ""),
                content_encoding=request.META.get("HTTP_CONTENT_ENCODING", ""),
                protocol=request.META.get("HTTP_GIT_PROTOCOL", ""),
                remote_user=principal.username,
                remote_addr=request.META.get("REMOTE_ADDR", ""),
            ),
            read_body=request.read,
            hooks=hooks,
        )
    except GitError as error:
        return _refuse(503, str(error))
    response = StreamingHttpResponse(answer.body, status=answer.status)
    for header, value in answer.headers:
        response[header] = value
    response["X-Accel-Buffering"] = "no"
    return response


def _refuse(status: int, detail: str) -> HttpResponse:
    """Answer in words that Git shows to its user."""
    response = HttpResponse(f"{detail}\n", status=status, content_type="text/plain; charset=utf-8")
    if status == Unauthenticated.status:
        response["WWW-Authenticate"] = _REALM
    return response


def _authenticate(request: HttpRequest) -> Principal:
    header = request.META.get("HTTP_AUTHORIZATION", "")
    if not is_basic(header):
        message = "Sign in with your user name and a token as password."
        raise Unauthenticated(message)
    credentials = read_basic(header)
    if credentials is None:
        message = "The user name and token cannot be read."
        raise Unauthenticated(message)
    username, secret = credentials
    principal = authenticate_person(secret)
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


def _hooks(request: HttpRequest, repository: Repository, principal: Principal) -> Hooks:
    base = request.build_absolute_uri(f"/r/{repository.name}")

    def check(updates: list[RefUpdate]) -> list[str]:
        try:
            _open(principal, repository.name, pushes=True)
        except AppError as error:
            return [error.detail]
        return services.check_push(repository=repository, updates=updates, by=principal)

    def done(updates: list[RefUpdate]) -> list[str]:
        services.announce_pushed(repository=repository, updates=updates, by=principal)
        return [line for update in updates for line in _describe(update, base, repository.default_branch)]

    async def check_aside(updates: list[RefUpdate]) -> list[str]:
        return await _aside(check, updates)

    async def done_aside(updates: list[RefUpdate]) -> list[str]:
        return await _aside(done, updates)

    return Hooks(check=check_aside, done=done_aside)


async def _aside(function: Callable[[list[RefUpdate]], list[str]], updates: list[RefUpdate]) -> list[str]:
    """Run a function with database access in a thread that outlives the request's own.

    Git asks its hooks while the answer is streamed, when the thread of the request's middleware has gone; and what a
    push did must be announced even where its client no longer waits.
    """

    def run() -> list[str]:
        close_old_connections()
        try:
            return function(updates)
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
