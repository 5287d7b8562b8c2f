"""About how many rows differ, by the ids that rows have in tables of format version 3: no value is read for it.

A row keeps its id wherever it is written again, and says which commit changed it last. So two narrow columns, or none
where a file still has the rows that it was added with, tell of two ends which rows only one of them has and which both
have in another version. That is known long before the values are compared. It is not the last word: a row that was written
as a change with the values that it had counts too, and one that was deleted and inserted anew counts at both ends.

Source: the Iceberg specification, version 3, "Row Lineage".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.engine.read.connections import first_row
from jobs.engine.read.row_ids import VERSION
from jobs.engine.read.scan import ID_COLUMNS, inherited_ids

if TYPE_CHECKING:
    from jobs.engine.compare.file_rows import FileRows
    from jobs.engine.plan.planner import DiffPlan


def count_versions(rows: FileRows) -> dict[str, int] | None:
    """Count rows by id that only `after` has, that only `before` has, and that both have in another version.

    None where rows have no ids, or do not keep them: equality deletes do not know which rows they replace.
    """
    plan, scanner = rows.plan, rows.scanner("b")
    if scanner is None or plan.rules.row_filter is not None or not _keeps_row_ids(plan):
        return None
    dead = rows.dead
    scanner.load_origins("origins", {entry.path: entry for entry in plan.opened}.values())
    before, after = (_versions(rows, side, dead[side]) for side in "ba")
    inserted, deleted, updated = first_row(
        rows.connection,
        "SELECT count(*) FILTER (before.changed_in IS NULL), count(*) FILTER (after.changed_in IS NULL), "
        f"count(*) FILTER (before.changed_in <> after.changed_in) "
        f"FROM ({before}) before FULL JOIN ({after}) after USING (id)",
    )
    return {"inserted": inserted, "deleted": deleted, "updated": updated}


def _keeps_row_ids(plan: DiffPlan) -> bool:
    ends = [end.metadata for end in (plan.before, plan.after)]
    if any(metadata is None or metadata.format_version < VERSION for metadata in ends):
        return False
    files = (*plan.before_files, *plan.after_files)
    is_one_table = len({metadata.uuid for metadata in ends if metadata is not None}) == 1
    return is_one_table and all(file.data.first_row_id is not None and not file.equality for file in files)


def _versions(rows: FileRows, side: str, dead: str) -> str:
    """Return SQL of the id and the last change of each row that only one end's files have, or have undeleted."""
    plan, scanner = rows.plan, rows.scanner(side)
    assert scanner is not None  # noqa: S101 - an end with row ids has metadata
    located = scanner.live_rows(plan.own_files(side), ID_COLUMNS, dead=dead, is_located=True)
    if plan.shifted:
        located += " UNION ALL " + scanner.moved_rows(plan.shifted, ID_COLUMNS, gone=side == "b", is_located=True)
    row_id, changed_in = inherited_ids("located", "origins")
    return f"SELECT {row_id} AS id, {changed_in} AS changed_in FROM ({located}) located JOIN origins ON origins.file = located.scan_file"
