"""The audit log: looked through, written out, and checked against its chain."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from jobs.formulas import escape_formula
from webapp.accounts.models import AuditEntry, AuditGap, AuditHead
from webapp.accounts.rules.audit import FIELDS, OUTCOMES, ChainHead, link
from webapp.core import clock
from webapp.core.filters import ListFilter, offer
from webapp.core.fsck import Finding, Note
from webapp.core.words import counted

if TYPE_CHECKING:
    from django.db.models import QuerySet

LATE = timedelta(minutes=10)
"""An entry that is not sealed by then was forgotten: the sweep is not running."""
CHUNK = 2000
PAGE = 100
RECENT = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter(ListFilter):
    """Which entries are wanted."""

    actor: str = offer("actor")
    verb: str = offer("verb")
    object: str = offer("object__startswith")
    branch: str = offer("branch")
    outcome: str = offer("outcome")
    since: datetime | None = offer("at__gte", default=None)
    until: datetime | None = offer("at__lt", default=None)


def list_audit(filters: AuditFilter) -> QuerySet[AuditEntry]:
    """The audit log, newest first."""
    return AuditEntry.objects.filter(**filters.lookups)


def export_csv(entries: QuerySet[AuditEntry]) -> Iterator[str]:
    """Write entries as CSV, in which no spreadsheet finds a formula."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(FIELDS)
    for number, entry in enumerate(_read_pages(entries), start=1):
        row = _as_row(entry)
        row["detail"] = json.dumps(row["detail"], sort_keys=True)
        writer.writerow([escape_formula(value) if isinstance(value, str) else value for value in row.values()])
        if number % CHUNK == 0:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def export_jsonl(entries: QuerySet[AuditEntry]) -> Iterator[str]:
    """Write entries as lines of JSON."""
    lines: list[str] = []
    for entry in _read_pages(entries):
        lines.append(json.dumps(_as_row(entry)) + "\n")
        if len(lines) == CHUNK:
            yield "".join(lines)
            lines.clear()
    yield "".join(lines)


def _read_pages(entries: QuerySet[AuditEntry]) -> Iterator[AuditEntry]:
    """Read entries page by page, newest first: an open cursor would pin the thread's connection to an old state."""
    older = entries.order_by("-pk")
    page = list(older[:CHUNK])
    while page:
        yield from page
        page = list(older.filter(pk__lt=page[-1].pk)[:CHUNK])


def _as_row(entry: AuditEntry) -> dict[str, Any]:
    values = {**describe_entry(entry), "id": entry.pk, "position": entry.position, "chain": entry.chain}
    return {name: values[name] for name in FIELDS}


def describe_entry(entry: AuditEntry) -> dict[str, Any]:
    """Return all that an entry says, which is what its digest covers."""
    return {
        "at": entry.at.isoformat(),
        "actor": entry.actor,
        "job": entry.job_id,
        "verb": entry.verb,
        "object": entry.object,
        "branch": entry.branch,
        "outcome": entry.outcome,
        "count": entry.count,
        "detail": entry.detail,
    }


def head_path() -> Path:
    """Where the copy of the chain's end is, apart from the database."""
    return Path(settings.TRIBUTARY_HOME) / "audit-head"


def read_kept_head() -> ChainHead | None:
    """Return the chain's end as the home has it; None where it has none, an empty one where it cannot be read."""
    try:
        members = json.loads(head_path().read_text())
        return ChainHead(int(members["position"]), str(members["chain"]), str(members["mac"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return ChainHead()


def continues(head: ChainHead) -> bool:
    """Whether the entry at which the chain once ended is there, as it was, or was removed for its age."""
    if AuditEntry.objects.filter(position=head.position, chain=head.chain).exists():
        return True
    gap = AuditGap.objects.filter(first__lte=head.position, last__gte=head.position).first()
    return gap is not None and gap.is_genuine(key=settings.SECRET_KEY)


def check_audit_chain() -> Iterator[Finding | Note]:
    """Compute the chain anew, and compare its end with both places where that is kept."""
    position, chain, sealed = 0, "", 0
    gaps = {gap.first: gap for gap in AuditGap.objects.iterator(chunk_size=CHUNK)}
    removed = sum(gap.last - gap.first + 1 for gap in gaps.values())
    for entry in AuditEntry.objects.exclude(position=None).order_by("position").iterator(chunk_size=CHUNK):
        position += 1
        sealed += 1
        while (gap := gaps.get(position)) is not None:
            yield from _check_gap(gap)
            position, chain = gap.last + 1, gap.chain
        if entry.position != position:
            missing = f"audit entries {position} to {(entry.position or 0) - 1}"
            yield _finding("audit_gap", missing, "They were sealed and are gone.")
            position = entry.position or 0
        elif link(chain, describe_entry(entry)) != entry.chain:
            yield _finding("audit_changed", f"audit entry {entry.pk}", "It was changed after it was sealed.")
        chain = entry.chain
    yield from _check_heads(ChainHead(position, chain))
    late = AuditEntry.objects.filter(position=None, at__lt=clock.now() - LATE).count()
    if late:
        problem = f"{late} entries are older than {LATE} and not sealed."
        yield _finding("audit_unsealed", "audit log", problem, "See to it that `manage.py sweep` runs.")
    yield Note(what="sealed audit entries", count=sealed)
    yield Note(what="audit entries removed for their age", count=removed)


def _check_gap(gap: AuditGap) -> Iterator[Finding]:
    if not gap.is_genuine(key=settings.SECRET_KEY):
        problem = "That they were removed for their age was said under another TRIBUTARY_SECRET_KEY, or forged."
        yield _finding("audit_forged", f"audit entries {gap.first} to {gap.last}", problem)


def _finding(code: str, what: str, problem: str, way_out: str = "") -> Finding:
    way_out = way_out or "Look into a backup for what was there, and into who could write the database."
    return Finding(code=code, object=what, problem=problem, way_out=way_out)


def _check_heads(end: ChainHead) -> Iterator[Finding]:
    row = AuditHead.objects.first()
    head = read_kept_head()
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
        yield _finding("audit_head_file", str(head_path()), "It is missing.", way_out)
        return
    yield from _check_genuine(head, str(head_path()))
    if not continues(head):
        problem = (
            f"The log lacks entry {head.position}, which this file saw: it was cut, or the database is an older one."
        )
        way_out = (
            "After restoring a backup of the database remove the file; else look into that backup for what is gone."
        )
        yield _finding("audit_cut", str(head_path()), problem, way_out)


def _check_genuine(head: ChainHead, where: str) -> Iterator[Finding]:
    if not head.is_genuine(key=settings.SECRET_KEY):
        problem = "The end of the chain was made under another TRIBUTARY_SECRET_KEY, or forged."
        way_out = (
            "With the key of before this check passes; after a change of keys on purpose it does with the next entry."
        )
        yield _finding("audit_forged", where, problem, way_out)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """One page of the log, newest first."""

    entries: list[AuditEntry]
    filters: AuditFilter
    is_filtered: bool
    before: int | None
    """The entry before which this page begins; None: the newest."""
    older: int | None
    """The entry before which the next page begins; None: this is the last."""
    verbs: list[str]
    """What was done lately, to choose from."""
    kept: str
    """For how long entries are kept, as a sentence."""
    outcomes: tuple[str, ...] = OUTCOMES
    problem: str = ""
    """What is wrong with the filters; nothing is listed then."""


def read_audit_page(filters: AuditFilter, *, before: int | None = None) -> AuditPage:
    """Return the entries before one, or the newest."""
    entries = list_audit(filters)
    if before is not None:
        entries = entries.filter(pk__lt=before)
    page = list(entries[: PAGE + 1])
    older = page[PAGE - 1].pk if len(page) > PAGE else None
    verbs = sorted(set(AuditEntry.objects.values_list("verb", flat=True)[:RECENT]))
    return AuditPage(page[:PAGE], filters, not filters.is_any, before, older, verbs, _describe_retention())


def _describe_retention() -> str:
    reads, acts = (
        f"for {counted(days, 'day')}" if days else "for ever"
        for days in (settings.TRIBUTARY_AUDIT_READ_DAYS, settings.TRIBUTARY_AUDIT_DAYS)
    )
    return f"Reads and refusals are kept {reads}, all else {acts}."
