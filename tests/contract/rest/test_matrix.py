"""Who may call what: every operation of the REST API and every page × principal × role × scope.

Operations come from openapi.json and pages from the table of addresses: a new one is in the matrix by itself, and where
it needs another right than its method says, the test names it until the exception stands here.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from django.test.utils import CaptureQueriesContext

from tests.factories.api_document import PREFIX
from tests.factories.catalog import Catalog
from tests.factories.everything import (
    BODIES,
    DATASET,
    PULL,
    QUERIES,
    REPOSITORY,
    ROLES,
    Upload,
    World,
    fill_endpoint,
    list_operations,
    list_pages,
    make_world,
)
from tests.factories.routes import share_out
from webapp.accounts.rules.scopes import READING_METHODS, SCOPES
from webapp.accounts.services import create_token
from webapp.catalog.rules.endpoints import ENDPOINTS
from webapp.core.errors import AppError
from webapp.core.principals import JobScope
from webapp.repositories.views import git_http

pytestmark = [pytest.mark.contract, pytest.mark.django_db]
ROLE_OF_SCOPE = {"read": "reader", "write": "writer", "maintain": "maintainer"}
NEEDED_ROLE = {
    # What belongs to no repository is for everybody who is signed in; their own, or a new thing of their own.
    f"GET {PREFIX}/builds": "nobody",
    f"GET {PREFIX}/datasets": "nobody",
    f"GET {PREFIX}/groups": "nobody",
    f"GET {PREFIX}/notifications": "nobody",
    f"GET {PREFIX}/notifications/settings": "nobody",
    f"PATCH {PREFIX}/notifications/settings": "nobody",
    f"POST {PREFIX}/notifications/mark": "nobody",
    f"GET {PREFIX}/repositories": "nobody",
    f"GET {PREFIX}/profile": "nobody",
    f"GET {PREFIX}/sessions": "nobody",
    f"DELETE {PREFIX}/sessions": "nobody",
    f"DELETE {PREFIX}/sessions/{{session_id}}": "nobody",
    f"GET {PREFIX}/tokens": "nobody",
    f"GET {PREFIX}/users": "nobody",
    f"POST {PREFIX}/datasets": "nobody",
    f"POST {PREFIX}/repositories": "nobody",
    f"DELETE {PREFIX}/tokens/{{token_id}}": "nobody",
    f"GET {PREFIX}/audit": "admin",
    f"GET {PREFIX}/audit.csv": "admin",
    f"GET {PREFIX}/audit.jsonl": "admin",
    f"POST {PREFIX}/groups": "admin",
    f"POST {PREFIX}/users": "admin",
    f"PATCH {PREFIX}/users/{{username}}": "admin",
    f"GET {PREFIX}/users/{{username}}/tokens": "admin",
    # Readers take part in the talk, watch what they read, and may ask for answers that take a job.
    f"PUT {REPOSITORY}/watch": "reader",
    f"DELETE {REPOSITORY}/watch": "reader",
    f"PUT {DATASET}/watch": "reader",
    f"DELETE {DATASET}/watch": "reader",
    f"POST {PULL}/comments": "reader",
    f"POST {PULL}/suggestions": "writer",
    f"POST {PULL}/pending-comments": "reader",
    f"DELETE {PULL}/pending-comments": "reader",
    f"PATCH {PULL}/pending-comments/{{pending_id}}": "reader",
    f"DELETE {PULL}/pending-comments/{{pending_id}}": "reader",
    f"POST {PULL}/reviews": "reader",
    f"POST {PULL}/datasets/{{dataset_id}}/verdict": "reader",
    f"POST {DATASET}/blame": "reader",
    f"POST {DATASET}/changelog": "reader",
    f"POST {DATASET}/compare": "reader",
    f"POST {REPOSITORY}/queries": "reader",
    # Code that is not committed is run by who may commit it, and what comes of it is for them alone.
    f"GET {REPOSITORY}/previews": "writer",
    f"GET {REPOSITORY}/previews/{{preview_id}}": "writer",
    f"GET {REPOSITORY}/previews/{{preview_id}}/log": "writer",
    f"GET {REPOSITORY}/previews/{{preview_id}}/rows": "writer",
    f"GET {REPOSITORY}/previews/{{preview_id}}/difference": "writer",
    # What somebody else runs is stopped by maintainers.
    f"POST {REPOSITORY}/queries/{{query_id}}/cancel": "maintainer",
    # What somebody else wrote is deleted by maintainers, and edited by nobody.
    f"DELETE {PULL}/comments/{{comment_id}}": "maintainer",
    # A pull request of somebody else is edited, closed and opened again by maintainers.
    f"PATCH {PULL}": "maintainer",
    f"POST {PULL}/close": "maintainer",
    f"POST {PULL}/reopen": "maintainer",
    f"POST {DATASET}/transactions/{{transaction}}/abort": "maintainer",
    f"POST {DATASET}/transactions/{{transaction}}/commit": "maintainer",
    f"PATCH {REPOSITORY}": "maintainer",
    f"DELETE {REPOSITORY}": "maintainer",
    f"POST {REPOSITORY}/members": "maintainer",
    f"DELETE {REPOSITORY}/members/{{username}}": "maintainer",
    f"POST {REPOSITORY}/protections": "maintainer",
    f"PATCH {REPOSITORY}/protections/{{branch}}": "maintainer",
    f"DELETE {REPOSITORY}/protections/{{branch}}": "maintainer",
    f"GET {REPOSITORY}/webhooks": "maintainer",
    f"POST {REPOSITORY}/webhooks": "maintainer",
    f"GET {REPOSITORY}/webhooks/{{number}}": "maintainer",
    f"DELETE {REPOSITORY}/webhooks/{{number}}": "maintainer",
    f"GET {REPOSITORY}/webhooks/{{number}}/deliveries": "maintainer",
}
"""Where it is not reader for a reading method and writer for another one."""
NEEDED_SCOPE = {
    f"DELETE {PREFIX}/tokens/{{token_id}}": "maintain",
    f"DELETE {PREFIX}/sessions": "maintain",
    f"DELETE {PREFIX}/sessions/{{session_id}}": "maintain",
}
"""Where it is not what the role implies."""
BY_PASSWORD_OR_SESSION = {f"POST {PREFIX}/tokens", f"POST {PREFIX}/password"}
"""No token makes tokens or changes passwords."""

PUBLIC = {"/login", "/login/provider", "/login/provider/return", "/logout/provider", "/healthz", "/readyz"}
PULL_PAGE = "/r/{repo}/pulls/{number}"
WRITTEN_BY_READERS = {
    "/r/{repo}/watch",
    "/datasets/{dataset_id}/watch",
    f"{PULL_PAGE}/viewed",
    f"{PULL_PAGE}/comments/{{comment_id}}/reply",
    f"{PULL_PAGE}/pending/{{pending_id}}/delete",
    f"{PULL_PAGE}/pending/discard",
    f"{PULL_PAGE}/compare-again",
    "/datasets/{dataset_id}/compare/again",
    "/datasets/{dataset_id}/blame/again",
}
WRITING = ("INSERT", "UPDATE", "DELETE")


@pytest.fixture
def world(home: Path) -> World:
    return make_world()


def call(
    client: Client, method: str, path: str, world: World, headers: dict[str, str] | None = None, body: Any = None
) -> Any:
    """Send a request and take back what it did to the database."""
    content = encode_multipart(BOUNDARY, body) if isinstance(body, Upload) else json.dumps(body or {}).encode()
    kind = MULTIPART_CONTENT if isinstance(body, Upload) else "application/json"
    with transaction.atomic():
        address = world.address(path) + QUERIES.get(path, "")
        answer = client.generic(method, address, content, kind, headers=headers)
        transaction.set_rollback(True)
    return answer


def is_enough(operation: str, method: str, role: str, scope: str) -> bool:
    """Whether somebody with a role and a token of a scope may call an operation."""
    by_method = "reader" if method in READING_METHODS else "writer"
    needed = NEEDED_ROLE.get(operation, by_method)
    implied = {"nobody": by_method, "reader": by_method, "admin": "maintainer"}.get(needed, needed)
    scope_needed = NEEDED_SCOPE.get(operation) or next(key for key, value in ROLE_OF_SCOPE.items() if value == implied)
    has_scope = not scope or SCOPES.index(scope) >= SCOPES.index(scope_needed)
    return has_scope and ROLES.index(role) >= ROLES.index(needed)


def is_not_compared(answer: Any) -> bool:
    """Whether somebody who may see a row diff is told that there is none."""
    return answer.status_code == 404 and answer.json()["code"] in ("not_compared", "not_ready")


def list_callers(number: int) -> list[tuple[str, str]]:
    """Who calls an operation: each role, each scope, and of the roles with a narrower scope a share by its number."""
    edges = [*itertools.product(ROLES, [""]), *itertools.product(["admin"], SCOPES)]
    others = [pair for pair in itertools.product(ROLES, SCOPES) if pair not in edges]
    return [*edges, *share_out(others, number=number, of=6)]


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_rest_obeys_role_and_scope(world: World, *, is_whole: bool) -> None:
    client, wrong = Client(), []
    every = list(itertools.product(ROLES, ("", *SCOPES)))
    for number, (method, path) in enumerate(list_operations()):
        for role, scope in every if is_whole else list_callers(number):
            wrong += find_wrong(world, client, method, path, role=role, scope=scope)
    assert wrong == [], "\n".join(wrong)


def find_wrong(world: World, client: Client, method: str, path: str, *, role: str, scope: str) -> Iterator[str]:
    """Call an operation; what is wrong with who was let through."""
    operation = f"{method} {path}"
    if operation in BY_PASSWORD_OR_SESSION:
        return
    own = {
        "token_id": world.own_token[role],
        "session_id": world.own_session[role],
        "pending_id": world.own_pending[role],
        "preview_id": world.own_preview[role],
    }
    world.values |= {**own, "own_branch": f"of-{role}-{scope}"}
    answer = call(client, method, path, world, world.bearer(role, scope), BODIES.get(operation))
    is_allowed = answer.status_code not in (401, 403, 404) or is_not_compared(answer)
    if is_allowed != is_enough(operation, method, role, scope):
        yield f"{operation} as {role} with scope {scope or 'of everything'}: {answer.status_code}"
    if scope == "read" and method not in READING_METHODS and answer.json()["code"] != "scope_missing":
        yield f"{operation} as {role}: {answer.json()}"


def test_rest_is_closed_to_nobody_to_jobs_and_to_pages_of_others(world: World) -> None:
    job = JobScope(job_id="abc", branch="_job/abc", base_branch="fix", chain=("fix", "master"))
    secret = create_token(user=world.users["admin"], name="job", job_scope=job)[1]
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.users["admin"])
    for method, path in list_operations():
        assert call(Client(), method, path, world).status_code == 401, (method, path)
        by_job = call(Client(), method, path, world, {"Authorization": f"Bearer {secret}"})
        assert (by_job.status_code, by_job.json()["code"]) == (403, "job_token"), (method, path)
        if method not in READING_METHODS:
            assert call(browser, method, path, world).status_code == 403, (method, path)


def test_pages_are_closed_to_nobody_to_tokens_and_to_forms_of_others(world: World) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.users["admin"])
    member = Client()
    member.force_login(world.users["maintainer"])
    pages = list(list_pages())
    assert len(pages) > 70
    for path in pages:
        assert "/settings/users" not in path or call(member, "GET", path, world).status_code == 403, path
        for role, scope in (("admin", ""), ("admin", "maintain")):
            answer = call(Client(), "GET", path, world, world.bearer(role, scope))
            assert path in PUBLIC or answer.status_code == 405 or is_sign_in(answer), (path, answer.status_code)
        if path not in ("/healthz", "/readyz"):
            answer = call(browser, "POST", path, world)
            assert answer.status_code == 403, (path, answer.status_code)


def is_sign_in(answer: Any) -> bool:
    """Whether an answer sends to the page for signing in."""
    return answer.status_code == 302 and answer["Location"].startswith("/login")


def test_pages_of_a_repository_are_not_there_for_strangers_and_not_writable_for_readers(world: World) -> None:
    stranger, reader = Client(raise_request_exception=False), Client(raise_request_exception=False)
    stranger.force_login(world.users["nobody"])
    reader.force_login(world.users["reader"])
    for path in list_pages():
        if "{" not in path or path.startswith("/settings"):
            continue
        for method in ("GET", "POST"):
            answer = call(stranger, method, path, world)
            assert answer.status_code in (404, 405), (method, path, answer.status_code)
        with CaptureQueriesContext(connection) as queries:
            answer = call(reader, "POST", path, world)
        writes = [query["sql"] for query in queries if query["sql"].startswith(WRITING)]
        assert answer.status_code < 500, (path, answer.status_code)
        assert writes == [] or path in WRITTEN_BY_READERS, (path, answer.status_code, writes)


def test_the_catalog_obeys_scope_and_role(world: World) -> None:
    for endpoint, role, scope in itertools.product(ENDPOINTS, ROLES, ("", *SCOPES)):
        if endpoint.operation == "getToken":
            continue
        path = fill_endpoint(endpoint.path).removeprefix("/iceberg/v1/")
        with transaction.atomic():
            answer = Catalog(world.secrets[role, scope]).call(endpoint.method, path, {})
            transaction.set_rollback(True)
        case = (endpoint.operation, role, scope, answer.status)
        if scope and SCOPES.index(scope) < SCOPES.index(endpoint.scope):
            assert answer.status == 403, case
        elif role == "nobody" and "{namespace}" in endpoint.path:
            assert answer.status in (400, 404), case
        elif endpoint.scope == "read":
            assert answer.status not in (401, 403), case
        elif ROLES.index(role) < ROLES.index("writer"):
            assert answer.status in (400, 403, 404), case
    for endpoint in ENDPOINTS:
        for token in ("", "trb_none"):
            path = fill_endpoint(endpoint.path).removeprefix("/iceberg/v1/")
            expected = 400 if endpoint.operation == "getToken" else 401
            assert Catalog(token).call(endpoint.method, path, {}).status == expected, endpoint.operation


def test_reading_is_said_of_just_the_operations_that_change_nothing() -> None:
    assert {endpoint.operation for endpoint in ENDPOINTS if endpoint.scope == "read"} == {
        "getConfig", "listNamespaces", "loadNamespaceMetadata", "namespaceExists", "listTables", "loadTable",
        "tableExists", "loadCredentials", "planTableScan", "fetchPlanningResult", "cancelPlanning", "fetchScanTasks",
        "reportMetrics", "listViews", "loadView", "viewExists",
    }  # fmt: skip


def ask_git(service: str, credentials: str) -> int:
    """The status that a request for a service gets at the door; 200 where Git would be started."""
    header = (b"authorization", b"Basic " + base64.b64encode(credentials.encode()))
    scope: dict[str, Any] = {
        "method": "GET",
        "path": "/git/shop.git/info/refs",
        "query_string": f"service={service}".encode(),
        "headers": [header] if credentials else [],
    }
    try:
        git_http._enter(git_http._Call.of(scope))
    except AppError as error:
        return error.status
    return 200


def test_git_obeys_scope_and_role(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_http, "close_old_connections", lambda: None)
    services = ("git-upload-pack", "git-receive-pack")
    for service, role, scope in itertools.product(services, ROLES, ("", *SCOPES)):
        secret = world.secrets[role, scope]
        status = ask_git(service, f"a-{role}:{secret}")
        needed = "reader" if service == "git-upload-pack" else "writer"
        has_scope = not scope or ROLES.index(ROLE_OF_SCOPE[scope]) >= ROLES.index(needed)
        expected = {200} if has_scope and ROLES.index(role) >= ROLES.index(needed) else {403, 404}
        assert status in expected, (service, role, scope, status)
    for service in services:
        assert ask_git(service, "") == 401
