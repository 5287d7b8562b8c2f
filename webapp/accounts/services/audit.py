"""The audit log: acts are rows of their own transaction, one sealer chains them, and the chain's end is kept twice."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet

from jobs.whole_files import write_whole
from webapp.accounts.models import AuditEntry, AuditHead
from webapp.accounts.permissions import check_admin
from webapp.accounts.queries import audit as queries
from webapp.accounts.rules.audit import (
    ACCEPT_CUT,
    ALLOWED,
    HOURLY,
    SYSTEM,
    ChainHead,
    link,
    mac_of_cut,
    neutralize,
    neutralize_detail,
)
from webapp.core import clock
from webapp.core.databases import AUDIT_LOCK, take_lock
from webapp.core.errors import Conflict
from webapp.core.idempotency import note_effect
from webapp.core.principals import Principal

logger = logging.getLogger(__name__)
SEALED_AT_ONCE = 1000
BATCH_WINDOW = timedelta(minutes=1)
HOURLY_WINDOW = timedelta(hours=1)
BATCH_GRACE = timedelta(seconds=30)
"""After its minute or hour a count can still grow by what other processes have not written yet."""


def record_audit(
    *,
    by: Principal | None,
    verb: str,
    object: str,
    branch: str = "",
    job_id: str = "",
    outcome: str = ALLOWED,
    detail: Mapping[str, Any] | None = None,
    is_effect: bool = True,
) -> AuditEntry:
    """Append to the audit log, in the transaction of the act.

    Args:
        by: who did it; the person behind a job. None: the installation itself.
        verb: what was done, such as `start_build`.
        object: to what: a dataset's path, a repository's name.
        branch: on which branch of it.
        job_id: the job that did it; the one of the actor's token where it is one.
        outcome: `allowed` or `refused`.
        detail: what else there is to say, as JSON.
        is_effect: the act is what a request asked for, not a step on the way to it.

    """
    if is_effect and outcome == ALLOWED:
        note_effect(object)
    job = by.job if by is not None else None
    return AuditEntry.objects.create(
        actor=neutralize(by.username if by else SYSTEM)[:150],
        job_id=job.job_id if job else job_id,
        verb=verb,
        object=neutralize(object)[:400],
        branch=neutralize(branch)[:200],
        outcome=outcome,
        detail=neutralize_detail(detail or {}),
    )


def seal_audit() -> None:
    """Give every new entry its place in the chain, and move the chain's end.

    One transaction after another does it, in order of the rows, so that those who write the rows never wait for each
    other. An entry that becomes visible late is chained late.
    """
    while _list_unsealed().exists():
        with transaction.atomic():
            take_lock(AUDIT_LOCK)
            head = AuditHead.objects.select_for_update().first() or AuditHead()
            entries = list(_list_unsealed()[:SEALED_AT_ONCE])
            for entry in entries:
                head.position += 1
                head.chain = link(head.chain, queries.describe_entry(entry))
                entry.position, entry.chain = head.position, head.chain
            _write_places(entries)
            head.mac = ChainHead.of(head.position, head.chain, key=settings.SECRET_KEY).mac
            head.save()
    end = AuditHead.objects.first()
    if end is not None:
        _keep_head(ChainHead(end.position, end.chain, end.mac))


def _write_places(entries: Sequence[AuditEntry]) -> None:
    """Write the places that entries got: `bulk_update` takes a hundred times as long, and others wait meanwhile."""
    table = connection.ops.quote_name(AuditEntry._meta.db_table)
    with connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {table} SET position = %s, chain = %s WHERE id = %s",
            [(entry.position, entry.chain, entry.pk) for entry in entries],
        )


def _list_unsealed() -> QuerySet[AuditEntry]:
    is_complete = Q(batch=None) | is_counted_before(clock.now() - BATCH_GRACE)
    return AuditEntry.objects.filter(is_complete, position=None).order_by("id")


def is_counted_before(moment: datetime) -> Q:
    """Select counts whose minute, or hour, was over at a moment."""
    is_over = Q(at__lt=moment - BATCH_WINDOW) & ~Q(verb__in=HOURLY)
    return Q(batch__isnull=False) & (is_over | Q(at__lt=moment - HOURLY_WINDOW))


def accept_cut(*, by: Principal, reason: str) -> ChainHead:
    """Accept that the log lacks entries that `audit-head` has seen, as after a restore of the database.

    An entry says so for ever. From then on the copy in the home follows the chain again.

    Raises:
        PermissionDenied: not an administrator.
        Conflict: the log lacks nothing, or the copy in the home is missing or forged.

    """
    check_admin(by)
    head = queries.read_kept_head()
    if head is None or not head.is_genuine(key=settings.SECRET_KEY):
        message = f"{queries.head_path()} is missing, or was made under another TRIBUTARY_SECRET_KEY."
        raise Conflict(message, code="no_audit_head")
    cut = {"position": head.position, "chain": head.chain, "mac": mac_of_cut(head, key=settings.SECRET_KEY)}
    with transaction.atomic():
        take_lock(AUDIT_LOCK)
        if queries.continues(head):
            raise Conflict("The audit log has all entries that audit-head has seen.", code="no_cut")
        record_audit(by=by, verb=ACCEPT_CUT, object="audit", detail={**cut, "reason": reason})
    seal_audit()
    return head


def _keep_head(head: ChainHead) -> None:
    """Copy the chain's end into the home, unless the copy there says that entries are missing."""
    path = queries.head_path()
    kept_head = queries.read_kept_head()
    if kept_head == head:
        return
    if kept_head is not None and not queries.continues(kept_head):
        logger.error("The audit log does not hold what %s says; run `manage.py fsck`. The file stays as it is.", path)
        return
    content = {"position": head.position, "chain": head.chain, "mac": head.mac}
    write_whole(path, json.dumps(content), mode=0o600, is_durable=True)
