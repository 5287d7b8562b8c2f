"""What the planner leaves out, and what it must not."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, LongType, NestedField, StringType

from jobs.engine.plan.columns import pair_columns
from jobs.engine.plan.planner import plan_diff
from jobs.engine.read.bounds import Range, Values, may_overlap, range_of
from jobs.engine.read.fields import Field, Primitive
from jobs.engine.read.fields import Schema as Columns
from tests.factories import engine as tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from jobs.engine.plan.planner import DiffPlan

SCHEMA = Schema(NestedField(1, "k", LongType()), NestedField(2, "v", StringType()))


def append(table: Table, *keys: int) -> None:
    table.append(tables.arrow_rows(table, [{"k": key, "v": str(key)} for key in keys]))


def plan(table: Table, before: int | None, after: int | None, **options: Any) -> DiffPlan:
    return plan_diff(before=tables.side(table, before), after=tables.side(table, after), **options)


def test_shared_manifests_are_not_opened(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    for key in range(5):
        append(table, key)
    old = tables.snapshot_of(table)
    append(table, 5, 6)
    found = plan(table, old, tables.snapshot_of(table))
    assert (len(found.left), len(found.came), found.files) == (0, 1, 1)
    assert (found.manifests_shared, found.manifests_read) == (5, 1)
    assert (found.shared_records, found.rows, len(found.pairs)) == (5, 2, 2)
    assert found.bytes == found.came[0].data.size_in_bytes
    assert len(found.shared()) == 5


def test_equal_ends_have_nothing_to_read(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    append(table, 1)
    snapshot = tables.snapshot_of(table)
    found = plan(table, snapshot, snapshot)
    assert found.is_empty
    assert found.shared_records == 1


def test_files_that_only_moved_to_another_manifest_are_shared(tmp_path: Path) -> None:
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    table = tables.make_table(tmp_path, SCHEMA, properties=merging)
    append(table, 1)
    append(table, 2)
    old = tables.snapshot_of(table)
    append(table, 3)
    found = plan(table, old, tables.snapshot_of(table))
    assert (len(found.left), len(found.came), found.shared_records) == (0, 1, 2)


def test_only_files_with_other_deletes_are_opened(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    append(table, 1, 2, 3)
    append(table, 4, 5)
    old = tables.snapshot_of(table)
    hit = next(file.file_path for file in tables.data_files(table) if file.record_count == 3)
    table = tables.delete_vectors(table, {hit: [1]})
    found = plan(table, old, tables.snapshot_of(table))
    assert [file.before.data.path for file in found.shifted] == [hit]
    assert (found.files, found.shared_records) == (1, 2)
    summary = tables.diff(tmp_path, tables.side(table, old), tables.side(table, tables.snapshot_of(table)), key=["k"])
    assert (summary["deleted"], summary["unchanged"], summary["rows"][0]["b0"]) == (1, 4, 2)


def test_a_later_vector_replaces_an_earlier_one(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    append(table, 0, 1, 2, 3, 4)
    (file,) = tables.data_files(table)
    table = tables.delete_vectors(table, {file.file_path: [1]})
    old = tables.snapshot_of(table)
    table = tables.delete_positions(table, {file.file_path: [4]})
    new = tables.snapshot_of(table)
    summary = tables.diff(tmp_path, tables.side(table, old), tables.side(table, new), key=["k"])
    # where a vector applies, position delete files of that data file no longer do
    assert summary["deleted"] == 0


def test_a_column_that_is_another_field_opens_every_file(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    append(table, 1)
    snapshot = tables.snapshot_of(table)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("v")
    with table.update_schema() as update:
        update.add_column("v", StringType())
    before, after = tables.side(table, snapshot, 0), tables.side(table, snapshot, table.metadata.current_schema_id)
    assert plan_diff(before=before, after=after).files == 2
    assert plan_diff(before=before, after=after, ignore=["v"]).files == 0
    summary = tables.diff(tmp_path, before, after, key=["k"])
    assert (summary["updated"], summary["rows"][0]["b1"], summary["rows"][0]["a1"]) == (1, "1", None)


def test_equality_deletes_hit_older_files_only(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    append(table, 1, 2)
    old = tables.snapshot_of(table)
    table = tables.delete_equal(table, ["k"], [{"k": 1}, {"k": 9}])
    append(table, 1)
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    summary = tables.diff(tmp_path, *sides, key=["k"])
    assert (summary["before_rows"], summary["after_rows"], summary["stored_rows"]) == (2, 2, 0)
    assert (summary["inserted"], summary["deleted"], summary["updated"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], [("b", "b"), ("a", "a")]),
        ([(1, "a")], [(1, "b")], [("a", "b")]),
        ([(1, "a")], [(1, "b"), (2, "a")], [("a", "b"), (None, "a")]),
        ([(1, "a")], [(2, "a")], [("a", "a")]),
        ([(1, "a"), (2, "b")], [(3, "c")], [(None, "c"), ("a", None), ("b", None)]),
    ],
)
def test_columns_match_by_id_then_by_name(old: Any, new: Any, wanted: Any) -> None:
    schemas = [Columns(0, tuple(Field(i, n, Primitive("long")) for i, n in side)) for side in (old, new)]
    pairs = pair_columns(*schemas)
    assert [(p.before.name if p.before else None, p.after.name if p.after else None) for p in pairs] == wanted


def test_bounds_tell_which_files_can_hold_a_key(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    append(table, 1, 2)
    append(table, 5, 6)
    snapshot = tables.snapshot_of(table)
    found = plan(table, snapshot, snapshot)
    assert found.after.schema is not None
    key, value = found.after.schema.fields

    def files(*wanted: Range | Values) -> list[int]:
        entries = [file.data for file in found.shared()]
        return sorted(entry.lower[1][0] for entry in entries if may_overlap(entry, wanted))

    assert files(Range(key, 3, 4)) == []
    assert files(Range(key, 2, 5)) == files() == [1, 5]
    assert files(Values(key, (0, 3, 4, 7))) == files(Values(key, ())) == []
    assert files(Values(key, (2, 3, 7))) == files(Values(key, (1,)), Range(key, 1, 9)) == [1]
    assert files(Values(key, (0, 6))) == files(Values(value, (b"4", b"5"))) == [5]
    assert files(Range(key, 6, 9)) == files(Range(value, b"6", b"60")) == [5]
    assert files(Range(key, 1, 9), Range(value, b"", b"10")) == [1]
    new = Field(3, "new", Primitive("long"))
    assert files(Range(new, 0, 0)) == files(Values(new, (0,))) == [1, 5]


def test_bounds_of_files_from_before_a_date_became_a_timestamp_say_nothing(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, Schema(NestedField(1, "k", DateType(), required=False)))
    table.append(tables.arrow_rows(table, [{"k": dt.date(2026, 1, 2)}]))
    snapshot = tables.snapshot_of(table)
    entry = plan(table, snapshot, snapshot).shared()[0].data
    instant = Field(1, "k", Primitive("timestamp"))
    at = int(dt.datetime(2026, 1, 2, tzinfo=dt.UTC).timestamp() * 1_000_000)
    assert may_overlap(entry, [Range(instant, at, at)])
    assert range_of(entry, instant) is None
    days = at // 86_400_000_000
    assert range_of(entry, Field(1, "k", Primitive("date"))) == (days, days)
