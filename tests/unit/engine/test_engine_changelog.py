"""Changelogs and files: what is rewritten, what is numbered, and what may have expired."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestampType, UUIDType

from jobs.changelog import apply_changelog, plan_changelog, read_changelog
from jobs.engine.errors import ExpiredSnapshotError, UnsupportedTableError
from jobs.engine.plan.counts import count_rows
from jobs.engine.read.first_rows import read_rows, read_sample
from jobs.engine.spark.reader import find_obstacle
from jobs.engine.write.writer import write_table
from jobs.entrypoints import sample
from jobs.protocol import DiffResult, RowsRequest, SampledTable, TakeSamplesRequest, read_answer, write_message
from tests.factories import engine as tables
from tests.factories.tiers import further

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "value", StringType()))


def log_of(*changes: tuple[Any, str | None, str], id_type: pa.DataType | None = None) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([change[0] for change in changes], id_type or pa.int64()),
            "value": [change[1] for change in changes],
            "_change_type": [change[2] for change in changes],
        }
    )


def grown(root: Path, *, files: int = 5, version: str = "2") -> Any:
    table = tables.make_table(root, SCHEMA, properties={"format-version": version})
    for first in range(0, files * 10, 10):
        table.append(tables.arrow_rows(table, [{"id": n, "value": str(n)} for n in range(first, first + 10)]))
    return table


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    found = read_changelog(table, keys=None, start=None, end=tables.snapshot_of(table))
    return sorted(((row["id"], row["value"]) for row in found.to_pylist()), key=str)


def test_applying_rewrites_only_the_files_of_its_keys(tmp_path: Path) -> None:
    table = grown(tmp_path)
    before = {file.file_path for file in tables.data_files(table)}
    log = log_of((12, "new", "UPDATE_AFTER"), (13, "x", "DELETE"), (100, "come", "INSERT"), (200, "x", "DELETE"))
    assert apply_changelog(table, log, ["id"], from_empty=False) is not None
    after = {file.file_path for file in tables.data_files(table)}
    assert (len(before - after), len(after - before)) == (1, 1)
    expected = [(n, str(n)) for n in range(50) if n not in (12, 13)] + [(12, "new"), (100, "come")]
    assert rows_of(table) == sorted(expected, key=str)


def test_applying_new_keys_alone_appends(tmp_path: Path) -> None:
    table = grown(tmp_path, files=1)
    apply_changelog(table, log_of((100, "come", "INSERT")), ["id"], from_empty=False)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation.value == "append"


def test_applying_what_is_absent_makes_no_snapshot(tmp_path: Path) -> None:
    table = grown(tmp_path, files=1)
    assert apply_changelog(table, log_of((100, "x", "DELETE")), ["id"], from_empty=False) is None
    assert len(table.metadata.snapshots) == 1


def test_a_destination_with_wider_types_keeps_them(tmp_path: Path) -> None:
    table = grown(tmp_path, files=2)
    apply_changelog(table, log_of((3, "new", "UPDATE_AFTER"), id_type=pa.int32()), ["id"], from_empty=False)
    assert table.schema().find_type("id") == LongType()
    assert rows_of(table) == sorted([(n, "new" if n == 3 else str(n)) for n in range(20)], key=str)


def test_a_type_that_does_not_fit_the_destination_is_refused(tmp_path: Path) -> None:
    table = grown(tmp_path, files=1)
    log = log_of((1, "x", "INSERT")).set_column(1, "value", pa.array([1.5]))
    with pytest.raises(Exception, match="apply_changelog failed: column 'value' is string in the table"):
        apply_changelog(table, log, ["id"], from_empty=False)
    assert len(table.metadata.snapshots) == 1


def test_a_column_that_the_destination_lacks_is_added(tmp_path: Path) -> None:
    table = grown(tmp_path, files=2)
    log = log_of((3, "new", "UPDATE_AFTER")).append_column("more", pa.array(["m"]))
    apply_changelog(table, log, ["id"], from_empty=False)
    found = read_changelog(table, keys=None, start=None, end=tables.snapshot_of(table)).to_pylist()
    assert {row["id"]: row["more"] for row in found} == {n: "m" if n == 3 else None for n in range(20)}


def test_a_null_that_the_destination_does_not_take_is_refused(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "value", StringType(), required=True))
    table = tables.make_table(tmp_path, schema)
    apply_changelog(table, log_of((1, "a", "INSERT")), ["id"], from_empty=False)
    log = log_of((1, None, "UPDATE_AFTER"), (2, "b", "INSERT"))
    with pytest.raises(
        Exception, match="apply_changelog failed: column 'value' of the destination is required, and NULL"
    ):
        apply_changelog(table, log, ["id"], from_empty=False)
    assert len(table.metadata.snapshots) == 1
    assert rows_of(table) == [(1, "a")]


@pytest.mark.parametrize("version", ["1", "2"])
def test_ordinals_count_from_the_first_snapshot_whatever_the_range(tmp_path: Path, version: str) -> None:
    table = grown(tmp_path, files=4, version=version)
    snapshots = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    found = read_changelog(table, keys=["id"], start=snapshots[1], end=snapshots[3])
    assert set(found["_change_ordinal"].to_pylist()) == {2, 3}


def test_ordinals_go_on_where_a_table_became_one_of_version_2(tmp_path: Path) -> None:
    table = grown(tmp_path, files=3, version="1")
    with table.transaction() as transaction:
        transaction.upgrade_table_version(format_version=2)
    table.append(tables.arrow_rows(table, [{"id": 100, "value": "new"}]))
    snapshots = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    found = read_changelog(table, keys=["id"], start=snapshots[0], end=snapshots[3])
    assert sorted(set(found["_change_ordinal"].to_pylist())) == [1, 2, 3]
    gone = without(table, snapshots[1:2])
    found = read_changelog(gone, keys=["id"], start=snapshots[0], end=snapshots[2])
    assert set(found["_change_ordinal"].to_pylist()) == {1}


def test_a_step_reads_the_files_that_its_snapshots_do_not_share(tmp_path: Path) -> None:
    table = grown(tmp_path, files=4)
    snapshots = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    old = tables.data_files(table, snapshots[0])[0].file_path
    Path(old.removeprefix("file://")).unlink()
    assert read_changelog(table, keys=None, start=snapshots[2], end=snapshots[3]).num_rows == 10


def test_an_expired_middle_is_told_as_one_step(tmp_path: Path) -> None:
    table = grown(tmp_path, files=4)
    snapshots = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    table = without(table, snapshots[1:3])
    found = read_changelog(table, keys=["id"], start=snapshots[0], end=snapshots[3])
    assert (found.num_rows, set(found["_change_ordinal"].to_pylist())) == (30, {3})
    with pytest.raises(ValueError, match="is not an ancestor of snapshot"):
        read_changelog(table, keys=["id"], start=snapshots[3], end=snapshots[0])


def test_expired_head_is_not_an_empty_table(tmp_path: Path) -> None:
    table = grown(tmp_path, files=2)
    table = without(table, [tables.snapshot_of(table)])
    metadata = json.loads(table.metadata.model_dump_json())
    page = {
        "columns": ("id",),
        "start": 0,
        "limit": 5,
        "where": "",
        "parameters": (),
        "searched": {},
        "scanned_rows": 5,
    }
    questions: list[Callable[[], object]] = [
        lambda: count_rows(table),
        lambda: read_changelog(table, keys=None, start=None, end=None),
        lambda: read_sample(metadata, table.io, masked=(), row_limit=5, byte_limit=1_000),
        lambda: read_rows(RowsRequest(metadata=metadata, sort="", **page), table.io),
        lambda: read_rows(RowsRequest(metadata=metadata, sort="id", **page), table.io),
        lambda: write_table(table, pa.schema([("id", pa.int64())]), iter(()), is_append=False),
    ]
    for question in questions:
        with pytest.raises(ExpiredSnapshotError, match="has expired"):
            question()


def test_sample_of_an_expired_head_fails(tmp_path: Path) -> None:
    table = grown(tmp_path, files=1)
    table = without(table, [tables.snapshot_of(table)])
    location = table.metadata_location.removeprefix("file://")
    sampled = SampledTable("/x/one", location, str(tmp_path / "rows.arrow"))
    message = tmp_path / "request.json"
    write_message(message, TakeSamplesRequest((sampled,), str(tmp_path / "answer.json"), 5, 1_000))
    assert sample.main(str(message)) == 1
    result = read_answer(DiffResult, tmp_path / "answer.json")
    assert (result.code, result.message.startswith("/x/one: Snapshot ")) == ("expired", True)


def without(table: Any, expired: list[int]) -> Any:
    """The table after some snapshots have expired."""
    location = Path(table.metadata_location.removeprefix("file://"))
    raw = json.loads(location.read_bytes())
    raw["snapshots"] = [snapshot for snapshot in raw["snapshots"] if snapshot["snapshot-id"] not in expired]
    raw["snapshot-log"] = [entry for entry in raw["snapshot-log"] if entry["snapshot-id"] not in expired]
    later = location.with_name("expired.metadata.json")
    later.write_text(json.dumps(raw))
    name = ".".join(table.name())
    table.catalog.current[name] = f"file://{later}"
    return table.catalog.load_table(name)


def test_two_tables_with_equality_deletes_compare(tmp_path: Path) -> None:
    sides = []
    for name, gone in (("n.one", 1), ("n.other", 2)):
        table = tables.make_table(tmp_path, SCHEMA, name)
        table.append(tables.arrow_rows(table, [{"id": n, "value": "v"} for n in range(4)]))
        table = tables.delete_equal(table, ["id"], [{"id": gone}])
        sides.append(tables.side(table, tables.snapshot_of(table)))
    result = tables.diff(tmp_path, *sides, key=["id"])
    assert [(row["k0"], row["change"]) for row in result["rows"]] == [(1, "inserted"), (2, "deleted")]


def test_a_uuid_comes_out_as_the_table_has_it(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, Schema(NestedField(1, "id", UUIDType())))
    value = bytes(range(16))
    table.append(pa.table({"id": pa.array([value], pa.binary(16)).cast(pa.uuid())}))
    found = read_changelog(table, keys=["id"], start=None, end=tables.snapshot_of(table))
    assert found["id"].to_pylist()[0].bytes == value


def test_a_null_is_no_empty_list_nor_map(tmp_path: Path) -> None:
    part = pa.struct([("z", pa.int32())])
    nested = [("list", pa.list_(part)), ("map", pa.map_(pa.string(), part)), ("deep", pa.list_(pa.list_(part)))]
    schema = pa.schema([("id", pa.int64()), *nested])
    rows = [
        {"id": 1, "list": None, "map": None, "deep": None},
        {"id": 2, "list": [], "map": [], "deep": [None, []]},
        {"id": 3, "list": [{"z": 1}, None], "map": [("a", {"z": 1}), ("b", None)], "deep": [[{"z": 1}], None]},
    ]
    table = tables.make_table(tmp_path, schema)
    write_table(table, schema, pa.Table.from_pylist(rows, schema=schema).to_batches(), is_append=False)
    table = table.catalog.load_table(table.name())
    log = read_changelog(table, keys=["id"], start=None, end=tables.snapshot_of(table))
    assert log.drop_columns(["_change_type", "_change_ordinal"]).to_pylist() == rows
    apply_changelog(table, log.slice(1), ["id"], from_empty=False)
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == rows


@further("unit/engine/test_engine_changelog.py::test_any_other_name_length_and_width_will_do")
def test_one_cell_among_a_thousand_columns(tmp_path: Path) -> None:
    names = [f"c{place}" for place in range(1000)]
    schema = Schema(*(NestedField(place + 1, name, LongType()) for place, name in enumerate(["id", *names])))
    table = tables.make_table(tmp_path, schema)
    rows = [{"id": row, **{name: row * place for place, name in enumerate(names)}} for row in range(3)]
    table.append(tables.arrow_rows(table, rows))
    start = tables.snapshot_of(table)
    changed = {**rows[1], "c999": -1}
    table.overwrite(tables.arrow_rows(table, [rows[0], changed, rows[2]]))
    found = read_changelog(table, keys=["id"], start=start, end=tables.snapshot_of(table))
    after, before = found.drop_columns(["_change_ordinal"]).to_pylist()
    assert after == {**changed, "_change_type": "UPDATE_AFTER"}
    assert before == {**rows[1], "_change_type": "UPDATE_BEFORE"}


def test_ends_without_a_column_in_common(tmp_path: Path) -> None:
    table = grown(tmp_path, files=1)
    start = tables.snapshot_of(table)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.add_column("other", StringType())
        update.delete_column("id")
        update.delete_column("value")
    table.append(tables.arrow_rows(table, [{"other": "x"}]))
    # by the columns of the end nothing is known of the older rows, and nothing changed in them
    for first, expected in ((start, ["x"]), (None, [None] * 10 + ["x"])):
        found = read_changelog(table, keys=None, start=first, end=tables.snapshot_of(table))
        assert sorted(found["other"].to_pylist(), key=str) == expected
        assert set(found["_change_type"].to_pylist()) == {"INSERT"}


def test_ends_without_rows(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    table.append(tables.arrow_rows(table, []))
    start = tables.snapshot_of(table)
    table.append(tables.arrow_rows(table, [{"id": 1, "value": ""}]))
    table.delete("id = 1")
    for first in (None, start):
        for keys in (None, ["id"]):
            found = read_changelog(table, keys=keys, start=first, end=tables.snapshot_of(table))
            assert found.num_rows == 0
            assert found.column_names == ["id", "value", "_change_type", "_change_ordinal"]


@pytest.mark.parametrize("kind", ["none", "positions", "equality", "vectors"])
def test_rows_are_counted_without_what_deletes_took(tmp_path: Path, kind: str) -> None:
    table = grown(tmp_path, files=2)
    first = tables.data_files(table)[0].file_path
    if kind == "positions":
        table = tables.delete_positions(tables.delete_positions(table, {first: [1, 2]}), {first: [2, 3]})
    elif kind == "equality":
        table = tables.delete_equal(table, ["id"], [{"id": 3}, {"id": 14}, {"id": 99}])
    elif kind == "vectors":
        table = tables.as_version_3(tables.delete_vectors(table, {first: [0, 9]}))
    assert count_rows(table) == {"none": 20, "positions": 17, "equality": 18, "vectors": 18}[kind]


def test_a_key_of_another_kind_than_the_destination_is_refused_before_rows_are_read(tmp_path: Path) -> None:
    table = grown(tmp_path, files=1)
    log = log_of((1, "x", "INSERT")).set_column(0, "id", pa.array([dt.date(2020, 1, 1)]))
    with pytest.raises(Exception, match="apply_changelog failed: column 'id' is long in the table and date"):
        apply_changelog(table, log, ["id"], from_empty=False)


def test_a_column_of_nothing_but_nulls_has_the_type_of_the_destination(tmp_path: Path) -> None:
    table = grown(tmp_path, files=1)
    log = log_of((1, "x", "UPDATE_AFTER")).set_column(1, "value", pa.nulls(1))
    apply_changelog(table, log, ["id"], from_empty=False)
    assert (1, None) in rows_of(table)
    with pytest.raises(Exception, match="apply_changelog failed: column 'more' has no type, only nulls") as refused:
        apply_changelog(table, log.append_column("more", pa.nulls(1)), ["id"], from_empty=False)
    assert refused.type is Exception


@pytest.mark.parametrize("part", [BucketTransform(4), DayTransform()])
def test_a_light_job_changes_rows_of_a_table_partitioned_by_what_is_computed(tmp_path: Path, part: Any) -> None:
    schema = Schema(NestedField(1, "id", TimestampType()), NestedField(2, "value", StringType()))
    table = tables.make_table(tmp_path, schema, partition_spec=PartitionSpec(PartitionField(1, 1000, part, "part")))
    days = [dt.datetime(1965, 3, day) for day in (1, 2, 3)]
    table.append(tables.arrow_rows(table, [{"id": day, "value": "old"} for day in days]))
    log = log_of((days[0], "new", "UPDATE_AFTER"), (days[1], "", "DELETE"), id_type=pa.timestamp("us"))
    apply_changelog(table, log, ["id"], from_empty=False)
    assert rows_of(table) == [(days[0], "new"), (days[2], "old")]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["A", "a"], "Columns 'A' and 'a' differ only in case"),
        (["_change_type"], "has a column '_change_type' of its own"),
        (["_Commit_Snapshot_Id"], "has a column '_commit_snapshot_id' of its own"),
        (["changelog__copies"], "has a column 'changelog__copies' of its own"),
    ],
)
def test_columns_that_a_changelog_cannot_tell_apart_are_refused(tmp_path: Path, names: list[str], message: str) -> None:
    table = tables.make_table(tmp_path, Schema(*(NestedField(n, name, LongType()) for n, name in enumerate(names, 1))))
    with pytest.raises(UnsupportedTableError, match=message):
        read_changelog(table, keys=None, start=None, end=None)


def test_any_other_name_length_and_width_will_do(tmp_path: Path) -> None:
    others = ["__copies", "__pairs", "__change", 'a "b', "c'; --", *(f"c{n}" for n in range(995))]
    fields = [NestedField(n, name, LongType()) for n, name in enumerate(others, 2)]
    table = tables.make_table(tmp_path, Schema(NestedField(1, "id", StringType()), *fields))
    # one letter in two normal forms, four kilobytes of it; the empty text; NULL
    keys = ["\u00e9" * 2048, "e\u0301" * 1366, "", None]
    old = [{"id": key} | dict.fromkeys(others, 1) for key in keys]
    table.append(tables.arrow_rows(table, old))
    start = tables.snapshot_of(table)
    new = [{**row, "c500": 2} if place != 1 else row for place, row in enumerate(old)]
    tables.replace(table, tables.data_files(table), tables.write_files(table, tables.arrow_rows(table, new)))
    log = read_changelog(table, keys=["id"], start=start, end=None)
    found = {(row["id"], row["_change_type"]): row["c500"] for row in log.to_pylist()}
    changed = [keys[0], "", None]
    assert found == {(k, t): v for k in changed for t, v in (("UPDATE_AFTER", 2), ("UPDATE_BEFORE", 1))}
    copy = tables.make_table(tmp_path, table.schema(), name="n.copy")
    copy.append(tables.arrow_rows(copy, old))
    apply_changelog(copy, log, ["id"], from_empty=False)
    assert sorted(copy.scan().to_arrow().to_pylist(), key=str) == sorted(new, key=str)


def test_a_column_may_be_called_rowid(tmp_path: Path) -> None:
    table = tables.make_table(
        tmp_path, Schema(NestedField(1, "rowid", LongType()), NestedField(2, "value", StringType()))
    )
    snapshots = []
    for value in "abac":
        rows = tables.arrow_rows(table, [{"rowid": 1, "value": value}])
        tables.replace(table, tables.data_files(table) if snapshots else [], tables.write_files(table, rows))
        snapshots.append(tables.snapshot_of(table))
    found = read_changelog(table, keys=None, start=snapshots[0], end=None).to_pylist()
    assert sorted((row["value"], row["_change_type"]) for row in found) == [("a", "DELETE"), ("c", "INSERT")]


@pytest.mark.parametrize("name", ["filename", "FILE_ROW_NUMBER", "scan_file", "c0"])
def test_a_column_may_be_called_as_what_a_scan_adds(tmp_path: Path, name: str) -> None:
    table = tables.make_table(tmp_path, Schema(NestedField(1, "id", LongType()), NestedField(2, name, LongType())))
    table.append(tables.arrow_rows(table, [{"id": n, name: 7 - n} for n in range(4)]))
    start, path = tables.snapshot_of(table), tables.data_files(table)[0].file_path
    table = tables.delete_equal(tables.delete_positions(table, {path: [1]}), [name], [{name: 5}])
    found = read_changelog(table, keys=["id"], start=start, end=None).to_pylist()
    assert sorted((row["id"], row[name], row["_change_type"]) for row in found) == [(1, 6, "DELETE"), (2, 5, "DELETE")]
    apply_changelog(table, read_changelog(table, keys=["id"], start=start, end=None), ["id"], from_empty=False)
    assert sorted(row["id"] for row in read_changelog(table, keys=None, start=None, end=None).to_pylist()) == [0, 3]


@pytest.mark.parametrize("name", ["_file", "_deleted", "_row_id"])
def test_spark_leaves_columns_called_as_its_own_to_this_process(tmp_path: Path, name: str) -> None:
    table = tables.make_table(tmp_path, Schema(NestedField(1, name, LongType())))
    table.append(tables.arrow_rows(table, [{name: 1}]))
    plan = plan_changelog(table, keys=[name], start=None, end=None)
    assert find_obstacle(plan.schema, plan.files) == f"it keeps the name '{name}' for a column of its own"
    assert read_changelog(table, keys=[name], start=None, end=None)[name].to_pylist() == [1]


@pytest.mark.parametrize("keys", [None, ["id"]])
def test_no_rows_have_no_changes(tmp_path: Path, keys: list[str] | None) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    assert read_changelog(table, keys=keys, start=None, end=None).num_rows == 0
    tables.replace(table, [], [])
    found = read_changelog(table, keys=keys, start=None, end=None)
    assert (found.num_rows, found.column_names[:2]) == (0, ["id", "value"])
