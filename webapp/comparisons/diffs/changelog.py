"""Pages of a stored changelog: rows as transforms get them, in the order of emission."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webapp.comparisons.diffs import reader
from webapp.comparisons.diffs.artifact import read_json
from webapp.core.errors import BadRequest, Gone
from webapp.core.numbers import read_count

if TYPE_CHECKING:
    from webapp.accounts.rules.sight import RowSight

SNAPSHOT = "_commit_snapshot_id"


@dataclass(frozen=True)
class ChangelogPage:
    """One page of a changelog."""

    columns: list[dict[str, Any]]
    counts: dict[str, int]
    rows: list[dict[str, Any]]
    total: int
    masked: list[str]
    """Columns whose values are hidden from the reader: they are null in every row."""
    next: str | None

    def as_json(self) -> dict[str, Any]:
        """Return the shape of the REST API."""
        return {
            "columns": self.columns,
            "summary": {"rows": self.total, "counts": self.counts},
            "rows": self.rows,
            "total": self.total,
            "masked": self.masked,
            "next": self.next,
        }


def read_page(folder: Path, sight: RowSight, *, cursor: str | None, limit: int) -> ChangelogPage:
    """Read one page; each row also says which snapshot its ordinal means."""
    try:
        summary = read_json(folder, "summary.json")
    except (OSError, ValueError) as error:
        raise Gone("The stored changelog has been removed. Ask for it again.", code="expired") from error
    start = _read_cursor(cursor)
    lines = reader.read_slice(folder / "rows.parquet", start, limit)
    with reader.naming_damage():
        return _page(summary, lines, start, sight)


def _page(summary: Mapping[str, Any], lines: list[reader.Line], start: int, sight: RowSight) -> ChangelogPage:
    snapshots = {entry["ordinal"]: entry["snapshot_id"] for entry in summary["ordinals"]}
    following = start + len(lines)
    return ChangelogPage(
        columns=summary["columns"],
        counts=summary["counts"],
        rows=[{**sight.mask(line), SNAPSHOT: snapshots.get(line[summary["ordinal_column"]])} for line in lines],
        total=summary["rows"],
        masked=sight.pick_hidden(column["name"] for column in summary["columns"]),
        next=_write_cursor(following) if following < summary["rows"] else None,
    )


def _write_cursor(start: int) -> str:
    return base64.urlsafe_b64encode(f"c{start}".encode()).decode().rstrip("=")


def _read_cursor(text: str | None) -> int:
    if not text:
        return 0
    try:
        decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        decoded = ""
    start = read_count(decoded[1:], most=2**63 - 1) if decoded.startswith("c") else None
    if start is None:
        raise BadRequest("The cursor is not one of ours. Start from the first page.", code="bad_cursor")
    return start
