"""The embedded diff against the brute-force oracle, over random tables, histories, delete files and edge values."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimeType,
)

from tests.factories import engine as tables
from tests.factories.edges import COMPOSED, DECOMPOSED, EDGES, NAN
from tests.property import engine_oracle as oracle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

DEEPEST = "structs in lists in maps"
POOLS: dict[str, tuple[IcebergType, list[Any]]] = {
    # PyIceberg 0.12 writes a NULL list of structs as an empty one
    **{name: (edge.type, [way for _, way in edge.ways]) for name, edge in EDGES.items() if name != DEEPEST},
    # Spark has no type for these
    "time": (TimeType(), [None, dt.time(0, 0), dt.time(23, 59, 59, 999999)]),
    "deep": (
        ListType(95, StructType(NestedField(96, "m", MapType(97, IntegerType(), 98, StringType(), False))), False),
        [[], [{"m": None}], [{"m": [(1, "a"), (2, None)]}], [{"m": [(2, None), (1, "a")]}]],
    ),
}
"""Types and their values, NULL too."""
KEY_POOLS = {
    # few, so that rows collide
    "long": [None, 0, 1, 2, 3, 4],
    "string": [None, "", "a", "A", COMPOSED, DECOMPOSED],
    "double": [None, NAN, 0.0, -0.0, 1.0],
    "date": [None, dt.date(1969, 12, 31), dt.date(2000, 1, 1)],
    "binary": [None, b"", b"\x00", b"a"],
    "struct": POOLS["struct"][1],
}
LOOKS = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def field(field_id: int, name: str, kind: str) -> NestedField:
    type_ = EDGES[kind].type if kind in EDGES else POOLS[kind][0]
    return NestedField(field_id, name, type_, required=False)


def rows_of(kinds: dict[str, str], keys: frozenset[str], *, most: int = 8) -> st.SearchStrategy[list[dict[str, Any]]]:
    row = st.fixed_dictionaries(
        {name: st.sampled_from(KEY_POOLS[kind] if name in keys else POOLS[kind][1]) for name, kind in kinds.items()}
    )
    return st.lists(row, max_size=most)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[dict[str, str], tuple[str, ...]]:
    keys = draw(st.lists(st.sampled_from(sorted(KEY_POOLS)), min_size=1, max_size=2))
    values = draw(st.lists(st.sampled_from(sorted(POOLS)), min_size=0, max_size=4))
    kinds = {f"k{index}": kind for index, kind in enumerate(keys)}
    kinds |= {f"v{index}": kind for index, kind in enumerate(values)}
    return kinds, tuple(name for name in kinds if name.startswith("k"))


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, str], tuple[str, ...], list[tuple[str, list[dict[str, Any]]]]]:
    kinds, keys = draw(shapes())
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["append", "overwrite", "positions", "equality", "vectors", "append"]),
                rows_of(kinds, frozenset(keys)),
            ),
            min_size=1,
            max_size=4,
        )
    )
    return kinds, keys, steps


def write(table: Table, rows: list[dict[str, Any]], step: str, given: list[dict[str, Any]]) -> tuple[Table, list[Any]]:
    """Apply one step; returns the table and what it then holds."""
    if step == "append":
        table.append(tables.arrow_rows(table, given))
        return table, rows + given
    if step == "overwrite":
        table.overwrite(tables.arrow_rows(table, given))
        return table, list(given)
    if table.current_snapshot() is None:
        return table, rows
    return delete(table, rows, step, given)


def delete(table: Table, rows: list[dict[str, Any]], step: str, given: list[dict[str, Any]]) -> tuple[Table, list[Any]]:
    """Delete what `given` names, by position, by deletion vector or by the first column's value."""
    first = next(iter(table.schema().column_names))
    unwanted = {oracle.row_of(row, [first]) for row in given[:3]}
    if step == "equality":
        if isinstance(table.schema().find_field(first).field_type, (StructType, DoubleType)) or not given:
            return table, rows
        table = tables.delete_equal(table, [first], given[:3])
        return table, [row for row in rows if oracle.row_of(row, [first]) not in unwanted]
    positions: dict[str, list[int]] = {}
    left: list[Any] = []
    for path, stored in live_positions(table):
        for place, row in stored:
            if row is not None and oracle.row_of(row, [first]) in unwanted:
                positions.setdefault(path, []).append(place)
            elif row is None:
                positions.setdefault(path, []).append(place)
            else:
                left.append(row)
    if not positions:
        return table, rows
    return (tables.delete_vectors if step == "vectors" else tables.delete_positions)(table, positions), left


LIVE: dict[str, list[tuple[str, list[tuple[int, Any]]]]] = {}


def live_positions(table: Table) -> list[tuple[str, list[tuple[int, Any]]]]:
    """Per data file its rows by position, None where an earlier delete took one."""
    return LIVE[str(table.metadata.location)]


def learn(table: Table, rows: list[dict[str, Any]]) -> None:
    """Note where the table's rows are: by matching what is left against each file's content."""
    import pyarrow.parquet as pq

    columns = [f.name for f in table.schema().fields]
    left = [oracle.row_of(row, columns) for row in rows]
    found = []
    for file in tables.data_files(table):
        content = pq.read_table(file.file_path.removeprefix("file://")).to_pylist()
        places: list[tuple[int, Any]] = []
        for place, row in enumerate(content):
            canonical = oracle.row_of(row, columns)
            if canonical in left:
                left.remove(canonical)
                places.append((place, row))
            else:
                places.append((place, None))
        found.append((file.file_path, places))
    LIVE[str(table.metadata.location)] = found


@LOOKS
@given(histories())
def test_any_two_snapshots_match_the_oracle(history: Any) -> None:
    kinds, keys, steps = history
    with tempfile.TemporaryDirectory() as path:
        check_history(Path(path), kinds, keys, steps)


@pytest.mark.parametrize("then", [(), ("append",)])
def test_rows_that_two_vectors_of_one_file_name_are_counted_once(folder: Path, then: tuple[str, ...]) -> None:
    nothing = {"k0": None, "v0": None}
    steps = [("append", [nothing] * 3), ("vectors", [nothing]), ("vectors", []), *((step, []) for step in then)]
    check_history(folder, {"k0": "binary", "v0": "long"}, ("k0",), steps)


def check_history(root: Path, kinds: dict[str, str], keys: tuple[str, ...], steps: list[Any]) -> None:
    schema = Schema(*(field(index + 1, name, kind) for index, (name, kind) in enumerate(kinds.items())))
    table = tables.make_table(root, schema)
    rows: list[dict[str, Any]] = []
    states: list[tuple[int | None, list[dict[str, Any]]]] = [(None, [])]
    has_vectors = False
    for asked, given_rows in steps:
        # beside deletion vectors nobody may write, nor reads, a position delete file
        step = "vectors" if has_vectors and asked == "positions" else asked
        has_vectors |= step == "vectors"
        if step in {"positions", "vectors"} and table.current_snapshot() is not None:
            learn(table, rows)
        table, rows = write(table, rows, step, given_rows)
        states.append((tables.snapshot_of(table), rows))
    for before, after in {(0, len(states) - 1), (len(states) - 2, len(states) - 1), (len(states) - 1, 1)}:
        compare(root, table, kinds, keys, states[before], states[after])


def compare(root: Path, table: Table, kinds: dict[str, str], keys: tuple[str, ...], old: Any, new: Any) -> None:
    columns = list(kinds)
    indexes = list(range(len(columns)))
    sides = [tables.side(table, snapshot, table.metadata.current_schema_id) for snapshot, _ in (old, new)]
    plain = tables.diff(root, *sides)
    expected = oracle.net(old[1], new[1], columns)
    assert oracle.stored(plain["rows"], indexes) == expected
    assert (plain["before_rows"], plain["after_rows"]) == (len(old[1]), len(new[1]))
    keyed = tables.diff(root, *sides, key=keys)
    wanted = oracle.by_key(old[1], new[1], keys, columns)
    if wanted is None:
        assert keyed["mode"] == "net"
        assert keyed["key_trouble"]["kind"] == "duplicates"
        wanted = expected
    else:
        assert keyed["mode"] == "identifier", keyed["key_trouble"]
    assert oracle.stored(keyed["rows"], indexes) == wanted
    assert [row["n"] for row in keyed["rows"]] == list(range(1, len(keyed["rows"]) + 1))
