"""Net changes: each distinct row by the difference of its counts at both ends, duplicates counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.engine.plan.columns import comparable
from jobs.engine.write.artifact import CHANGE_TYPE, stored_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobs.engine.compare.compared_rows import ComparedRows
    from jobs.engine.plan.columns import Pair

Column = tuple[str, str]
"""The name and the type of a stored column."""
_WEIGHTS = {"b": "-1", "a": "1"}
"""What a row of each end counts."""


def store_net_changes(rows: ComparedRows, table: str) -> None:
    """Fill a new table of the form of `changes`."""
    pairs = rows.comparison.rules.pairs
    columns = stored_columns(pairs)
    content = _net_changes(rows, pairs, columns) if rows.views else _no_changes(columns)
    rows.comparison.connection.execute(f"CREATE TEMP TABLE {table} AS {content}")


def _no_changes(columns: Iterable[Column]) -> str:
    values = "".join(f", {_nothing(column)}" for column in columns)
    return f"SELECT NULL::{CHANGE_TYPE} AS change, 1::BIGINT AS copies{values} WHERE false"


def _net_changes(rows: ComparedRows, pairs: Sequence[Pair], columns: Sequence[Column]) -> str:
    groups, rest = _group_columns(pairs, columns)
    weighed = []
    for side, view in rows.views.items():
        outputs = [f"{values[side]} AS {name}" for name, values in groups.items()]
        outputs += [column[0] if column[0][0] == side else _nothing(column) for column in rest]
        weighed.append(f"SELECT {', '.join(outputs)}, {_WEIGHTS[side]} AS weight FROM {view}")
    names = ", ".join(groups)
    shown = "".join(f", any_value({name}) FILTER (weight = {_WEIGHTS[name[0]]}) AS {name}" for name, _ in rest)
    totals = (
        f"SELECT {names}, sum(weight) AS total{shown} FROM ({' UNION ALL '.join(weighed)}) "
        f"GROUP BY {names} HAVING sum(weight) <> 0"
    )
    apart = {name for name, _ in rest}
    values = "".join(
        f", CASE WHEN sign(total) = {_WEIGHTS[name[0]]} THEN {name if name in apart else f'g{name[1:]}'} END AS {name}"
        for name, _ in columns
    )
    change = f"CAST(CASE WHEN total < 0 THEN 'deleted' ELSE 'inserted' END AS {CHANGE_TYPE})"
    return f"SELECT {change} AS change, abs(total)::BIGINT AS copies{values} FROM ({totals})"


def _group_columns(pairs: Iterable[Pair], columns: Sequence[Column]) -> tuple[dict[str, dict[str, str]], list[Column]]:
    """Return what rows are grouped by, as SQL per end, and the stored columns whose values the groups do not hold.

    A column of one type at both ends is its own group, which keeps wide rows narrow.
    """
    groups: dict[str, dict[str, str]] = {}
    held: set[str] = set()
    for pair in pairs:
        if not pair.compared or pair.before is None or pair.after is None:
            continue
        names = f"b{pair.index}", f"a{pair.index}"
        values = comparable(pair.before.type, pair.after.type, *names)
        groups[f"g{pair.index}"] = dict(zip("ba", values, strict=True))
        if pair.before.type == pair.after.type:
            held.update(names)
    if not groups:
        # with no column in common nothing can be the same: each end's rows are all of its columns
        groups["g_side"] = {"b": "'b'", "a": "'a'"}
        for name, type_ in columns:
            groups[f"g_{name}"] = {side: name if name[0] == side else f"CAST(NULL AS {type_})" for side in "ba"}
    return groups, [column for column in columns if column[0] not in held]


def _nothing(column: Column) -> str:
    name, type_ = column
    return f"CAST(NULL AS {type_}) AS {name}"
