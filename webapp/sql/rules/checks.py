"""Queries that a repository keeps as checks: what a file says, and what its result means.

A check is a file `checks/<name>.sql`: comments, one of which says what is expected, and below them one SELECT.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.core.words import counted
from webapp.repositories.rules.checks import GREEN, RED
from webapp.sql.rules.differences import DIFFERENT, EQUAL

FOLDER, SUFFIX = "checks", ".sql"
MOST_CHECKS = 20
"""Of one commit; what comes behind them by name is not run, and says so."""
MOST_SIGNS = 100_000
EMPTY, ROWS, SHOWS = "empty", "rows", "shows"
FORMS = "empty, equal, rows > 0 (or =, !=, <, <=, >= and any number), or shows"
_SIGNS: Mapping[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_HEADER = re.compile(r"--\s*expect\s*:(.*)", re.IGNORECASE)
_ROWS = re.compile(r"rows\s*(!=|<=|>=|=|<|>)\s*(\d{1,9})")


class CheckFileError(ValueError):
    """A file is no check: `code` names the reason, `line` is where."""

    def __init__(self, code: str, line: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.line = line


@dataclass(frozen=True)
class CheckExpectation:
    """What the result of a check is to be."""

    kind: str
    sign: str = ""
    count: int = 0

    def __str__(self) -> str:
        return f"rows {self.sign} {self.count}" if self.kind == ROWS else self.kind


@dataclass(frozen=True)
class CheckVerdict:
    """Whether a result is as expected, and what it is."""

    state: str
    detail: str


def read_expectation(text: str, *, line: int = 1) -> CheckExpectation:
    """Read what is expected, as it stands behind `expect:`.

    Raises:
        CheckFileError: it is none of the forms.

    """
    words = " ".join(text.lower().split())
    if words in (EMPTY, EQUAL, SHOWS):
        return CheckExpectation(words)
    rows = _ROWS.fullmatch(words)
    if rows is None:
        message = f"'{words[:60]}' is nothing that can be expected: write {FORMS}."
        raise CheckFileError("unknown_expectation", line, message)
    return CheckExpectation(ROWS, rows[1], int(rows[2]))


def read_check(text: str) -> CheckExpectation:
    """Read what a file expects of the query that it holds.

    Raises:
        CheckFileError: it says nothing, or not one thing, or has no query.

    """
    if len(text) > MOST_SIGNS:
        raise CheckFileError("sql_too_long", 1, f"A check has at most {MOST_SIGNS:,} signs.")
    expectation: CheckExpectation | None = None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("--"):
            if expectation is None:
                break
            return expectation
        header = _HEADER.fullmatch(stripped)
        if header is not None:
            if expectation is not None:
                raise CheckFileError("two_expectations", number, "It says twice what it expects: leave one.")
            expectation = read_expectation(header[1], line=number)
    if expectation is None:
        message = f"Nothing above the query says what it expects. Begin with '-- expect: …': {FORMS}."
        raise CheckFileError("no_expectation", 1, message)
    raise CheckFileError("no_query", len(text.splitlines()) or 1, "There is no query below what it expects.")


def write_check(sql: str, expectation: CheckExpectation) -> str:
    """Return the file of a check; what the text said before of what it expects goes."""
    lines = sql.strip().splitlines()
    begin = next((place for place, line in enumerate(lines) if not line.strip().startswith("--")), len(lines))
    above = [line for line in lines[:begin] if not _HEADER.fullmatch(line.strip())]
    return "\n".join([f"-- expect: {expectation}", *above, *lines[begin:]]) + "\n"


def name_check(path: str) -> str:
    """Return what a file is called among the checks: its path without the ending."""
    return path.removesuffix(SUFFIX)


def is_check(path: str) -> bool:
    """Return whether a file lies where checks do."""
    folder, _, name = path.rpartition("/")
    return folder == FOLDER and name.endswith(SUFFIX) and name != SUFFIX


def judge(expectation: CheckExpectation, summary: Mapping[str, Any]) -> CheckVerdict:
    """Say whether the result of a query is as expected; its details are for whoever may read what it read."""
    rows, is_cut = int(summary["rows"]), bool(summary.get("is_cut"))
    counts = f"more than {counted(rows, 'row')}" if is_cut else counted(rows, "row")
    if expectation.kind == SHOWS:
        return CheckVerdict(GREEN, f"{counts}; {_describe(summary)}")
    if expectation.kind == EQUAL:
        is_met = (summary.get("difference") or {}).get("state") == EQUAL
        return CheckVerdict(GREEN if is_met else RED, _describe(summary))
    if expectation.kind == EMPTY:
        return CheckVerdict(RED if rows else GREEN, counts if rows else "no rows")
    # Of a result that is cut it is only known that there are more.
    is_known = not is_cut or (expectation.sign in (">", ">=") and rows >= expectation.count)
    is_met = is_known and _SIGNS[expectation.sign](rows, expectation.count)
    return CheckVerdict(GREEN if is_met else RED, counts)


def _describe(summary: Mapping[str, Any]) -> str:
    """Return how a result differs from that of the base, in words."""
    difference = summary.get("difference") or {}
    state = difference.get("state")
    if state == EQUAL:
        return "equal to the target"
    if state != DIFFERENT:
        return str(difference.get("reason") or "not compared with the target")
    parts = [
        f"{sign}{difference[change]:,}"
        for sign, change in (("+", "inserted"), ("−", "deleted"), ("~", "updated"))
        if difference[change]
    ]
    rows = f"{' '.join(parts)} rows from the target" if parts else ""
    columns = (
        f"{counted(len(difference['columns']), 'column')} other than the target's" if difference["columns"] else ""
    )
    return ", ".join(filter(None, (rows, columns)))
