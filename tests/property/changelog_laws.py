"""What holds of the changelogs and row diffs of any history, given the rows of its versions and nothing else.

The expectation: per distinct row, the ups and downs of its number of copies, of which an opposite one takes away the
newest.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from jobs.changelog import apply_changelog, read_changelog
from tests.factories import engine as tables
from tests.property import engine_oracle as oracle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyiceberg.table import Table

Row = dict[str, Any]


class History(Protocol):
    """A table that went through some versions, one snapshot each, and the rows of each version."""

    folder: Path
    table: Table
    columns: list[str]
    """Those of the table, the keys first."""
    states: list[tuple[int | None, list[Row]]]

    def make(self) -> Table:
        """An empty table with the same columns, which PyIceberg writes."""

    def told(self, first: int, last: int, **more: Any) -> Any:
        """The changelog from one version to another."""

    def place_of(self, ordinal: int) -> int:
        """The version that a change of some ordinal made, counted from 0 for the first that has a snapshot."""


def bag(history: History, rows: Sequence[Row]) -> Counter[Any]:
    """Rows as what they are, with counts."""
    return Counter(oracle.row_of(row, history.columns) for row in rows)


# --- the expectation ------------------------------------------------------------------------------


def net_of(bags: Sequence[Counter[Any]], first: int, last: int) -> Counter[Any]:
    """(row, change, ordinal) with counts."""
    found: Counter[Any] = Counter()
    for row in set().union(*bags[first : last + 1]):
        stack: list[tuple[str, int]] = []
        for place in range(first + 1, last + 1):
            copies = bags[place][row] - bags[place - 1][row]
            change, opposite = ("INSERT", "DELETE") if copies > 0 else ("DELETE", "INSERT")
            for _ in range(abs(copies)):
                if stack and stack[-1][0] == opposite:
                    stack.pop()
                else:
                    stack.append((change, place - 1))
        found.update((row, *event) for event in stack)
    return found


def last_of(bags: Sequence[Counter[Any]], first: int, last: int, width: int) -> Counter[Any]:
    """The changes of the last snapshot in which each key had any."""
    latest: dict[Any, tuple[int, Counter[Any]]] = {}
    for place in range(first + 1, last + 1):
        step = net_of(bags, place - 1, place)
        for key in {event[0][:width] for event in step}:
            latest[key] = (place, Counter({e: n for e, n in step.items() if e[0][:width] == key}))
    return sum((events for _, events in latest.values()), Counter())


def retag(net: Counter[Any], width: int) -> Counter[Any]:
    """Changes by key: a delete and an insert of one key are an update."""
    kinds: dict[Any, set[str]] = {}
    for (row, change, _), _count in net.items():
        kinds.setdefault(row[:width], set()).add(change)
    words = {"INSERT": "UPDATE_AFTER", "DELETE": "UPDATE_BEFORE"}
    return Counter({(row, words[c] if len(kinds[row[:width]]) == 2 else c, o): n for (row, c, o), n in net.items()})


def is_doubled(bags: Sequence[Counter[Any]], first: int, last: int, width: int) -> bool:
    """Whether a key that changed in the range has two rows at an end."""
    touched = {row[:width] for a, b in zip(bags[first:last], bags[first + 1 : last + 1]) for row in (a - b) + (b - a)}
    return any(
        sum(count for row, count in bags[end].items() if row[:width] == key) > 1
        for end in (first, last)
        for key in touched
    )


# --- the laws -------------------------------------------------------------------------------------


def check(history: History, keys: list[str]) -> None:
    """All that holds: every range from the first and the middle version to the last."""
    last = len(history.states) - 1
    for first in {0, last // 2, last}:
        check_range(history, keys, first)
    check_diff(history, keys, history.states[last // 2], history.states[last])
    check_diff(history, keys, history.states[last], history.states[1])


def check_range(history: History, keys: list[str], first: int) -> None:
    """The changelogs from one version to the last."""
    width, last = len(keys), len(history.states) - 1
    bags = [bag(history, rows) for _, rows in history.states]
    net = net_of(bags, first, last)
    assert events(history, history.told(first, last, keys=None)) == net
    if is_doubled(bags, first, last, width):
        with pytest.raises(ValueError, match="Duplicate rows found for identifier columns"):
            history.told(first, last, keys=keys)
    else:
        log = history.told(first, last, keys=keys)
        assert events(history, log) == retag(net, width)
        check_applied(history, keys, first, log)
        check_latest(history, keys, bags, first)


def check_latest(history: History, keys: list[str], bags: Sequence[Counter[Any]], first: int) -> None:
    wanted = last_of(bags, first, len(bags) - 1, len(keys))
    held = Counter(row[: len(keys)] for row in bags[-1].elements())
    held.subtract(row[: len(keys)] for row, change, _ in wanted.elements() if change == "INSERT")
    held.update(row[: len(keys)] for row, change, _ in wanted.elements() if change == "DELETE")
    if any(held[row[: len(keys)]] > 1 for row, _, _ in wanted):
        # the last change of a key alone does not tell which of several rows are left
        with pytest.raises(ValueError, match="Duplicate rows found for identifier columns"):
            history.told(first, len(bags) - 1, keys=keys, images="latest")
        return
    log = history.told(first, len(bags) - 1, keys=keys, images="latest")
    assert events(history, log) == retag(wanted, len(keys))
    check_applied(history, keys, first, log)


def check_applied(history: History, keys: list[str], first: int, log: Any) -> None:
    """A reader at the start who applies the changes, once or twice, is at the end."""
    copy = history.make()
    rows = history.states[first][1]
    if rows:
        copy.append(tables.arrow_rows(copy, rows))
    for _ in range(2):
        apply_changelog(copy, log, keys, from_empty=False)
        found = read_changelog(copy, keys=None, start=None, end=None).to_pylist()
        assert bag(history, found) == bag(history, history.states[-1][1])


def check_diff(history: History, keys: list[str], old: Any, new: Any) -> None:
    schema = history.table.schema()
    stored = [field.name for field in schema.fields]
    places = [stored.index(name) for name in history.columns]
    sides = [tables.side(history.table, snapshot, schema.schema_id) for snapshot, _ in (old, new)]
    folder = history.folder
    wanted = oracle.net(old[1], new[1], history.columns)
    assert oracle.stored(tables.diff(folder, *sides)["rows"], places) == wanted
    keyed = tables.diff(folder, *sides, key=keys)
    by_key = oracle.by_key(old[1], new[1], keys, history.columns)
    assert keyed["mode"] == ("net" if by_key is None else "identifier")
    assert oracle.stored(keyed["rows"], places) == (wanted if by_key is None else by_key)


def events(history: History, log: Any) -> Counter[Any]:
    return Counter(
        (oracle.row_of(row, history.columns), row["_change_type"], history.place_of(row["_change_ordinal"]))
        for row in log.to_pylist()
    )
