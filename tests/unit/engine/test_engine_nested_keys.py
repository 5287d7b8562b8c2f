"""Row diffs by fields inside structs: what a key may name, and that they say what a column of the same values says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    StringType,
    StructType,
)

from tests.factories import engine as tables
from tests.unit.engine.test_engine_embedded import field, two_versions

DEEP = StructType(field(13, "f", DoubleType()))
PLACE = StructType(field(10, "a", IntegerType()), field(11, "b", StringType()), field(12, "e", DEEP))
SCHEMA = Schema(field(1, "d", PLACE), field(2, "value", StringType()), field(3, "flat", IntegerType()))
NAN = float("nan")


def row(a: int | None, value: str, *, b: str | None = None, f: float | None = None) -> dict[str, Any]:
    return {"d": {"a": a, "b": b, "e": {"f": f}}, "value": value, "flat": a}


def without_place(value: str) -> dict[str, Any]:
    return {"d": None, "value": value, "flat": None}


def told(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Per row the change, the key, and the values before and after."""
    return [
        (one["change"], *(value for name, value in one.items() if name[0] == "k"), one["b1"], one["a1"])
        for one in found["rows"]
    ]


def test_a_field_of_a_struct_is_a_key(tmp_path: Path) -> None:
    before = [row(3, "gone"), row(1, "old", b="x"), row(2, "same"), without_place("null")]
    after = [row(1, "new", b="y"), row(2, "same"), row(4, "come"), without_place("changed")]
    _, *sides = two_versions(tmp_path, SCHEMA, before, after)
    found = tables.diff(tmp_path, *sides, key=["d.a"])
    assert (found["mode"], found["key"], found["key_trouble"]["kind"]) == ("identifier", ["d.a"], "nulls")
    assert [found[name] for name in ("inserted", "deleted", "updated", "unchanged")] == [1, 1, 2, 1]
    assert told(found) == [
        ("updated", 1, "old", "new"),
        ("deleted", 3, "gone", None),
        ("inserted", 4, None, "come"),
        ("updated", None, "null", "changed"),
    ]
    # the struct that holds the key differs where another field of it does
    assert found["rows"][0]["changed"] == [0, 1]
    assert [column["changed"] for column in found["columns"]] == [1, 2, 0]


def test_several_fields_of_one_struct_and_a_column_are_a_key(tmp_path: Path) -> None:
    before = [row(1, "x", b="p", f=-0.0), row(1, "y", b="p", f=NAN), row(1, "z", b="q", f=0.0)]
    after = [row(1, "x", b="p", f=0.0), row(1, "y2", b="p", f=NAN), row(1, "z", b="r", f=0.0)]
    _, *sides = two_versions(tmp_path, SCHEMA, before, after)
    found = tables.diff(tmp_path, *sides, key=["d.e.f", "flat", "d.b"])
    assert found["key"] == ["d.e.f", "flat", "d.b"]
    assert [found[name] for name in ("inserted", "deleted", "updated", "unchanged")] == [1, 1, 1, 1]
    assert [one["k2"] for one in found["rows"]] == ["q", "r", "p"]


def test_a_field_that_was_renamed_and_widened_is_the_same_key(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    table.append(tables.arrow_rows(table, [row(1, "old"), row(2, "same")]))
    old = tables.snapshot_of(table)
    with table.update_schema() as update:
        update.update_column(("d", "a"), LongType())
        update.rename_column(("d", "a"), "number")
        update.rename_column("d", "place")
    again = [
        {"place": {"number": n, "b": None, "e": {"f": None}}, "value": v, "flat": n}
        for n, v in ((1, "new"), (2, "same"))
    ]
    table.overwrite(tables.arrow_rows(table, again))
    sides = tables.side(table, old, 0), tables.side(table, tables.snapshot_of(table))
    for name in ("place.number", "d.a"):
        found = tables.diff(tmp_path, *sides, key=[name])
        assert (found["key"], told(found)) == (["place.number"], [("updated", 1, "old", "new")])


def test_a_column_whose_name_has_dots_is_a_key(tmp_path: Path) -> None:
    schema = Schema(field(4, "d.a", StringType()), field(2, "value", StringType()))
    _, *sides = two_versions(tmp_path, schema, [{"d.a": "k", "value": "x"}], [{"d.a": "k", "value": "y"}])
    assert told(tables.diff(tmp_path, *sides, key=["d.a"])) == [("updated", "k", "x", "y")]


def test_doubled_keys_are_counted_where_they_are_and_shown(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    table.append(tables.arrow_rows(table, [row(1, "shared"), row(2, "alone")]))
    old = tables.snapshot_of(table)
    table.append(tables.arrow_rows(table, [row(1, "second"), row(9, "new")]))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    found = tables.diff(tmp_path, *sides, key=["d.a"])
    assert (found["mode"], found["inserted"], found["key_trouble"]["kind"]) == ("net", 2, "duplicates")
    assert found["key_trouble"]["after"] == {"keys": 1, "rows": 2, "examples": [{"key": {"d.a": "1"}, "rows": 2}]}


def test_a_dataset_that_is_new_has_the_key_of_its_one_side(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    table.append(tables.arrow_rows(table, [row(2, "two"), row(1, "one")]))
    found = tables.diff(tmp_path, None, tables.side(table, tables.snapshot_of(table)), key=["d.a"])
    assert (found["mode"], told_after(found)) == ("identifier", [(1, "one"), (2, "two")])


def told_after(found: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [(one["k0"], one["a1"]) for one in found["rows"]]


def test_an_ignored_struct_still_holds_a_key(tmp_path: Path) -> None:
    _, *sides = two_versions(tmp_path, SCHEMA, [row(1, "x", b="p"), row(2, "y")], [row(1, "x", b="q"), row(2, "z")])
    found = tables.diff(tmp_path, *sides, key=["d.a"], ignore=("d",))
    assert told(found) == [("updated", 2, "y", "z")]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("d.x", "The fields of d are a, b, e."),
        ("value.x", "A name cannot go through value, which is no struct."),
        ("x", ""),
    ],
)
def test_a_name_that_is_none_is_said_and_rows_are_shown_without_a_key(tmp_path: Path, name: str, why: str) -> None:
    _, *sides = two_versions(tmp_path, SCHEMA, [row(1, "x")], [row(1, "y")])
    found = tables.diff(tmp_path, *sides, key=[name])
    assert (found["mode"], found["inserted"], found["deleted"]) == ("net", 1, 1)
    said = f"The key column {name} is missing on the side before and after; shown without a key. {why}".rstrip()
    assert found["key_trouble"]["message"] == said


def test_a_field_inside_a_list_or_of_one_side_is_no_key(tmp_path: Path) -> None:
    items = ListType(20, StructType(field(21, "a", IntegerType())), False)
    table = tables.make_table(tmp_path, Schema(field(1, "d", PLACE), field(2, "items", items)))
    place = {"a": 1, "b": None, "e": None}
    table.append(tables.arrow_rows(table, [{"d": place, "items": [{"a": 1}]}]))
    old = tables.snapshot_of(table)
    with table.update_schema() as update:
        update.add_column(("d", "late"), IntegerType())
    table.overwrite(tables.arrow_rows(table, [{"d": {**place, "late": 1}, "items": []}]))
    sides = tables.side(table, old, 0), tables.side(table, tables.snapshot_of(table))
    assert "items, which is no struct" in tables.diff(tmp_path, *sides, key=["items.a"])["key_trouble"]["message"]
    trouble = tables.diff(tmp_path, *sides, key=["d.late"])["key_trouble"]
    assert (trouble["before"]["missing"], trouble["after"]["missing"]) == (["d.late"], [])


places = st.none() | st.fixed_dictionaries(
    {"a": st.none() | st.integers(0, 3), "b": st.none() | st.sampled_from("pq"), "e": st.none()}
)
versions = st.lists(st.tuples(places, st.sampled_from("xyz")), max_size=6)


@given(before=versions, after=versions, deletes=st.booleans())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_field_and_a_column_of_its_values_give_the_same_diff(
    tmp_path_factory: pytest.TempPathFactory, before: Any, after: Any, deletes: bool
) -> None:
    folder = tmp_path_factory.mktemp("law")
    table = tables.make_table(folder, SCHEMA)
    table.append(tables.arrow_rows(table, [_line(one) for one in before]))
    old = tables.snapshot_of(table)
    if deletes and before:
        # a file that both ends list, with other deletes
        table = tables.delete_positions(table, {tables.data_files(table)[0].file_path: [0]})
        table.append(tables.arrow_rows(table, [_line(one) for one in after]))
    else:
        table.overwrite(tables.arrow_rows(table, [_line(one) for one in after]))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    inner, outer = (_plain(tables.diff(folder, *sides, key=[name, "d.b"])) for name in ("d.a", "flat"))
    assert inner == outer


def _line(given: tuple[Any, str]) -> dict[str, Any]:
    place, value = given
    return {"d": place, "value": value, "flat": None if place is None else place["a"]}


def _plain(found: dict[str, Any]) -> Any:
    """All that a diff says, with one name for the key."""
    own = ("folder", "rows", "timings_s", "columns")
    rows = sorted(json.dumps({**one, "n": 0}, sort_keys=True) for one in found["rows"])
    said = {name: value for name, value in found.items() if name not in own}
    return json.loads(json.dumps(said).replace('"flat"', '"d.a"').replace("'flat'", "'d.a'")), rows
