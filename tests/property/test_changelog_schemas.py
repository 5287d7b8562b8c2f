"""Changelogs and diffs of random histories over random schemas, however their files were written and by whom.

The expectation is computed from the versions' rows alone: per distinct row, the ups and downs of its number of copies,
of which an opposite one takes away the newest.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema

from jobs.changelog import apply_changelog, read_changelog
from tests.factories import engine as tables
from tests.property import engine_oracle as oracle
from tests.property.test_engine_diff import KEY_POOLS, POOLS, field, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

pytestmark = pytest.mark.slow
STYLES = ["version 1", "rewritten whole", "rewritten files", "positions", "equality", "vectors"]
WRITERS = ["pyiceberg", "pyarrow", "duckdb", "polars"]
PLAIN = {"long", "int", "double", "float", "string", "boolean", "date", "timestamp", "binary"}
"""What Polars stores in Iceberg's types."""
UNEQUAL = {"double", "float", "struct", "list", "map", "deep"}
"""What no equality delete may name."""
QUICK = settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), database=None)
LONG = settings(QUICK, max_examples=60)
Row = dict[str, Any]


# --- histories ------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, str], list[str], list[tuple[str, list[Row]]]]:
    """The columns' kinds, the keys, and versions with the program that writes each."""
    keys = draw(st.lists(st.sampled_from(sorted(KEY_POOLS)), min_size=1, max_size=2))
    values = draw(st.lists(st.sampled_from(sorted(POOLS)), min_size=0, max_size=5))
    kinds = {f"k{place}": kind for place, kind in enumerate(keys)} | {f"V {p}": kind for p, kind in enumerate(values)}
    names = [f"k{place}" for place in range(len(keys))]
    loose = rows_of(kinds, frozenset(names), most=5)
    unique = loose.map(lambda rows: list({oracle.row_of(row, names): row for row in rows}.values()))
    versions = draw(
        st.lists(st.tuples(st.sampled_from(WRITERS), draw(st.sampled_from([loose, unique]))), min_size=2, max_size=4)
    )
    return kinds, names, versions


class History:
    """A table that went through some versions, one snapshot each; and the rows of each version."""

    def __init__(
        self, folder: Path, style: str, kinds: dict[str, str], versions: Sequence[tuple[str, list[Row]]]
    ) -> None:
        self.folder, self.style, self.kinds = folder, style, kinds
        self.columns = list(kinds)
        self.schema = Schema(*(field(place + 1, name, kind) for place, (name, kind) in enumerate(kinds.items())))
        self.table = self.make()
        self.files: dict[str, list[Row | None]] = {}
        self.states: list[tuple[int | None, list[Row]]] = [(None, [])]
        for writer, rows in versions:
            self.write("pyarrow" if writer == "polars" and set(kinds.values()) - PLAIN else writer, rows)
        if style == "vectors":
            self.table = tables.as_version_3(self.table)

    def make(self) -> Table:
        mapping = create_mapping_from_schema(self.schema).model_dump_json()
        version = "1" if self.style == "version 1" else "2"
        properties = {"format-version": version, "schema.name-mapping.default": mapping}
        return tables.make_table(Path(tempfile.mkdtemp(dir=self.folder)), self.schema, properties=properties)

    def bag(self, rows: Sequence[Row]) -> Counter[Any]:
        return Counter(oracle.row_of(row, self.columns) for row in rows)

    def write(self, writer: str, rows: list[Row]) -> None:
        if len(self.states) > 1 and self.style in {"positions", "equality", "vectors"}:
            self.change(writer, rows)
        else:
            self.rewrite(writer, rows)
        self.states.append((tables.snapshot_of(self.table), rows))

    def rewrite(self, writer: str, rows: list[Row]) -> None:
        """Copy on write: files that hold a row too many go, what is missing then comes."""
        missing, gone = self.bag(rows), []
        for path, held in self.files.items():
            bag = self.bag([row for row in held if row is not None])
            if self.style != "rewritten whole" and bag <= missing:
                missing -= bag
            else:
                gone.append(path)
        leaving = [file for file in tables.data_files(self.table) if file.file_path in gone] if gone else []
        self.files = {path: held for path, held in self.files.items() if path not in gone}
        tables.replace(self.table, leaving, self.add(writer, self.take(rows, missing)))

    def change(self, writer: str, rows: list[Row]) -> None:
        """Merge on read: rows too many are deleted where they stand, what is missing then comes."""
        spare = self.bag(rows)
        dead: dict[str, list[int]] = {}
        first = self.columns[0]
        by_value = self.style == "equality" and self.kinds[first] not in UNEQUAL
        held = [row for held in self.files.values() for row in held if row is not None]
        changed = {row[0] for row in (self.bag(held) - spare) + (spare - self.bag(held))}
        for path, places in self.files.items():
            for place, row in enumerate(places):
                canonical = () if row is None else oracle.row_of(row, self.columns)
                if not canonical or (canonical[0] in changed if by_value else not spare[canonical]):
                    dead.setdefault(path, []).append(place)
                else:
                    spare[canonical] -= 1
        fresh = {path: [p for p in places if self.files[path][p] is not None] for path, places in dead.items()}
        deletes = self.delete(
            {path: places for path, places in fresh.items() if places}, dead, changed if by_value else None
        )
        for path, places in dead.items():
            for place in places:
                self.files[path][place] = None
        self.table = tables.change_rows(self.table, deletes, self.add(writer, self.take(rows, +spare)))

    def delete(self, fresh: dict[str, list[int]], dead: dict[str, list[int]], values: set[Any] | None) -> list[Any]:
        if not fresh:
            return []
        first = self.columns[0]
        if values is not None:
            plain = [row for held in self.files.values() for row in held if row is not None]
            named = {oracle.canon(row[first]): row for row in plain if oracle.canon(row[first]) in values}
            return [tables.equality_deletes(self.table, [first], list(named.values()))]
        if self.style == "vectors":
            # a vector holds all that its file ever lost
            return tables.vectors(self.table, {path: dead[path] for path in fresh})
        return [tables.position_deletes(self.table, fresh)]

    def take(self, rows: list[Row], wanted: Counter[Any]) -> list[Row]:
        left, taken = wanted.copy(), []
        for row in rows:
            canonical = oracle.row_of(row, self.columns)
            if left[canonical] > 0:
                left[canonical] -= 1
                taken.append(row)
        return taken

    def add(self, writer: str, rows: list[Row]) -> list[Any]:
        if not rows:
            return []
        files = tables.write_files(self.table, tables.arrow_rows(self.table, rows), writer)
        (file,) = files
        self.files[file.file_path] = list(rows)
        return files

    def told(self, first: int, last: int, **more: Any) -> Any:
        return read_changelog(self.table, start=self.states[first][0], end=self.states[last][0], **more)


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
    """All that holds of one history: every range from its first and its middle version to its last."""
    width, last = len(keys), len(history.states) - 1
    bags = [history.bag(rows) for _, rows in history.states]
    for first in {0, last // 2, last}:
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
    check_diff(history, keys, history.states[last // 2], history.states[last])
    check_diff(history, keys, history.states[last], history.states[1])


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
        found = read_changelog(copy, keys=None, start=None, end=None)
        assert Counter(row for row, _, _ in events(history, found).elements()) == history.bag(history.states[-1][1])


def check_diff(history: History, keys: list[str], old: Any, new: Any) -> None:
    places = list(range(len(history.columns)))
    sides = [tables.side(history.table, snapshot, history.table.schema().schema_id) for snapshot, _ in (old, new)]
    folder = history.folder
    wanted = oracle.net(old[1], new[1], history.columns)
    assert oracle.stored(tables.diff(folder, *sides)["rows"], places) == wanted
    keyed = tables.diff(folder, *sides, key=keys)
    by_key = oracle.by_key(old[1], new[1], keys, history.columns)
    assert keyed["mode"] == ("net" if by_key is None else "identifier")
    assert oracle.stored(keyed["rows"], places) == (wanted if by_key is None else by_key)


def events(history: History, log: Any) -> Counter[Any]:
    return Counter(
        (oracle.row_of(row, history.columns), row["_change_type"], row["_change_ordinal"]) for row in log.to_pylist()
    )


def check_any(style: str, given_history: Any) -> None:
    kinds, keys, versions = given_history
    with tempfile.TemporaryDirectory() as folder:
        check(History(Path(folder), style, kinds, versions), keys)


@pytest.mark.parametrize("style", STYLES)
def test_changes_are_those_of_the_versions_rows(style: str) -> None:
    QUICK(given(histories())(lambda found: check_any(style, found)))()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("style", STYLES)
def test_changes_are_those_of_the_versions_rows_at_length(style: str) -> None:
    LONG(given(histories())(lambda found: check_any(style, found)))()
