"""Which rows came and went between two snapshots, and in which of them.

For each row and snapshot the number of copies goes up or down; a row that is only carried over, rewritten with equal
values or compacted does not appear. Per distinct row the ups and downs of a range run through a stack: an opposite one
takes the newest away, and what remains is the net change, with its own ordinal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import duckdb

from jobs.changelog.plan import Step
from jobs.changelog.rows import Source, listed


def collect_events(
    connection: duckdb.DuckDBPyConnection, source: Source, steps: Sequence[Step], columns: Sequence[str]
) -> None:
    """Make the relation `events`: ordinal, by how many copies, the row."""
    names = listed(columns)
    connection.execute(
        f"CREATE TABLE events AS SELECT 0 AS __ordinal, CAST(0 AS BIGINT) AS __copies, * FROM ({source.nothing()})"
    )
    for step in steps:
        left, came = source.differing(step)
        connection.execute(
            f"INSERT INTO events SELECT {step.ordinal}, sum(__sign) AS __copies, {names} FROM "
            f"(SELECT 1 AS __sign, * FROM ({came}) UNION ALL SELECT -1 AS __sign, * FROM ({left})) "
            f"GROUP BY {names} HAVING sum(__sign) <> 0"
        )


def make_net(connection: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    """Make the relation `net`: change type, ordinal, the row, once for each copy."""
    connection.execute(
        "CREATE TABLE grouped AS SELECT rowid AS __id, min(rowid) OVER same AS __row_id, "
        "max(__copies) OVER same > 0 AND min(__copies) OVER same < 0 AS __is_mixed, * "
        f"FROM events WINDOW same AS (PARTITION BY {listed(names)})"
    )
    mixed = connection.execute(
        "SELECT __row_id, __id, __copies FROM grouped WHERE __is_mixed ORDER BY __row_id, __ordinal"
    ).fetchall()
    connection.execute("CREATE TABLE left_over (__id BIGINT, __copies BIGINT)")
    remaining = _cancel(mixed)
    if remaining:
        connection.executemany("INSERT INTO left_over VALUES (?, ?)", remaining)
    connection.execute(
        "CREATE TABLE net AS SELECT CASE WHEN __copies > 0 THEN 'INSERT' ELSE 'DELETE' END AS __change, __ordinal, "
        f"{listed(names)} FROM (SELECT g.* EXCLUDE (__copies), coalesce(l.__copies, g.__copies) AS __copies "
        "FROM grouped g LEFT JOIN left_over l USING (__id) WHERE NOT g.__is_mixed OR l.__id IS NOT NULL), "
        "unnest(range(abs(__copies))) AS __copy(__number)"
    )


def _cancel(mixed: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Run the ups and downs of each row through a stack; return what remains of each event."""
    stacks: dict[int, list[list[int]]] = defaultdict(list)
    for row, event, copies in mixed:
        stack, left = stacks[row], copies
        while left and stack and (stack[-1][1] > 0) != (left > 0):
            taken = min(abs(left), abs(stack[-1][1]))
            sign = 1 if left > 0 else -1
            left -= sign * taken
            stack[-1][1] += sign * taken
            if not stack[-1][1]:
                stack.pop()
        if left:
            stack.append([event, left])
    return [(event, left) for stack in stacks.values() for event, left in stack]
