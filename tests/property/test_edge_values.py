"""Every edge value as a value and as a key, in the row diff, in changelogs and where they are applied.

`tests/spark/engine` asks the same of Spark.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.factories import engine as tables
from tests.factories.edges import EDGES, RETYPED, Edge
from tests.property import changelog_laws as laws
from tests.property.engine_oracle import canon
from tests.property.test_changelog_schemas import STYLES, History, Row

pytestmark = pytest.mark.slow
ALL = list(EDGES)


def all_pairs(edge: Edge) -> list[tuple[Any, Any, bool]]:
    """Each way to write a value, each that may come in its place, and whether that is the same value."""
    return [(old, new, one == other) for one, old in edge.ways for other, new in edge.ways]


def as_values(folder: Path, style: str, names: list[str]) -> tuple[History, set[int]]:
    """Rows in which one value becomes another, a column for each type; and those in which it is another."""
    kinds = {"id": "long", **{name: name for name in names}}
    nothing = dict.fromkeys(names)
    before: list[Row] = []
    after: list[Row] = []
    changed = set()
    for name in names:
        for old, new, is_same in all_pairs(EDGES[name]):
            number = len(before)
            before.append({"id": number, **nothing, name: old})
            after.append({"id": number, **nothing, name: new})
            changed |= set() if is_same else {number}
    # rows are taken away in between, or files with none but equal rows would stay as they are
    versions = [("pyarrow", before), ("pyarrow", []), ("pyarrow", after)]
    return History(folder, style, kinds, versions), changed


def as_keys(folder: Path, style: str, names: list[str]) -> tuple[History, int]:
    """A row for each value, which changes beside its key, written otherwise; then a second row for each of them."""
    kinds = {**{name: name for name in names}, "v": "long"}
    nothing = dict.fromkeys(names)
    ends = [[{**nothing, name: value} for name in names for value in which(EDGES[name])] for which in (firsts, lasts)]
    first, last = ([dict.fromkeys(names), *rows] for rows in ends)
    old, new = [{**row, "v": 0} for row in first], [{**row, "v": 1} for row in last]
    versions = [("pyarrow", old), ("pyarrow", new), ("pyarrow", [*new, *({**row, "v": 2} for row in first)])]
    return History(folder, style, kinds, versions), len(first)


def firsts(edge: Edge) -> list[Any]:
    return [ways[0] for ways in edge.values]


def lasts(edge: Edge) -> list[Any]:
    return [ways[-1] for ways in edge.values]


def check_values(history: History, changed: set[int]) -> None:
    """By the number of the row each change of its value is told, and no other."""
    found = tables.diff(history.folder, *ends(history, 1, 3), key=["id"])
    assert {row["k0"] for row in found["rows"]} == changed
    assert (found["updated"], found["unchanged"]) == (len(changed), len(history.states[1][1]) - len(changed))
    laws.check_diff(history, ["id"], history.states[1], history.states[3])
    laws.check_range(history, ["id"], 1)


def check_key(history: History, keys: list[str], count: int) -> None:
    """Each key is its own, however it is written; and is found among rows of other files."""
    found = tables.diff(history.folder, *ends(history, 1, 2), key=keys)
    assert (found["updated"], found["stored_rows"], found["mode"]) == (count, count, "identifier")
    trouble = tables.diff(history.folder, *ends(history, 2, 3), key=keys)["key_trouble"]
    assert (trouble["kind"], trouble["after"]["keys"], trouble["after"]["rows"]) == ("duplicates", count, 2 * count)
    with pytest.raises(ValueError, match="Duplicate rows found for identifier columns"):
        history.told(2, 3, keys=keys)
    log = history.told(1, 2, keys=keys)
    assert Counter(log["_change_type"].to_pylist()) == {"UPDATE_BEFORE": count, "UPDATE_AFTER": count}
    del history.states[3:]
    laws.check_applied(history, keys, 1, log)


def ends(history: History, *places: int) -> list[Any]:
    schema = history.table.schema().schema_id
    return [tables.side(history.table, history.states[place][0], schema) for place in places]


def in_styles(*quick: str) -> pytest.MarkDecorator:
    """In every style of writing; those that are not quick for soak only."""
    marks = {style: () if style in quick else pytest.mark.soak for style in STYLES}
    return pytest.mark.parametrize("style", [pytest.param(style, marks=marks[style]) for style in STYLES])


def test_the_list_says_what_is_the_same() -> None:
    for name, edge in EDGES.items():
        for old, new, is_same in all_pairs(edge):
            assert (canon(old) == canon(new)) == is_same, (name, old, new)


@in_styles("vectors")
def test_as_values(tmp_path: Path, style: str) -> None:
    check_values(*as_values(tmp_path, style, ALL))


@pytest.mark.parametrize("name", ALL)
def test_as_a_key(tmp_path: Path, name: str) -> None:
    history, count = as_keys(tmp_path, "rewritten files", [name])
    check_key(history, [name], count)


@in_styles("positions")
def test_as_parts_of_a_key(tmp_path: Path, style: str) -> None:
    history, count = as_keys(tmp_path, style, ALL)
    check_key(history, ALL, count)
    laws.check_diff(history, ALL, history.states[1], history.states[2])
    laws.check_range(history, ALL, 1)


@pytest.mark.parametrize("name", RETYPED)
def test_dropped_and_added_as_another_type(tmp_path: Path, name: str) -> None:
    check_retyped(tmp_path, name)


def check_retyped(folder: Path, name: str) -> None:
    """A row diff compares what goes by one name, as a value and as a key; to a changelog the column is another one."""
    old_type, new_type, pairs = RETYPED[name]
    fields = [NestedField(1, "id", LongType()), NestedField(2, "v", old_type), NestedField(3, "k", old_type)]
    table = tables.make_table(folder, Schema(*fields))
    table.append(tables.arrow_rows(table, [{"id": n, "v": old, "k": old} for n, (old, _, _) in enumerate(pairs)]))
    before = tables.side(table, tables.snapshot_of(table), table.schema().schema_id)
    with table.update_schema(allow_incompatible_changes=True) as update:
        for column in ("v", "k"):
            update.delete_column(column)
    with table.update_schema() as update:
        for column in ("v", "k"):
            update.add_column(column, new_type)
    table.overwrite(tables.arrow_rows(table, [{"id": n, "v": new, "k": new} for n, (_, new, _) in enumerate(pairs)]))
    after = tables.side(table, tables.snapshot_of(table), table.schema().schema_id)
    by_number = tables.diff(folder, before, after, key=["id"])
    other = {number for number, (_, _, is_same) in enumerate(pairs) if not is_same}
    assert {row["k0"] for row in by_number["rows"]} == other
    assert by_number["unchanged"] == len(pairs) - len(other)
    by_value = tables.diff(folder, before, after, key=["k"], ignore=("id",))
    assert by_value["mode"] == "identifier"
    assert (by_value["deleted"], by_value["inserted"], by_value["unchanged"]) == (
        len(other),
        len(other),
        len(pairs) - len(other),
    )


@pytest.mark.soak
def test_the_thousandth_column_is_the_key(tmp_path: Path) -> None:
    key = "c998"
    names = ["id", *(f"c{place}" for place in range(999))]
    rows = [{name: row * place for place, name in enumerate(names, 1)} for row in (1, 2, 3)]
    changed = {**rows[1], "c500": -1}
    versions = [("pyarrow", rows), ("pyarrow", [rows[0], changed, rows[2]])]
    history = History(tmp_path, "rewritten files", dict.fromkeys(names, "long"), versions)
    (found,) = tables.diff(tmp_path, *ends(history, 1, 2), key=[key])["rows"]
    assert (found["change"], found["changed"], found["b501"], found["a501"]) == ("updated", [501], 1004, -1)
    log = history.told(1, 2, keys=[key]).drop_columns(["_change_ordinal"]).to_pylist()
    told = {row.pop("_change_type"): row for row in log}
    assert told == {"UPDATE_BEFORE": rows[1], "UPDATE_AFTER": changed}


def test_no_rows(tmp_path: Path) -> None:
    versions = [("pyarrow", []), ("pyarrow", [{"id": None, "v": ""}]), ("pyarrow", [])]
    history = History(tmp_path, "rewritten files", {"id": "long", "v": "string"}, versions)
    for old, new in ((0, 1), (1, 2), (2, 3), (1, 3)):
        laws.check_diff(history, ["id"], history.states[old], history.states[new])
    for first in (0, 2, 3):
        laws.check_range(history, ["id"], first)
