"""Idempotency-Key on POST: the same key and request get the same answer, and the work is done once.

The process that works on a request may die before it has answered. What it did is known all the same: each act writes its
audit entry in its own transaction, and with it into the record of the key. The next request with the key finds a record
whose holder is dead, and either does the work or says that it was done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from threading import Timer
from typing import TYPE_CHECKING

from django.db import DatabaseError, IntegrityError, connection, transaction
from django.http import HttpRequest, HttpResponse

from webapp.core import clock
from webapp.core.errors import BadRequest, Conflict, InvalidInput
from webapp.core.models import IdempotencyRecord
from webapp.core.numbers import read_count
from webapp.core.ports import Port
from webapp.core.processes import is_dead, is_of_this_host, name_process

if TYPE_CHECKING:
    from webapp.core.principals import Principal

KEPT_FOR = timedelta(days=1)


@Port
def digest_rights(by: Principal) -> str:  # noqa: ARG001 - a question
    """Return a digest of everything that decides what somebody may see."""
    return ""


HOLDER_LIVES_FOR = timedelta(hours=2)
"""A process of another host counts as dead after that long: no request takes so much time."""
_working_on: ContextVar[int | None] = ContextVar("idempotency_record", default=None)
LET_GO_AGAIN_S = 1.0
HASHED_BYTES = 1_000_000
"""Uploads are not read into memory to be hashed; their address and length identify them well enough."""


def run_once(
    request: HttpRequest, *, by: Principal, key: str, run: Callable[[], HttpResponse], secret: bool = False
) -> HttpResponse:
    """Answer a keyed POST, replaying the stored answer where there is one.

    Args:
        request: the request; its method, path and body make the fingerprint.
        by: keys of different users never meet, and an answer is replayed only to somebody with the same rights.
        key: the header's value.
        run: does the work.
        secret: the answer carries a secret and is not kept; a replay is a 409.

    Raises:
        InvalidInput: the key was used for another request.
        Conflict: the first request with this key is still running, its answer was a secret, or it was lost with the
            process that had done the work. Or the user's rights have changed since.

    """
    user_id = by.user_id
    if not key or len(key) > 200:
        raise BadRequest("An Idempotency-Key has 1 to 200 characters.", code="idempotency_key")
    fingerprint = _fingerprint(request)
    _forget_old()
    try:
        with transaction.atomic():
            record = IdempotencyRecord.objects.create(
                user_id=user_id, key=key, fingerprint=fingerprint, holder=name_process()
            )
    except IntegrityError:
        abandoned = _take_over(user_id=user_id, key=key, fingerprint=fingerprint)
        if abandoned is None:
            return _replay(by=by, key=key, fingerprint=fingerprint)
        record = abandoned
    try:
        with _noting_effects(record):
            response = run()
    except BaseException:
        _let_go(record.pk)
        raise
    if response.status_code >= 500 or response.status_code == 429:
        _let_go(record.pk)
        return response
    record.status, record.holder = response.status_code, ""
    if not secret:
        record.content_type = response.get("Content-Type", "")
        record.location = response.get("Location", "")
        record.body = response.content
        # After the work, which may have given the user rights: a repository of their own.
        record.rights = digest_rights(by)
    try:
        record.save(update_fields=["status", "holder", "content_type", "location", "body", "rights"])
    except DatabaseError:
        _let_go(record.pk)
        raise
    return response


def _let_go(number: int) -> None:
    """Free a key whose request failed; where it had done something, the key tells so from now on.

    What failed it, a full disk above all, may keep the database from being written, too: then it is tried again, beside
    the requests, until it works or this process ends.
    """
    rows = IdempotencyRecord.objects.filter(pk=number)
    try:
        if not rows.filter(effect="").delete()[0]:
            rows.update(holder="")
    except DatabaseError:
        again = Timer(LET_GO_AGAIN_S, _let_go_beside, [number])
        again.daemon = True
        again.start()


def _let_go_beside(number: int) -> None:
    try:
        _let_go(number)
    finally:
        connection.close()


def note_effect(object: str) -> None:
    """Note in the record of the key, if the request has one, what is done in this transaction."""
    note_effect_of(find_record(), object)


def find_record() -> int | None:
    """Return the record of the key of the request that is being answered; None where it has no key."""
    return _working_on.get()


def note_effect_of(number: int | None, object: str) -> None:
    """Note in a record what the request with its key has done, though its process died before it could."""
    if number is not None:
        IdempotencyRecord.objects.filter(pk=number, effect="").update(effect=object[:400])


def register_undecided(is_undecided: Callable[[int], bool]) -> None:
    """Add who tells whether it still has to be found out if the request of a record did what it had begun outside the database.

    Call it from `AppConfig.ready`. It is asked once the process of the request is dead.
    """
    if is_undecided not in _undecided:
        _undecided.append(is_undecided)


_undecided: list[Callable[[int], bool]] = []


@contextmanager
def _noting_effects(record: IdempotencyRecord) -> Iterator[None]:
    token = _working_on.set(record.pk)
    try:
        yield
    finally:
        _working_on.reset(token)


def _forget_old() -> None:
    """Remove what is kept long enough; never a key that is worked with, however old a clock that was set makes it look."""
    old = IdempotencyRecord.objects.filter(created_at__lt=clock.cautious_now() - KEPT_FOR)
    old.exclude(status=0).delete()
    for record in old.filter(status=0):
        if _is_abandoned(record):
            IdempotencyRecord.objects.filter(pk=record.pk, status=0, holder=record.holder).delete()


def _is_abandoned(record: IdempotencyRecord) -> bool:
    """Return whether nobody works on it: its process ended, or is another host's and had more time than requests take."""
    if is_of_this_host(record.holder):
        return is_dead(record.holder)
    return not record.holder or record.created_at < clock.cautious_now() - HOLDER_LIVES_FOR


def _take_over(*, user_id: int, key: str, fingerprint: str) -> IdempotencyRecord | None:
    """Return the record that a dead process left without an effect, now ours; None where there is nothing to take.

    Raises:
        Conflict: the process did the work, or may have done it, and died before it answered.

    """
    record = IdempotencyRecord.objects.filter(user_id=user_id, key=key, fingerprint=fingerprint, status=0).first()
    if record is None or not _is_abandoned(record):
        return None
    if record.effect:
        raise Conflict(
            f"This was done already ({record.effect}), but the process that did it died before it could answer.",
            code="idempotency_done",
            object=record.effect,
        )
    if any(is_undecided(record.pk) for is_undecided in _undecided):
        raise Conflict(
            "The process of the first request with this Idempotency-Key died, and what it did is being found out: "
            "ask again in a few seconds.",
            code="idempotency_running",
        )
    held = IdempotencyRecord.objects.filter(pk=record.pk, status=0, holder=record.holder, effect="")
    record.holder = name_process()
    return record if held.update(holder=record.holder, created_at=clock.now()) else None


def _replay(*, by: Principal, key: str, fingerprint: str) -> HttpResponse:
    record = IdempotencyRecord.objects.filter(user_id=by.user_id, key=key).first()
    if record is None or record.status == 0:
        raise Conflict("The first request with this Idempotency-Key is still running.", code="idempotency_running")
    if record.fingerprint != fingerprint:
        raise InvalidInput("This Idempotency-Key was used for another request.", code="idempotency_reused")
    if not record.body and not record.content_type:
        raise Conflict("This was done already; the secret is shown only once.", code="idempotency_secret")
    if record.rights != digest_rights(by):
        raise Conflict(
            "This was done already. Your rights have changed since, so the answer is not repeated.",
            code="idempotency_rights",
        )
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
