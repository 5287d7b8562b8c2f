"""Keys inside structs: what they may name, and that changelogs by them are those by a column of the same values."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from jobs.changelog import apply_changelog, read_changelog
from jobs.engine.read.paths import list_paths
from tests.factories import engine as tables
from tests.property.engine_oracle import canon

DEEP = StructType(NestedField(13, "f", DoubleType()))
PLACE = StructType(NestedField(10, "a", IntegerType()), NestedField(11, "b", StringType()), NestedField(12, "e", DEEP))
SCHEMA = Schema(NestedField(1, "d", PLACE), NestedField(2, "value", StringType()))
NAN = float("nan")


def row(a: int | None, value: str, *, b: str | None = None, f: float | None = None) -> dict[str, Any]:
    return {"d": {"a": a, "b": b, "e": {"f": f}}, "value": value}


def without_place(value: str) -> dict[str, Any]:
    return {"d": None, "value": value}


def with_versions(root: Path, schema: Schema, *versions: list[dict[str, Any]]) -> tuple[Any, list[Any]]:
    """A table that held these rows, one version after the other, and its snapshots."""
    table, snapshots = tables.make_table(root, schema), []
    for rows in versions:
        gone = tables.data_files(table) if table.current_snapshot() else []
        tables.replace(table, gone, tables.write_files(table, tables.arrow_rows(table, rows)))
        snapshots.append(tables.snapshot_of(table))
    return table, snapshots


def told(log: pa.Table, column: str = "value") -> list[tuple[Any, ...]]:
    return sorted((one["_change_type"], one[column], one["_change_ordinal"]) for one in log.to_pylist())


def test_a_field_of_a_struct_is_a_key(tmp_path: Path) -> None:
    table, snapshots = with_versions(
        tmp_path,
        SCHEMA,
        [row(1, "old", b="x"), row(2, "same"), row(3, "gone"), without_place("null")],
        [row(1, "new", b="y"), row(2, "same"), row(4, "come"), row(None, "still null")],
    )
    log = read_changelog(table, keys=["d.a"], start=snapshots[0], end=snapshots[1])
    assert told(log) == [
        ("DELETE", "gone", 1),
        ("INSERT", "come", 1),
        ("UPDATE_AFTER", "new", 1),
        # a NULL struct has NULL fields, which count as a value
        ("UPDATE_AFTER", "still null", 1),
        ("UPDATE_BEFORE", "null", 1),
        ("UPDATE_BEFORE", "old", 1),
    ]
    assert log.column_names == ["d", "value", "_change_type", "_change_ordinal"]
    kinds = log["_change_type"].to_pylist()
    assert all(kinds[place + 1] == "UPDATE_BEFORE" for place, kind in enumerate(kinds) if kind == "UPDATE_AFTER")


def test_several_fields_of_one_struct_and_a_column_are_a_key(tmp_path: Path) -> None:
    old = [row(1, "old", b="x", f=NAN), row(1, "same", b="y", f=0.0), row(1, "zero", b="x", f=-0.0)]
    new = [row(1, "new", b="x", f=NAN), row(1, "same", b="y", f=0.0), row(1, "one", b="x", f=0.0)]
    table, snapshots = with_versions(tmp_path, SCHEMA, old, new)
    log = read_changelog(table, keys=["d.e.f", "d.b", "d.a"], start=snapshots[0], end=snapshots[1])
    assert [change[:2] for change in told(log)] == [
        ("UPDATE_AFTER", "new"),
        ("UPDATE_AFTER", "one"),
        ("UPDATE_BEFORE", "old"),
        ("UPDATE_BEFORE", "zero"),
    ]
    log = read_changelog(table, keys=["value", "d.a"], start=snapshots[0], end=snapshots[1], images="latest")
    assert Counter(log["_change_type"].to_pylist()) == {"DELETE": 2, "INSERT": 2}


def test_doubled_fields_are_refused_by_the_name_that_was_asked_for(tmp_path: Path) -> None:
    versions = [row(1, "one")], [row(1, "one"), row(1, "two")], [row(1, "two")]
    table, snapshots = with_versions(tmp_path, SCHEMA, *versions)
    message = r"Duplicate rows found for identifier columns \['d.a'\] in changelog view."
    with pytest.raises(ValueError, match=message):
        read_changelog(table, keys=["d.a"], start=snapshots[0], end=snapshots[1])
    with pytest.raises(ValueError, match=message):
        read_changelog(table, keys=["d.a"], start=snapshots[0], end=snapshots[2], images="latest")
    assert len(told(read_changelog(table, keys=["d.a"], start=snapshots[0], end=snapshots[2]))) == 2


def test_a_field_that_was_renamed_and_widened_is_the_same_key(tmp_path: Path) -> None:
    table, snapshots = with_versions(tmp_path, SCHEMA, [row(1, "old"), row(2, "same")])
    with table.update_schema() as update:
        update.rename_column("d.a", "number").update_column("d.a", LongType())
        update.rename_column("d", "place")
    with table.update_schema() as update:
        update.add_column(("place", "a"), StringType())
    rows = [
        {"place": {"number": n, "b": None, "e": {"f": None}, "a": None}, "value": value}
        for n, value in ((1, "new"), (2, "same"), (2**40, "come"))
    ]
    tables.replace(table, tables.data_files(table), tables.write_files(table, tables.arrow_rows(table, rows)))
    log = read_changelog(table, keys=["place.number"], start=snapshots[0], end=None)
    assert told(log) == [("INSERT", "come", 1), ("UPDATE_AFTER", "new", 1), ("UPDATE_BEFORE", "old", 1)]


def test_a_name_with_dots_goes_before_the_path_that_reads_like_it(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "d", StructType(NestedField(10, "b", StringType()))),
        NestedField(2, "d.a", StringType()),
        NestedField(3, "d.e", StructType(NestedField(4, "g.h", LongType()))),
    )
    versions = [[{"d": {"b": None}, "d.a": "x", "d.e": {"g.h": number}}] for number in (1, 2)]
    table, snapshots = with_versions(tmp_path, schema, *versions)

    def kinds(*keys: str) -> list[str]:
        log = read_changelog(table, keys=keys, start=snapshots[0], end=snapshots[1])
        return [str(kind) for kind in log["_change_type"].to_pylist()]

    assert kinds("d.a") == kinds("d.b") == ["UPDATE_AFTER", "UPDATE_BEFORE"]
    assert sorted(kinds("d.e.g.h")) == ["DELETE", "INSERT"]
    # a table cannot have both, what is applied to one can
    both = pa.schema([("d", pa.struct([("a", pa.int32()), ("b", pa.int32())])), ("d.a", pa.string())])
    paths = list_paths(both, lambda field: field.type if pa.types.is_struct(field.type) else ())
    assert {name: len(path) for name, path in paths.items()} == {"d": 1, "d.a": 1, "d.b": 2}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("d.x", "Identifier column 'd.x' does not exist; there are d, list, map. The fields of d are a, b, e."),
        ("d.e.x", "Identifier column 'd.e.x' does not exist; there are d, list, map. The fields of d.e are f."),
        ("d.a.x", "there are d, list, map. A name cannot go through d.a, which is no struct."),
        ("list.element.f", "there are d, list, map. A name cannot go through list, which is no struct."),
        ("map.value.f", "there are d, list, map. A name cannot go through map, which is no struct."),
        ("dd.a", "Identifier column 'dd.a' does not exist; there are d, list, map."),
        ("d.A", "Identifier column 'd.A' does not exist"),
        ("d.", "Identifier column 'd.' does not exist"),
    ],
)
def test_what_is_no_field_of_a_struct_is_refused_with_the_reason(tmp_path: Path, key: str, message: str) -> None:
    part = StructType(NestedField(20, "f", LongType()))
    schema = Schema(
        NestedField(1, "d", PLACE),
        NestedField(2, "list", ListType(21, part)),
        NestedField(3, "map", MapType(22, StringType(), 23, part)),
    )
    table = tables.make_table(tmp_path, schema)
    with pytest.raises(ValueError, match=f"{message}$" if message.endswith(".") else message):
        read_changelog(table, keys=[key], start=None, end=None)


# --- applying -------------------------------------------------------------------------------------


def make_destination(root: Path) -> Any:
    """Three files, of which the first holds the keys 1 and 2 and the second the NULL ones."""
    table = tables.make_table(root, SCHEMA)
    for rows in ([row(1, "one"), row(2, "two")], [without_place("null")], [row(9, "nine")]):
        table.append(tables.arrow_rows(table, rows))
    return table


def log_of(*changes: tuple[dict[str, Any], str]) -> pa.Table:
    place = pa.struct([("a", pa.int32()), ("b", pa.string()), ("e", pa.struct([("f", pa.float64())]))])
    schema = pa.schema([("value", pa.string()), ("d", place), ("_change_type", pa.string())])
    return pa.Table.from_pylist([{**one, "_change_type": kind} for one, kind in changes], schema=schema)


def held(table: Any) -> Counter[Any]:
    return Counter(canon(one) for one in table.scan().to_arrow().to_pylist())


def test_changes_are_applied_by_a_field_of_a_struct(tmp_path: Path) -> None:
    table = make_destination(tmp_path)
    before = {file.file_path for file in tables.data_files(table)}
    log = log_of(
        (row(1, "old"), "UPDATE_BEFORE"),
        (row(1, "new", b="x", f=1.5), "UPDATE_AFTER"),
        (row(None, "no longer null"), "UPDATE_AFTER"),
        (row(5, "come"), "INSERT"),
        (row(2, "x"), "DELETE"),
        (row(7, "absent"), "DELETE"),
    )
    for _ in range(2):
        apply_changelog(table, log, ["d.a"], from_empty=False)
        expected = [row(1, "new", b="x", f=1.5), row(None, "no longer null"), row(5, "come"), row(9, "nine")]
        assert held(table) == Counter(map(canon, expected))
    # what holds none of the keys stays as it is
    assert len(before & {file.file_path for file in tables.data_files(table)}) == 1


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        (
            [(row(5, "x"), "INSERT"), (row(5, "y"), "INSERT")],
            "d.a",
            r"duplicate keys detected in changelog dataframe for identifier columns \['d.a'\]",
        ),
        ([(row(9, "x", b="z"), "INSERT")], "d.b", ""),
        ([(row(9, "x"), "INSERT")], "d.b", r"multiple rows in destination table match key \['d.b'\]"),
        ([(row(9, "x"), "UPDATE_BEFORE")], "d.a", "has an UPDATE_BEFORE and no UPDATE_AFTER"),
        ([(row(9, "x"), "INSERT")], "d.x", "Identifier column 'd.x' does not exist; there are value, d. The fields"),
    ],
)
def test_what_cannot_be_applied_by_a_field(tmp_path: Path, changes: Any, key: str, message: str) -> None:
    table = make_destination(tmp_path)
    if not message:
        assert apply_changelog(table, log_of(*changes), [key], from_empty=False) is not None
        return
    with pytest.raises(Exception, match=f"apply_changelog failed: .*{message}"):
        apply_changelog(table, log_of(*changes), [key], from_empty=False)
    assert len(table.metadata.snapshots) == 3


def test_a_field_that_the_destination_lacks_is_no_key_there(tmp_path: Path) -> None:
    table = make_destination(tmp_path)
    log = log_of((row(1, "x"), "INSERT"))
    place = pa.StructArray.from_arrays([pa.array([1])], ["new"])
    changed = log.set_column(1, "d", place)
    with pytest.raises(Exception, match="apply_changelog failed: the destination has no column 'd.new'"):
        apply_changelog(table, changed, ["d.new"], from_empty=False)
    # nor is a column of the changelog the field of the destination that reads like it
    named = log.append_column("d.a", pa.array([1], pa.int32()))
    with pytest.raises(Exception, match="apply_changelog failed: the destination has no column 'd.a'"):
        apply_changelog(table, named, ["d.a"], from_empty=False)
