"""What is counted and not written one by one: reads of rows, code and logs, and refusals.

A read must cost nothing: it adds to a count in memory, and a thread writes the counts every few seconds. What a process
that is killed had counted since then is lost. Several web processes add to the same rows.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import DatabaseError, IntegrityError, close_old_connections, transaction
from django.db.models import F

from webapp.accounts.models import AuditEntry
from webapp.accounts.rules.audit import ALLOWED, ANONYMOUS, HOURLY, REFUSED, neutralize, neutralize_detail
from webapp.accounts.services.audit import BATCH_WINDOW, HOURLY_WINDOW
from webapp.core import clock
from webapp.core.errors import AppError, Unavailable
from webapp.core.principals import Principal

logger = logging.getLogger(__name__)
FLUSH_SECONDS = 2.0
MOST_PENDING = 10_000
"""Beyond so many different things within two seconds further ones are counted together."""
MOST_REFUSED = 100
"""Of so many different refusals in a minute each has its entry: who is refused must not fill the disk."""
MANY = "(many)"
_pending: Counter[_Reading] = Counter()
_refused: dict[_Reading, int] = {}
"""Refusals of the present minute, with its beginning."""
_lock = threading.Lock()


class _Reading(NamedTuple):
    since: int
    """When its minute or hour began, in seconds of Unix time."""
    actor: str
    job_id: str
    verb: str
    object: str
    branch: str
    outcome: str
    detail: tuple[tuple[str, Any], ...]

    @property
    def batch(self) -> str:
        return hashlib.sha256(json.dumps(self, default=str).encode("utf-8", "surrogatepass")).hexdigest()


def note_reading(*, by: Principal, verb: str, object: str, branch: str = "") -> None:
    """Count a read of rows or of what opens them, of code, or of a job's log."""
    _note(by=by, verb=verb, object=object, branch=branch, outcome=ALLOWED, detail={})


def note_refusal(*, by: Principal | None, verb: str, object: str, detail: Mapping[str, Any]) -> None:
    """Count a request that was refused for want of rights; without a valid user it is `anonymous`."""
    _note(by=by, verb=verb, object=object, branch="", outcome=REFUSED, detail=detail)


def _note(
    *, by: Principal | None, verb: str, object: str, branch: str, outcome: str, detail: Mapping[str, Any]
) -> None:
    reading = _Reading(
        since=_find_start(HOURLY_WINDOW if verb in HOURLY else BATCH_WINDOW),
        actor=by.username if by else ANONYMOUS,
        job_id=by.job.job_id if by and by.job else "",
        verb=verb,
        object=object,
        branch=branch,
        outcome=outcome,
        detail=tuple(detail.items()),
    )
    with _lock:
        if reading not in _pending and len(_pending) >= MOST_PENDING:
            reading = reading._replace(object=MANY, branch="", detail=())
        if outcome == REFUSED:
            reading = _bound(reading)
        _pending[reading] += 1


def _find_start(window: timedelta) -> int:
    seconds = int(window.total_seconds())
    return int(clock.now().timestamp()) // seconds * seconds


def _bound(refusal: _Reading) -> _Reading:
    """Return the refusal, or what it is counted with where its minute has too many different ones."""
    if refusal.since not in _refused.values():
        _refused.clear()
    if refusal not in _refused and len(_refused) >= MOST_REFUSED:
        return refusal._replace(verb="request", object=MANY, branch="", detail=())
    _refused[refusal] = refusal.since
    return refusal


def note_turned_away(*, method: str, path: str, address: str, error: AppError) -> None:
    """Count a request that the event loop refuses before its sender is known. Being too busy is not a refusal."""
    if error.status < Unavailable.status:
        detail = {"status": error.status, "code": error.code, "address": address}
        note_refusal(by=None, verb=f"request_{method.lower()}", object=path, detail=detail)


def flush_readings() -> int:
    """Write what was counted; return how many entries were written or grew.

    What the database does not take is kept and written later.
    """
    with _lock:
        readings = dict(_pending)
        _pending.clear()
    written = 0
    for reading, count in readings.items():
        try:
            _add(reading, count)
        except DatabaseError:
            with _lock:
                _pending[reading] += count
            logger.warning("The audit log took %s of %s reads; the rest is tried again.", written, len(readings))
            continue
        written += 1
    return written


def _add(reading: _Reading, count: int) -> None:
    """Add to the unsealed row of what is counted together; another process may make it at the same moment."""
    rows = AuditEntry.objects.filter(batch=reading.batch, position=None)
    if rows.update(count=F("count") + count):
        return
    try:
        with transaction.atomic():
            AuditEntry.objects.create(
                at=datetime.fromtimestamp(reading.since, UTC),
                actor=neutralize(reading.actor)[:150],
                job_id=reading.job_id,
                verb=neutralize(reading.verb)[:60],
                object=neutralize(reading.object)[:400],
                branch=neutralize(reading.branch)[:200],
                outcome=reading.outcome,
                detail=neutralize_detail(dict(reading.detail)),
                count=count,
                batch=reading.batch,
            )
    except IntegrityError:
        if not rows.update(count=F("count") + count):
            raise


def start_flushing() -> None:
    """Write what is counted every few seconds, from a thread of this process."""
    threading.Thread(target=_flush_for_ever, name="audit", daemon=True).start()


def _flush_for_ever() -> None:
    pause = threading.Event()
    while not pause.wait(FLUSH_SECONDS):
        if _pending:
            close_old_connections()
            flush_readings()
