"""Whether a snapshot's summary counts the rows that its manifests list: pages show the summary, which is its writer's word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.catalog.rules.table_properties import LARGEST_NUMBER
from webapp.core.numbers import read_count

if TYPE_CHECKING:
    from collections.abc import Mapping

ROWS = "total-records"
DELETES = ("total-position-deletes", "total-equality-deletes")


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Rows of data files, and of delete files."""

    rows: int = 0
    deletes: int = 0

    def __str__(self) -> str:
        return f"{self.rows} rows and {self.deletes} deletes"

    def __add__(self, other: RecordCounts) -> RecordCounts:
        return RecordCounts(self.rows + other.rows, self.deletes + other.deletes)

    def __sub__(self, other: RecordCounts) -> RecordCounts:
        return RecordCounts(self.rows - other.rows, self.deletes - other.deletes)


def explain_summary(
    summary: Mapping[str, str], *, since: Mapping[str, str], before: RecordCounts, after: RecordCounts, added: int
) -> str:
    """Say what a summary counts otherwise than the manifests do; empty where it does not.

    Where the snapshot before it states what is not so, a writer cannot know: it goes on from that, or counts anew.

    Args:
        summary: of the snapshot.
        since: of the one before it; empty of the first.
        before: what the manifests of that one list.
        after: what its own list.
        added: the rows of the data files that it has added.

    """
    stated, start = _read_totals(summary), _read_totals(since) if since else RecordCounts()
    if stated is None:
        return f"no {ROWS}" if start is not None else ""  # a writer leaves out what it cannot go on from
    is_known = start == before
    goes_on = not is_known and start is not None and stated - start == after - before
    inserted, removed = read_counter(summary, "added-records"), read_counter(summary, "deleted-records")
    if inserted != added:
        return f"{inserted} added rows where its manifests list {added}"
    if stated != after and not goes_on:
        return f"{stated} where its manifests list {after}"
    if is_known and removed != added - (after.rows - before.rows):
        return f"{removed} removed rows where its manifests tell of {added - (after.rows - before.rows)}"
    return ""


def _read_totals(summary: Mapping[str, str]) -> RecordCounts | None:
    if ROWS not in summary:
        return None
    return RecordCounts(read_counter(summary, ROWS), sum(read_counter(summary, name) for name in DELETES))


def read_counter(summary: Mapping[str, str], name: str) -> int:
    """Return a counter of a summary; writers leave out what is zero."""
    return read_count(str(summary.get(name, "0")), most=LARGEST_NUMBER) or 0
