"""What `manage.py fsck` asks: each app registers its checks, one command calls them.

A check looks at a living installation, so it may meet a change half done. What it finds counts only if a second look some
seconds later finds it again; `check_all` does both looks.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db import DatabaseError

from webapp.core.errors import AppError

logger = logging.getLogger(__name__)
DATABASE = "database"
DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
MOST_SAID = 1000
"""Signs of what an error says."""
Item = TypeVar("Item")
RESTORE_DATABASE = "Stop the installation and restore the database from a backup."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as promised."""

    code: str
    """A stable word for programs."""
    object: str
    """What it is about, so that it can be found."""
    problem: str
    way_out: str
    repair: Callable[[], Any] | None = field(default=None, compare=False)
    """What `--repair` does; None where a person must decide."""
    is_blocking: bool = field(default=False, compare=False)
    """Whether nothing else can be looked at until it is mended."""

    @property
    def key(self) -> tuple[str, str]:
        """What a second look is compared by: numbers in the words may have moved."""
        return self.code, self.object


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that was counted and is no error."""

    what: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One part of the installation that can be looked at by itself."""

    name: str
    promise: str
    """What it looks for, in words."""
    run: Callable[[], Iterable[Finding | Note]]


@dataclass(slots=True, kw_only=True)
class Report:
    """What one check came to."""

    check: Inspection
    findings: list[Finding]
    notes: list[Note]


_registered: dict[str, Inspection] = {}


def register_check(*, name: str, promise: str, run: Callable[[], Iterable[Finding | Note]]) -> None:
    """Add a check; call it from `AppConfig.ready`. A second one of the name takes its place."""
    _registered[name] = Inspection(name=name, promise=promise, run=run)


def list_checks() -> list[Inspection]:
    """Return all checks, that of the database first, without which none of the others can look."""
    return sorted(_registered.values(), key=lambda check: (check.name != DATABASE, check.name))


def check_all(checks: Iterable[Inspection], *, settle_seconds: float) -> list[Report]:
    """Look at everything, and a second time at what had findings; return what both looks found.

    Nothing is looked at after a finding that blocks.
    """
    reports = []
    for check in checks:
        reports.append(_look(check))
        if any(finding.is_blocking for finding in reports[-1].findings):
            break
    if any(report.findings for report in reports):
        time.sleep(settle_seconds)
    return [_confirm(report) if report.findings else report for report in reports]


def repair(findings: Iterable[Finding]) -> list[str]:
    """Mend what is safe to mend; return what was done or could not be, a line each."""
    lines = []
    for finding in findings:
        if finding.repair is None:
            continue
        try:
            finding.repair()
        except Exception as error:  # one that cannot be mended keeps none of the others from it
            lines.append(f"not mended: {finding.code} of {finding.object}: {error}")
        else:
            lines.append(f"mended: {finding.code} of {finding.object}")
    return lines


def _confirm(report: Report) -> Report:
    again = _look(report.check)
    before = {finding.key for finding in report.findings}
    return Report(
        check=report.check, findings=[finding for finding in again.findings if finding.key in before], notes=again.notes
    )


def _look(check: Inspection) -> Report:
    report = Report(check=check, findings=[], notes=[])
    try:
        for item in check.run():
            if isinstance(item, Finding):
                report.findings.append(item)
            else:
                report.notes.append(item)
    except Exception as error:  # what is damaged may break whoever looks at it in any way
        report.findings.append(_explain(check.name, error))
    return report


def look_apart(items: Iterable[Item], look: Callable[[Item], Iterable[Finding | Note]]) -> Iterator[Finding | Note]:
    """Look at one thing after another: what breaks the look at one of them is a finding, and the others are looked at."""
    for item in items:
        try:
            yield from look(item)
        except DatabaseError:
            raise  # the others would meet it, too
        except Exception as error:  # as in `_look`
            yield _explain(str(item), error)


def _explain(about: str, error: Exception) -> Finding:
    """Take an error in a look for a look that failed; where SQLite calls its file damaged, that is the finding."""
    if getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF in DAMAGE:
        return Finding(code="database_damaged", object=about, problem=f"SQLite: {error}.", way_out=RESTORE_DATABASE)
    if not isinstance(error, (DatabaseError, AppError, OSError)):
        logger.error("fsck cannot look at %s", about, exc_info=error)
    return Finding(
        code="check_failed",
        object=about,
        problem=f"It could not be looked at to its end: {type(error).__name__}: {error}"[:MOST_SAID],
        way_out="Start the part that it names, or bring what it names back from a backup, and run fsck again.",
    )
