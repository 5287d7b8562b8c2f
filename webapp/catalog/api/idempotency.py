"""Idempotency-Key: a repeated request gets an equivalent answer and has no second effect.

The record is written with the effect. What an answer shows of a table is not stored: a replay shows the table as it is now,
as the specification allows. Answers of 5xx are not kept, because the effect is open: the same key may try again.
"""

import hashlib
from collections.abc import Callable
from uuid import UUID

from django.db import transaction

from webapp.catalog import permissions
from webapp.catalog.api.http import JSON_TYPE, Call, CatalogResponse
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.services.idempotency import Keyed, KeyTaken, carrying
from webapp.core.errors import AppError, InvalidInput

Handler = Callable[[Call], CatalogResponse]
# Refusals that will be the same the next time. 401 is about the token, not the request; 429 and 5xx ask for another try.
FINAL = frozenset({400, 403, 404, 406, 409, 413, 422})


def run_once(
    call: Call, handler: Handler, *, again: Handler | None, refuse: Callable[[AppError], CatalogResponse]
) -> CatalogResponse:
    """Answer a request that carries a key.

    Args:
        call: the request.
        handler: does the work; where `again` is given, its service keeps the record with it.
        again: makes the answer of a replay from the present state; None where the stored one is complete.
        refuse: turns an error into an answer.

    """
    keyed = _keyed(call)
    replayed = _replay(call, keyed, again)
    if replayed is not None:
        return replayed
    try:
        return _run(call, handler, keyed, again)
    except KeyTaken:
        return _replay(call, keyed, again) or refuse(InvalidInput("This Idempotency-Key is being used"))
    except AppError as error:
        answer = refuse(error)
        if answer.status in FINAL and not _keep_refusal(keyed, answer):
            # A try of the same request has been first, whose client had given up on it: what it did is why this one was
            # refused, and its answer holds. A client that hears "refused" deletes the files of a commit that happened.
            return _replay(call, keyed, again) or answer
        return answer


def _run(call: Call, handler: Handler, keyed: Keyed, again: Handler | None) -> CatalogResponse:
    if again is not None:
        # The handler's service writes files first and has an atomic block of its own; the record goes into that.
        with carrying(keyed):
            return handler(call)
    with transaction.atomic():
        answer = handler(call)
        keyed.store(status=answer.status, body=answer.body.decode())
        return answer


def _keyed(call: Call) -> Keyed:
    key = call.request.header("idempotency-key") or ""
    try:
        UUID(key)
    except ValueError:
        message = "Idempotency-Key must be a UUID"
        raise Malformed(message) from None
    request = call.request
    head = f"{request.method} {request.raw_path}?{request.raw_query}\n{call.branch or ''}\n"
    digest = hashlib.sha256(head.encode() + request.body).hexdigest()
    return Keyed(key=key.lower(), user_id=call.by.user_id, digest=digest)


def _replay(call: Call, keyed: Keyed, again: Handler | None) -> CatalogResponse | None:
    record = keyed.find()
    if record is None:
        return None
    if record.request_digest != keyed.digest:
        message = "This Idempotency-Key was used for another request"
        raise InvalidInput(message)
    if again is not None and record.status == 200:
        return again(call)
    if record.status == 200 and "namespace" in call.variables and call.by.job is None:
        # What is stored is as it was; the right to read it is as it is now.
        permissions.check_namespace(call.by, call.namespace, "read")
    return CatalogResponse(record.status, record.body.encode(), (JSON_TYPE,) if record.body else ())


def _keep_refusal(keyed: Keyed, answer: CatalogResponse) -> bool:
    """Keep a final refusal; False where a request with this key has been answered already."""
    try:
        keyed.store(status=answer.status, body=answer.body.decode())
    except KeyTaken:
        return False
    return True
