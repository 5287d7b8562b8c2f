"""The counts of a diff, out of the table `changes`: what summary.json says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.engine.errors import UnreadableTableError
from jobs.engine.read.connections import first_row
from jobs.engine.write import artifact

if TYPE_CHECKING:
    import duckdb

    from jobs.engine.compare.changes import Matching
    from jobs.engine.compare.compared_rows import ComparedRows
    from jobs.engine.plan.diff_rules import DiffRules
    from jobs.engine.plan.router import Decision


def summarize(rows: ComparedRows, matching: Matching, decision: Decision) -> dict[str, Any]:
    """Return the content of summary.json, but for the timings.

    Raises:
        UnreadableTableError: the counts of the two ends contradict each other.

    """
    connection, request = rows.comparison.connection, rows.comparison.request
    plan, rules = rows.comparison.plan, rows.comparison.rules
    inserted, deleted, updated, distinct = first_row(
        connection,
        "SELECT coalesce(sum(copies) FILTER (change = 'inserted'), 0)::BIGINT, "
        "coalesce(sum(copies) FILTER (change = 'deleted'), 0)::BIGINT, "
        "count(*) FILTER (change = 'updated'), count(*) FROM changes",
    )
    shared = rows.count_shared()
    before, after = (rows.counts.get(side, 0) + shared for side in "ba")
    unchanged = before - deleted - updated
    if unchanged != after - inserted - updated or unchanged < 0:
        raise UnreadableTableError(
            f"The counts do not add up ({before} rows before, {after} after, {inserted} inserted, {deleted} "
            f"deleted, {updated} updated): a file of the table does not hold what its manifest says."
        )
    is_keyed = matching.mode == "identifier"
    differing = _count_differing(connection, rules) if is_keyed else {}
    return {
        "version": artifact.VERSION,
        "mode": matching.mode,
        "key": [pair.name for pair in rules.key_pairs] if is_keyed else None,
        "key_trouble": matching.trouble,
        "inserted": inserted,
        "deleted": deleted,
        "updated": updated,
        "unchanged": unchanged,
        "before_rows": before,
        "after_rows": after,
        "cells_changed": sum(differing.values()),
        "columns": _describe_columns(rules, differing, common=unchanged + updated),
        "stored_rows": min(distinct, request.row_limit),
        "is_complete": distinct <= request.row_limit,
        "warnings": rules.describe_useless(),
        "row_filter": request.row_filter,
        "ignored": [pair.name for pair in plan.pairs if pair.is_ignored],
        "executor": decision.executor,
        "executor_reason": decision.reason,
        "files_read": plan.files,
        "bytes_read": plan.bytes,
        "rows_read": sum(rows.counts.values()),
        "manifests_read": plan.manifests_read,
        "manifests_shared": plan.manifests_shared,
    }


def _count_differing(connection: duckdb.DuckDBPyConnection, rules: DiffRules) -> dict[int, int]:
    """Count how many updated rows have another value, by the index of the column."""
    if not rules.value_pairs:
        return {}
    tests = ", ".join(f"count(*) FILTER ({rules.differs(pair)})" for pair in rules.value_pairs)
    counts = first_row(connection, f"SELECT {tests} FROM changes WHERE change = 'updated'")
    return dict(zip((pair.index for pair in rules.value_pairs), counts, strict=True))


def _describe_columns(rules: DiffRules, differing: dict[int, int], *, common: int) -> list[dict[str, Any]]:
    """Say of each column how many of the common rows have another value."""
    return [
        {
            "index": pair.index,
            "name": pair.name,
            "changed": differing.get(pair.index),
            "match_rate": 1 - differing[pair.index] / common if pair.index in differing and common else None,
        }
        for pair in rules.pairs
    ]
