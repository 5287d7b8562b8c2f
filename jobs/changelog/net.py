"""Which rows came and went between two snapshots, and in which of them.

For each row and snapshot the number of copies goes up or down; a row that is only carried over, rewritten with equal
values or compacted does not appear. Per distinct row the ups and downs of a range run through a stack: an opposite one
takes the newest away, and what remains is the net change, with its own ordinal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import duckdb

from jobs.changelog.plan import ChangelogStep
from jobs.changelog.rows import ChangelogSource, listed


def collect_events(
    connection: duckdb.DuckDBPyConnection,
    source: ChangelogSource,
    steps: Sequence[ChangelogStep],
    columns: Sequence[str],
) -> None:
    """Make the relation `events`: ordinal, by how many copies, the row."""
    names = listed(columns)
    connection.execute(
        f"CREATE TABLE events AS SELECT 0 AS changelog__ordinal, CAST(0 AS BIGINT) AS changelog__copies, * FROM ({source.nothing()})"
    )
    for step in steps:
        left, came = source.differing(step)
        connection.execute(
            f"INSERT INTO events SELECT {step.ordinal}, sum(changelog__sign) AS changelog__copies, {names} FROM "
            f"(SELECT 1 AS changelog__sign, * FROM ({came}) UNION ALL SELECT -1 AS changelog__sign, * FROM ({left})) "
            f"GROUP BY {names} HAVING sum(changelog__sign) <> 0"
        )


def make_net(connection: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    """Make the relation `net`: change type, ordinal, the row, once for each copy."""
    connection.execute(
        "CREATE TABLE grouped AS SELECT min(changelog__id) OVER same AS changelog__row_id, "
        "max(changelog__copies) OVER same > 0 AND min(changelog__copies) OVER same < 0 AS changelog__is_mixed, * "
        "FROM (SELECT row_number() OVER () AS changelog__id, * FROM events) "
        f"WINDOW same AS (PARTITION BY {listed(names)})"
    )
    mixed = connection.execute(
        "SELECT changelog__row_id, changelog__id, changelog__copies FROM grouped WHERE changelog__is_mixed ORDER BY changelog__row_id, changelog__ordinal"
    ).fetchall()
    connection.execute("CREATE TABLE left_over (changelog__id BIGINT, changelog__copies BIGINT)")
    remaining = _cancel(mixed)
    if remaining:
        connection.executemany("INSERT INTO left_over VALUES (?, ?)", remaining)
    connection.execute(
        "CREATE TABLE net AS SELECT CASE WHEN changelog__copies > 0 THEN 'INSERT' ELSE 'DELETE' END AS changelog__change, changelog__ordinal, "
        f"{listed(names)} FROM (SELECT grouped.* EXCLUDE (changelog__copies), "
        "coalesce(left_over.changelog__copies, grouped.changelog__copies) AS changelog__copies "
        "FROM grouped LEFT JOIN left_over USING (changelog__id) "
        "WHERE NOT grouped.changelog__is_mixed OR left_over.changelog__id IS NOT NULL), "
        "unnest(range(abs(changelog__copies))) AS changelog__copy(changelog__number)"
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
