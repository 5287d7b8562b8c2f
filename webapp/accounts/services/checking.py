"""Whether the audit log is whole: its chain computed anew, and its end compared with both places where that is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db.models import Q

from webapp.accounts.models import AuditEntry, AuditGap, AuditHead
from webapp.accounts.queries import audit as queries
from webapp.accounts.rules.audit import ACCEPT_CUT, ChainHead, link
from webapp.accounts.services.audit import is_counted_before
from webapp.core import clock
from webapp.core.fsck import Finding, Note

if TYPE_CHECKING:
    from collections.abc import Iterator

LATE = timedelta(minutes=10)
"""An entry that is not sealed by then was forgotten: the sweep is not running."""


def check_audit_chain() -> Iterator[Finding | Note]:
    """Compute the chain anew, and compare its end with both places where that is kept."""
    position, chain, sealed = 0, "", 0
    gaps = {gap.first: gap for gap in AuditGap.objects.iterator(chunk_size=queries.CHUNK)}
    removed = sum(gap.last - gap.first + 1 for gap in gaps.values())
    for entry in AuditEntry.objects.exclude(position=None).order_by("position").iterator(chunk_size=queries.CHUNK):
        position += 1
        sealed += 1
        while (gap := gaps.get(position)) is not None:
            yield from _check_gap(gap)
            position, chain = gap.last + 1, gap.chain
        if entry.position != position:
            missing = f"audit entries {position} to {(entry.position or 0) - 1}"
            yield _finding("audit_gap", missing, "They were sealed and are gone.")
            position = entry.position or 0
        elif link(chain, queries.describe_entry(entry)) != entry.chain:
            yield _finding("audit_changed", f"audit entry {entry.pk}", "It was changed after it was sealed.")
        chain = entry.chain
    yield from _check_heads(ChainHead(position, chain))
    before = clock.now() - LATE
    is_late = Q(batch=None, at__lt=before) | is_counted_before(before)
    late = AuditEntry.objects.filter(is_late, position=None).count()
    if late:
        problem = f"{late} entries are older than {LATE} and not sealed."
        yield _finding("audit_unsealed", "audit log", problem, "See to it that `manage.py sweep` runs.")
    yield Note(what="sealed audit entries", count=sealed)
    yield Note(what="audit entries removed for their age", count=removed)
    accepted = AuditEntry.objects.filter(verb=ACCEPT_CUT).count()
    yield Note(what="accepted cuts of the audit log", count=accepted)


def _check_gap(gap: AuditGap) -> Iterator[Finding]:
    if not gap.is_genuine(key=settings.SECRET_KEY):
        problem = "That they were removed for their age was said under another TRIBUTARY_SECRET_KEY, or forged."
        yield _finding("audit_forged", f"audit entries {gap.first} to {gap.last}", problem)


def _finding(code: str, what: str, problem: str, way_out: str = "") -> Finding:
    way_out = way_out or "Look into a backup for what was there, and into who could write the database."
    return Finding(code=code, object=what, problem=problem, way_out=way_out)


def _check_heads(end: ChainHead) -> Iterator[Finding]:
    row = AuditHead.objects.first()
    head = queries.read_kept_head()
    if end.position == 0 and row is None and head is None:
        return
    if row is None:
        yield _finding("audit_head", "audit log", "The database has lost the end of its chain.")
    else:
        yield from _check_genuine(ChainHead(row.position, row.chain, row.mac), "audit log")
        if (row.position, row.chain) != (end.position, end.chain):
            problem = f"It ends at entry {end.position}, and was sealed up to entry {row.position}."
            yield _finding("audit_cut", "audit log", problem)
    if head is None:
        way_out = "The sweep writes it again; until then a cut tail would not be seen."
        yield _finding("audit_head_file", str(queries.head_path()), "It is missing.", way_out)
        return
    yield from _check_genuine(head, str(queries.head_path()))
    if not queries.continues(head):
        problem = (
            f"The log lacks entry {head.position}, which this file saw: it was cut, or the database is an older one."
        )
        way_out = (
            "After restoring a backup of the database run `manage.py accept_audit_cut`; else look into that backup for "
            "what is gone."
        )
        yield _finding("audit_cut", str(queries.head_path()), problem, way_out)


def _check_genuine(head: ChainHead, where: str) -> Iterator[Finding]:
    if not head.is_genuine(key=settings.SECRET_KEY):
        problem = "The end of the chain was made under another TRIBUTARY_SECRET_KEY, or forged."
        way_out = (
            "With the key of before this check passes; after a change of keys on purpose it does with the next entry."
        )
        yield _finding("audit_forged", where, problem, way_out)
