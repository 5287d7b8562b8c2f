"""Removes entries of the audit log for their age, so that the chain of those that stay can still be checked."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction

from webapp.accounts.models import AuditEntry, AuditGap, AuditHead
from webapp.accounts.rules.audit import mac_of_gap
from webapp.accounts.services.audit import record_audit
from webapp.core import clock
from webapp.core.databases import AUDIT_LOCK, take_lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet

AT_ONCE = 5000
EVERYTHING, READS = "everything", "reads and refusals"


def remove_old_entries() -> dict[str, int]:
    """Remove what is older than the settings say, in whole days; each time an entry says what was removed."""
    removed = _remove(READS, days=settings.TRIBUTARY_AUDIT_READ_DAYS)
    removed += _remove(EVERYTHING, days=settings.TRIBUTARY_AUDIT_DAYS)
    return {"audit entries removed": removed} if removed else {}


def _remove(what: str, *, days: int) -> int:
    if not days:
        return 0
    until = clock.now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days)
    removed, is_over = 0, False
    while not is_over:
        count = _remove_some(what, until=until)
        removed += count
        is_over = count < AT_ONCE
    return removed


def _remove_some(what: str, *, until: datetime) -> int:
    name = "reads_removed_until" if what == READS else "removed_until"
    with transaction.atomic():
        take_lock(AUDIT_LOCK)
        head = AuditHead.objects.select_for_update().first()
        since: datetime | None = getattr(head, name, None)
        if head is None or (since is not None and since >= until):
            return 0
        # The last entry stays: the chain's end is compared with it.
        entries = AuditEntry.objects.filter(position__lt=head.position, at__lt=until)
        if what == READS:
            entries = entries.exclude(batch=None)
        if since is not None:
            entries = entries.filter(at__gte=since)
        count = _take_out(entries)
        if count:
            detail = {"what": what, "until": until.isoformat(), "entries": count}
            record_audit(by=None, verb="remove_old_audit_entries", object="audit", detail=detail)
        if count < AT_ONCE:
            setattr(head, name, until)
            head.save(update_fields=[name])
    return count


def _take_out(entries: QuerySet[AuditEntry]) -> int:
    rows = list(entries.order_by("position").values_list("pk", "position", "chain")[:AT_ONCE])
    run: list[tuple[int, str]] = []
    for _, position, chain in rows:
        if run and position != run[-1][0] + 1:
            _keep_gap(run)
            run = []
        run.append((position or 0, chain))
    if run:
        _keep_gap(run)
    AuditEntry.objects.filter(pk__in=[row[0] for row in rows]).delete()
    return len(rows)


def _keep_gap(run: Sequence[tuple[int, str]]) -> None:
    """Keep where the chain goes on behind entries that follow each other, with the gaps beside them as one."""
    first, (last, chain) = run[0][0], run[-1]
    before = AuditGap.objects.filter(last=first - 1).first()
    behind = AuditGap.objects.filter(first=last + 1).first()
    # A forged one stays as it is: with the key of this one it would become genuine.
    if before is not None and before.is_genuine(key=settings.SECRET_KEY):
        first = before.first
        before.delete()
    if behind is not None and behind.is_genuine(key=settings.SECRET_KEY):
        last, chain = behind.last, behind.chain
        behind.delete()
    mac = mac_of_gap(first, last, chain, key=settings.SECRET_KEY)
    AuditGap.objects.create(first=first, last=last, chain=chain, mac=mac)
