"""The row diff by brute force over Python rows: a few lines, written without looking at the engine's SQL."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]


def canon(value: Any) -> Any:
    """A hashable stand-in that is equal exactly where two values are the same. Only maps hold pairs."""
    if isinstance(value, float):
        if math.isnan(value):
            return ("nan",)
        return ("number", value + 0.0)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return ("struct", tuple((name, canon(item)) for name, item in value.items()))
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return ("map", frozenset((canon(k), canon(v)) for k, v in value))
    if isinstance(value, list):
        return ("list", tuple(canon(item) for item in value))
    return (type(value).__name__, value)


def row_of(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(canon(row.get(name)) for name in columns)


def by_key(
    before: Sequence[Row], after: Sequence[Row], key: Sequence[str], columns: Sequence[str]
) -> Counter[tuple[Any, ...]] | None:
    """(change, row before, row after) with counts; None where a touched key has two rows at an end."""
    net = Counter(row_of(row, columns) for row in after)
    net.subtract(Counter(row_of(row, columns) for row in before))
    places = [columns.index(name) for name in key]

    def key_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[place] for place in places)

    touched = {key_of(row) for row, count in net.items() if count}
    for rows in (before, after):
        counts = Counter(key_of(row_of(row, columns)) for row in rows)
        if any(counts[found] > 1 for found in touched):
            return None
    gone = {key_of(row): row for row, count in net.items() if count < 0}
    come = {key_of(row): row for row, count in net.items() if count > 0}
    result: Counter[tuple[Any, ...]] = Counter()
    for found in touched:
        old, new = gone.get(found), come.get(found)
        change = "updated" if old and new else "deleted" if old else "inserted"
        result[change, old, new] += 1
    return result


def net(before: Sequence[Row], after: Sequence[Row], columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """(change, row before, row after) with counts, by the difference of multiplicities."""
    counts = Counter(row_of(row, columns) for row in after)
    counts.subtract(Counter(row_of(row, columns) for row in before))
    result: Counter[tuple[Any, ...]] = Counter()
    for row, count in counts.items():
        if count > 0:
            result["inserted", None, row] = count
        elif count < 0:
            result["deleted", row, None] = -count
    return result


def stored(rows: Sequence[Row], indexes: Sequence[int]) -> Counter[tuple[Any, ...]]:
    """An artifact's rows in the oracle's form; `indexes` are the columns of the diff in the oracle's order."""

    def side(row: Row, prefix: str, lacking: str) -> tuple[Any, ...] | None:
        if row["change"] == lacking:
            return None
        return tuple(canon(row[f"{prefix}{index}"]) for index in indexes)

    result: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        result[row["change"], side(row, "b", "inserted"), side(row, "a", "deleted")] += row["copies"]
    return result
