"""Rows of both ends paired by key: one full outer join, which keeps what has no partner and what differs.

A sequence counts the pairs that the join makes: it ends where a bad key would blow the join up, and its count tells
whether every row met at most one other, without another look at the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from jobs.engine.plan.columns import match_value
from jobs.engine.read.connections import first_row
from jobs.engine.write.artifact import CHANGE_TYPE, stored_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs.engine.compare.compared_rows import ComparedRows
    from jobs.engine.plan.diff_rules import DiffRules

_CREATE, _INSERT = "CREATE OR REPLACE TEMP TABLE changes AS", "INSERT INTO changes"


def join_rows(rows: ComparedRows) -> bool:
    """Fill `changes` unless a key has two of the rows to compare at one end; whether none has."""
    if rows.reduced is not None and rows.reduced.counted.has_repeats:
        return False
    try:
        pair_rows(rows, rows.split())
        return rows.reduced is not None or _met_once(rows)
    except duckdb.SequenceException:
        return False  # more pairs than rows


def pair_rows(rows: ComparedRows, parts: Iterable[tuple[str, str]]) -> None:
    """Fill `changes` with what differs between the rows before and after, which come in parts that no key connects."""
    connection, rules = rows.comparison.connection, rows.comparison.rules
    if not rows.have_both_ends:
        (side,) = rows.views
        for before, after in parts:
            connection.execute(f"{_CREATE} {_all_of_one_end(rules, side, before if side == 'b' else after)}")
        return
    # there are never more pairs than rows, unless a key has several
    connection.execute(f"CREATE OR REPLACE TEMP SEQUENCE pairs MAXVALUE {sum(rows.counts.values()) + 2}")
    for number, (before, after) in enumerate(parts):
        connection.execute(f"{_INSERT if number else _CREATE} {_outer_join(rules, before, after)}")


def _all_of_one_end(rules: DiffRules, side: str, rows: str) -> str:
    """Return SQL of the changes where only one end has data."""
    change = "deleted" if side == "b" else "inserted"
    values = "".join(
        f", {name}" if name[0] == side else f", CAST(NULL AS {type_}) AS {name}"
        for name, type_ in stored_columns(rules.pairs)
    )
    return f"SELECT '{change}'::{CHANGE_TYPE} AS change, 1::BIGINT AS copies{values} FROM {rows}"


def _outer_join(rules: DiffRules, before: str, after: str) -> str:
    """Return SQL of the rows without a partner and of the pairs whose values differ; it counts all pairs."""
    names = [name for name, _ in stored_columns(rules.pairs)]
    own = {side: "".join(f"{name}, " for name in names if name[0] == side) for side in "ba"}
    same_key = " AND ".join(
        f"{left} IS NOT DISTINCT FROM {right}"
        for left, right in zip(rules.key_values("b"), rules.key_values("a"), strict=True)
    )
    differs = " OR ".join(["before.here IS NULL", "after.here IS NULL", *map(rules.differs, rules.value_pairs)])
    change = "CASE WHEN before.here IS NULL THEN 'inserted' WHEN after.here IS NULL THEN 'deleted' ELSE 'updated' END"
    values = "".join(f", {name}" for name in names)
    return (
        f"SELECT CAST({change} AS {CHANGE_TYPE}) AS change, 1::BIGINT AS copies{values} "
        f"FROM (SELECT {own['b']} true AS here FROM {before}) before "
        f"FULL OUTER JOIN (SELECT {own['a']} true AS here FROM {after}) after ON {same_key} "
        f"WHERE CASE WHEN nextval('pairs') > 0 THEN {differs} END"
    )


def _met_once(rows: ComparedRows) -> bool:
    """Return whether every row met at most one other in the join, and no two that met none have one key."""
    connection = rows.comparison.connection
    if rows.have_both_ends:
        pairs, came, left = first_row(
            connection,
            "SELECT nextval('pairs') - 1, count(*) FILTER (change = 'inserted'), count(*) FILTER (change = 'deleted') "
            "FROM changes",
        )
        if not rows.counts["b"] + came == pairs == rows.counts["a"] + left:
            return False
    keys = ", ".join(map(match_value, rows.comparison.rules.key_pairs))
    alone = f"SELECT 1 FROM changes WHERE change <> 'updated' GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
    return not connection.execute(alone).fetchall()
