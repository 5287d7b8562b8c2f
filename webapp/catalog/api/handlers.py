"""The catalog's front door: route → refuse what a branch may not → authenticate → handler; errors in Iceberg's words."""

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from django.db import DatabaseError

from webapp.accounts.permissions import check_scope
from webapp.accounts.queries import authenticate_token
from webapp.accounts.services import note_reading, note_refusal
from webapp.catalog.api import config, delegation, namespaces, scans, tables, views
from webapp.catalog.api.http import MAX_BODY, Call, CatalogRequest, CatalogResponse, Repeat, answer, empty
from webapp.catalog.api.idempotency import run_once
from webapp.catalog.permissions import check_files
from webapp.catalog.rules import endpoints
from webapp.catalog.rules.errors import CommitFailed, Malformed, NotAuthorized, error_body
from webapp.catalog.rules.refs import split_path
from webapp.core import clock
from webapp.core.errors import AppError, BadRequest, TooLarge, Unavailable
from webapp.core.failures import BUSY_OR_AWAY, explain_failure
from webapp.core.numbers import read_count
from webapp.core.principals import Principal

logger = logging.getLogger(__name__)

Handler = Callable[[Call], CatalogResponse]
HANDLERS: dict[str, Handler] = {
    "getConfig": config.get_config,
    "listNamespaces": namespaces.list_namespaces,
    "createNamespace": namespaces.create_namespace,
    "loadNamespaceMetadata": namespaces.load_namespace,
    "namespaceExists": namespaces.namespace_exists,
    "dropNamespace": namespaces.drop_namespace,
    "updateProperties": namespaces.update_properties,
    "listTables": tables.list_tables,
    "createTable": tables.create_table,
    "loadTable": tables.load_table,
    "tableExists": tables.table_exists,
    "updateTable": tables.update_table,
    "dropTable": tables.drop_table,
    "registerTable": tables.register_table,
    "unregisterTable": tables.unregister_table,
    "loadCredentials": delegation.list_credentials,
    "planTableScan": scans.plan_table_scan,
    "fetchPlanningResult": scans.fetch_planning_result,
    "cancelPlanning": scans.cancel_planning,
    "fetchScanTasks": scans.fetch_scan_tasks,
    "reportMetrics": tables.report_metrics,
    "renameTable": tables.rename_table,
    "commitTransaction": tables.commit_transaction,
    "listViews": views.list_views,
    "createView": views.create_view,
    "loadView": views.load_view,
    "viewExists": views.view_exists,
    "replaceView": views.replace_view,
    "dropView": views.drop_view,
    "renameView": views.rename_view,
    "registerView": views.register_view,
}
# Operations whose record is written by their service, and how their answer is made again.
REPLAYS: dict[str, Handler] = {
    "createTable": tables.show_named,
    "registerTable": tables.show_named,
    "updateTable": tables.show_committed,
    "commitTransaction": tables.commit_transaction_again,
    "createView": views.show_named,
    "registerView": views.show_named,
    "replaceView": views.load_view,
}
# Sent by POST for the size of their bodies: nothing is changed, so a repeated one is simply answered.
READING = frozenset({"planTableScan", "fetchScanTasks"})
# What opens a table's rows to a client: noted, and counted by the minute.
READS = {
    "loadTable": "load_table",
    "loadCredentials": "load_credentials",
    "planTableScan": "plan_scan",
    "fetchScanTasks": "plan_scan",
}
# What says where a table's files are, and what is in them.
LEADING_TO_FILES = frozenset({*READS, "fetchPlanningResult", "updateTable"})
REPEATED_FOR = timedelta(minutes=1)
"""So long an answer may be given again: that a token was used is noted by who makes an answer, not by who repeats it."""
MOST_PAUSE_S = 0.05
"""So long at most the answer to a commit that lost a race is held back; how long is left to chance.

Who lost would else commit again together with all who lost with him, and all but one of them lose again.
"""
RETRY_AFTER = ("retry-after", "1")
CHALLENGE = ("www-authenticate", 'Bearer realm="tributary"')


def handle(request: CatalogRequest) -> CatalogResponse:
    """Answer one request."""
    try:
        response = _dispatch(request)
    except AppError as error:
        response = refuse(error, request)
    except (DatabaseError, UnicodeEncodeError) as error:
        response = refuse(explain(error, request), request)
    if request.method == "HEAD":
        return empty(status=204 if response.status == 200 else response.status)
    return response


def explain(error: DatabaseError | UnicodeEncodeError, request: CatalogRequest) -> AppError:
    """Say what a failure outside of a commit's swap means: nothing was changed; commits settle their own outcome."""
    failure = explain_failure(error)
    if failure is None or failure.status != BadRequest.status:
        logger.error("database error: %s %s", request.method, request.raw_path, exc_info=error)
    return failure or Unavailable(BUSY_OR_AWAY)


def _dispatch(request: CatalogRequest) -> CatalogResponse:
    if len(request.body) > MAX_BODY:
        message = f"The request's body is larger than {MAX_BODY} bytes"
        raise TooLarge(message)
    if len(request.body) < (read_count(request.header("content-length") or "", most=2**62) or 0):
        message = "The request ended before its body did, and nothing was changed"
        raise Malformed(message)
    endpoint, variables = endpoints.match(request.method, split_path(request.raw_path))
    if endpoint.operation == "getToken":
        return config.get_token(request)
    by = authenticate(request)
    try:
        check_scope(by, endpoint.scope)
        call = Call.of(request, by=by, variables=variables)
        endpoint.check_branch(call.branch)
        if endpoint.operation in LEADING_TO_FILES:
            check_files(by, call.table)
        handler = HANDLERS[endpoint.operation]
        changes = request.method in ("POST", "DELETE") and endpoint.operation not in READING
        if changes and request.header("idempotency-key") is not None:
            refuses = partial(refuse, request=request, by=by)
            return run_once(call, handler, again=REPLAYS.get(endpoint.operation), refuse=refuses)
        response = handler(call)
    except AppError as error:
        return refuse(error, request, by=by)
    note = None
    if endpoint.operation in READS and response.status == 200:
        note = partial(
            note_reading, by=by, verb=READS[endpoint.operation], object=call.table.path, branch=call.branch or ""
        )
        note()
    return _let_repeat(response, by=by, note=note)


def _let_repeat(response: CatalogResponse, *, by: Principal, note: Callable[[], None] | None) -> CatalogResponse:
    """Let the same request have its answer again. Not a job's: it asks once, and its principal is large."""
    if not response.lasts or by.job is not None:
        return response
    until = clock.now() + REPEATED_FOR
    return replace(response, repeat=Repeat(min(until, by.expires_at or until), note))


def authenticate(request: CatalogRequest) -> Principal:
    """Return the principal behind the bearer token; a session does not count here."""
    return authenticate_token(read_token(request))


def read_token(request: CatalogRequest) -> str:
    """Return the bearer token as it was sent."""
    values = request.header_values("authorization")
    scheme, _, secret = (values[0] if len(values) == 1 else "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        message = "Not authorized: send a token as 'Authorization: Bearer <token>'"
        raise NotAuthorized(message)
    return secret.strip()


def refuse(error: AppError, request: CatalogRequest | None = None, *, by: Principal | None = None) -> CatalogResponse:
    """Answer an error as the specification says, and note one for want of rights."""
    headers = []
    if request is not None and error.is_for_want_of_rights:
        detail = {"status": error.status, "code": error.code}
        note_refusal(
            by=by, verb=f"request_{request.method.lower()}", object=f"/iceberg{request.raw_path}", detail=detail
        )
    if error.status in (429, 503):
        headers.append(("retry-after", str(error.retry_after)) if error.retry_after else RETRY_AFTER)
    if error.status == 401:
        headers.append(CHALLENGE)
    response = answer(error_body(error), status=error.status, headers=headers)
    if isinstance(error, CommitFailed):
        return replace(response, pause_s=random.uniform(0, MOST_PAUSE_S))  # noqa: S311 - chance, no secret
    return response
