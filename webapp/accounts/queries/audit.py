"""The audit log: looked through, written out, and where its chain ends."""

from __future__ import annotations

import csv
import hmac
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from jobs.formulas import escape_formula
from jobs.parsing import load_json
from webapp.accounts.models import AuditEntry, AuditGap
from webapp.accounts.rules.audit import ACCEPT_CUT, FIELDS, OUTCOMES, ChainHead, mac_of_cut
from webapp.core.filters import ListFilter, offer

if TYPE_CHECKING:
    from django.db.models import QuerySet

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
    """List the audit log, newest first."""
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
    """Return where the copy of the chain's end is, apart from the database."""
    return Path(settings.TRIBUTARY_HOME) / "audit-head"


def read_kept_head() -> ChainHead | None:
    """Return the chain's end as the home has it; None where it has none, an empty one where it cannot be read."""
    try:
        members = load_json(head_path().read_text())
        return ChainHead(int(members["position"]), str(members["chain"]), str(members["mac"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return ChainHead()


def continues(head: ChainHead) -> bool:
    """Return whether the entry at which the chain once ended is there as it was, or is known to be gone.

    It was removed for its age, or an administrator has accepted that it is missing.
    """
    if AuditEntry.objects.filter(position=head.position, chain=head.chain).exists():
        return True
    gap = AuditGap.objects.filter(first__lte=head.position, last__gte=head.position).first()
    return (gap is not None and gap.is_genuine(key=settings.SECRET_KEY)) or _is_cut_accepted(head)


def _is_cut_accepted(head: ChainHead) -> bool:
    """Return whether an administrator has accepted that the log lacks the entry at which the chain once ended."""
    mac = mac_of_cut(head, key=settings.SECRET_KEY)
    macs = (str(entry.detail.get("mac", "")) for entry in AuditEntry.objects.filter(verb=ACCEPT_CUT))
    return any(hmac.compare_digest(mac.encode(), recorded_mac.encode()) for recorded_mac in macs)


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
    read_days: int
    """For how long reads and refusals are kept; 0: for ever."""
    act_days: int
    """For how long all else is."""
    outcomes: tuple[str, ...] = OUTCOMES
    problem: str = ""
    """What is wrong with the filters; nothing is listed then."""

    @property
    def export_parameters(self) -> dict[str, str]:
        """The filters as parameters of the exports, which refuse empty or unknown ones."""
        values = ((name, getattr(self.filters, name)) for name in self.filters.list_offers())
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values if value}


def read_audit_page(filters: AuditFilter, *, before: int | None = None) -> AuditPage:
    """Return the entries before one, or the newest."""
    entries = list_audit(filters)
    if before is not None:
        entries = entries.filter(pk__lt=before)
    page = list(entries[: PAGE + 1])
    older = page[PAGE - 1].pk if len(page) > PAGE else None
    verbs = sorted(set(AuditEntry.objects.values_list("verb", flat=True)[:RECENT]))
    return AuditPage(
        entries=page[:PAGE],
        filters=filters,
        is_filtered=not filters.is_any,
        before=before,
        older=older,
        verbs=verbs,
        read_days=settings.TRIBUTARY_AUDIT_READ_DAYS,
        act_days=settings.TRIBUTARY_AUDIT_DAYS,
    )
