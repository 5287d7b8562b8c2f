"""About how many rows differ, by the ids that rows have in tables of format version 3: no value is read for it.

A row keeps its id wherever it is written again, and says which commit changed it last. So two narrow columns, or none
where a file still has the rows that it was added with, tell of two ends which rows only one of them has and which both
have in another version. That is known long before the values are compared. It is not the last word: a row that was written
as a change with the values that it had counts too, and one that was deleted and inserted anew counts at both ends.

Source: the Iceberg specification, version 3, "Row Lineage".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.engine.read.row_ids import VERSION
from jobs.engine.read.scan import ID_COLUMNS, inherited_ids

if TYPE_CHECKING:
    from jobs.engine.compare.sides import Sides
    from jobs.engine.plan.planner import End


def count_versions(diff: Sides) -> dict[str, int] | None:
    """Rows by id that only `after` has, that only `before` has, and that both have in another version.

    None where rows have no ids, or do not keep them: equality deletes do not know which rows they replace.
    """
    scanner = diff.scanner(diff.plan.before)
    if scanner is None or diff.filter is not None or not _keeps_row_ids(diff):
        return None
    diff.load_deleted()
    scanner.load_origins("origins", {entry.path: entry for entry in diff.plan.opened}.values())
    before, after = (
        _versions(diff, name, end) for name, end in (("before", diff.plan.before), ("after", diff.plan.after))
    )
    inserted, deleted, updated = diff.one(
        "SELECT count(*) FILTER (b.changed_in IS NULL), count(*) FILTER (a.changed_in IS NULL), "
        f"count(*) FILTER (b.changed_in <> a.changed_in) FROM ({before}) b FULL JOIN ({after}) a USING (id)"
    )
    return {"inserted": inserted, "deleted": deleted, "updated": updated}


def _keeps_row_ids(diff: Sides) -> bool:
    ends = [end.metadata for end in (diff.plan.before, diff.plan.after)]
    if any(metadata is None or metadata.format_version < VERSION for metadata in ends):
        return False
    files = (*diff.plan.before_files, *diff.plan.after_files)
    is_one_table = len({metadata.uuid for metadata in ends if metadata is not None}) == 1
    return is_one_table and all(file.data.first_row_id is not None and not file.equality for file in files)


def _versions(diff: Sides, name: str, end: End) -> str:
    """SQL of the id and the last change of each row that only one end's files have, or have undeleted."""
    scanner = diff.scanner(end)
    assert scanner is not None  # noqa: S101 - an end with row ids has metadata
    files = diff.plan.left if name == "before" else diff.plan.came
    rows = scanner.live_rows(files, ID_COLUMNS, dead=f"dead_{name}", is_located=True)
    if diff.plan.shifted:
        is_before = name == "before"
        rows += " UNION ALL " + scanner.moved_rows(diff.plan.shifted, ID_COLUMNS, gone=is_before, is_located=True)
    row_id, changed_in = inherited_ids("r", "o")
    joined = f"({rows}) r JOIN origins o ON o.file = r.scan_file"
    return f"SELECT {row_id} AS id, {changed_in} AS changed_in FROM {joined}"
