"""Idempotency-Key on POST: the same key and request get the same answer, and the work is done once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse

from webapp.core import clock
from webapp.core.errors import BadRequest, Conflict, InvalidInput
from webapp.core.models import IdempotencyRecord
from webapp.core.numbers import read_count

KEPT_FOR = timedelta(days=1)
HASHED_BYTES = 1_000_000
"""Uploads are not read into memory to be hashed; their address and length identify them well enough."""


def run_once(
    request: HttpRequest, *, user_id: int, key: str, run: Callable[[], HttpResponse], secret: bool = False
) -> HttpResponse:
    """Answer a keyed POST, replaying the stored answer where there is one.

    Args:
        request: the request; its method, path and body make the fingerprint.
        user_id: keys of different users never meet.
        key: the header's value.
        run: does the work.
        secret: the answer carries a secret and is not kept; a replay is a 409.

    Raises:
        InvalidInput: the key was used for another request.
        Conflict: the first request with this key is still running, or its answer was a secret.

    """
    if not key or len(key) > 200:
        raise BadRequest("An Idempotency-Key has 1 to 200 characters.", code="idempotency_key")
    fingerprint = _fingerprint(request)
    IdempotencyRecord.objects.filter(created_at__lt=clock.now() - KEPT_FOR).delete()
    try:
        with transaction.atomic():
            record = IdempotencyRecord.objects.create(user_id=user_id, key=key, fingerprint=fingerprint)
    except IntegrityError:
        return _replay(user_id=user_id, key=key, fingerprint=fingerprint)
    try:
        response = run()
    except BaseException:
        record.delete()
        raise
    if response.status_code >= 500 or response.status_code == 429:
        record.delete()
        return response
    record.status = response.status_code
    if not secret:
        record.content_type = response.get("Content-Type", "")
        record.location = response.get("Location", "")
        record.body = response.content
    record.save()
    return response


def _replay(*, user_id: int, key: str, fingerprint: str) -> HttpResponse:
    record = IdempotencyRecord.objects.filter(user_id=user_id, key=key).first()
    if record is None or record.status == 0:
        raise Conflict("The first request with this Idempotency-Key is still running.", code="idempotency_running")
    if record.fingerprint != fingerprint:
        raise InvalidInput("This Idempotency-Key was used for another request.", code="idempotency_reused")
    if not record.body and not record.content_type:
        raise Conflict("This was done already; the secret is shown only once.", code="idempotency_secret")
    response = HttpResponse(bytes(record.body), status=record.status, content_type=record.content_type)
    if record.location:
        response["Location"] = record.location
    response["Idempotent-Replay"] = "true"
    return response


def _fingerprint(request: HttpRequest) -> str:
    digest = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
    length = request.META.get("CONTENT_LENGTH") or "0"
    is_short = read_count(length, most=HASHED_BYTES) is not None
    if is_short and not (request.content_type or "").startswith("multipart/"):
        digest.update(request.body)
    else:
        digest.update(length.encode())
    return digest.hexdigest()
