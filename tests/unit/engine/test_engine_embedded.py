"""The embedded executor on small tables whose answer is written down."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from jobs.engine.errors import ExpiredSnapshotError, UnreadableTableError
from jobs.protocol import SideRef
from tests.factories import engine as tables

if TYPE_CHECKING:
    from pyiceberg.table import Table


NAN, INF = float("nan"), float("inf")


def field(field_id: int, name: str, kind: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


def two_versions(
    root: Path, schema: Schema, before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> tuple[Table, SideRef, SideRef]:
    table = tables.make_table(root, schema)
    table.append(tables.arrow_rows(table, before))
    old = tables.snapshot_of(table)
    table.overwrite(tables.arrow_rows(table, after))
    return table, tables.side(table, old), tables.side(table, tables.snapshot_of(table))


def keyed(*others: NestedField) -> Schema:
    return Schema(field(1, "k", LongType()), *others)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (DoubleType(), NAN, NAN),
        (DoubleType(), -0.0, 0.0),
        (DoubleType(), INF, INF),
        (BinaryType(), b"\x00\xff", b"\x00\xff"),
        (StringType(), None, None),
        (ListType(9, DoubleType(), False), [NAN, -0.0], [NAN, 0.0]),
        (MapType(9, StringType(), 10, LongType(), False), [("a", 1), ("b", None)], [("b", None), ("a", 1)]),
        (TimestampType(), dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1969, 12, 31, 23, 59, 59)),
    ],
)
def test_same_values_are_no_change(tmp_path: Path, kind: Any, before: Any, after: Any) -> None:
    _, *sides = two_versions(tmp_path, keyed(field(2, "v", kind)), [{"k": 1, "v": before}], [{"k": 1, "v": after}])
    for key in (["k"], None):
        result = tables.diff(tmp_path, *sides, key=key)
        assert (result["inserted"], result["deleted"], result["updated"], result["unchanged"]) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (DoubleType(), NAN, None),
        (DoubleType(), INF, -INF),
        (StringType(), "", None),
        (StringType(), "é", "e\u0301"),
        (StringType(), "a", "a "),
        (BinaryType(), b"", None),
        (ListType(9, LongType(), False), [1, 2], [2, 1]),
        (ListType(9, LongType(), False), [], [None]),
        (StructType(field(9, "x", LongType())), {"x": None}, None),
        (MapType(9, StringType(), 10, LongType(), False), [("a", 1)], [("a", None)]),
        (DecimalType(9, 2), Decimal("0.10"), Decimal("0.11")),
        (DateType(), dt.date(1969, 12, 31), dt.date(1970, 1, 1)),
    ],
)
def test_other_values_are_one_changed_cell(tmp_path: Path, kind: Any, before: Any, after: Any) -> None:
    _, *sides = two_versions(tmp_path, keyed(field(2, "v", kind)), [{"k": 1, "v": before}], [{"k": 1, "v": after}])
    result = tables.diff(tmp_path, *sides, key=["k"])
    assert (result["updated"], result["unchanged"], result["cells_changed"]) == (1, 0, 1)
    assert result["rows"][0]["changed"] == [1]
    assert result["columns"][1]["match_rate"] == 0


def test_a_null_key_is_a_value_and_is_reported(tmp_path: Path) -> None:
    schema = keyed(field(2, "v", StringType()))
    _, *sides = two_versions(tmp_path, schema, [{"k": None, "v": "a"}], [{"k": None, "v": "b"}])
    result = tables.diff(tmp_path, *sides, key=["k"])
    assert (result["mode"], result["updated"]) == ("identifier", 1)
    assert result["key_trouble"]["kind"] == "nulls"
    assert result["key_trouble"]["before"] == {"rows": 1}


def test_duplicate_keys_fall_back_to_net_with_counts_and_examples(tmp_path: Path) -> None:
    schema = keyed(field(2, "v", StringType()))
    before = [{"k": 1, "v": "a"}, {"k": 1, "v": "b"}, {"k": 2, "v": "x"}]
    after = [{"k": 1, "v": "a"}, {"k": 1, "v": "c"}, {"k": 2, "v": "y"}, {"k": None, "v": "n"}, {"k": None, "v": "n"}]
    _, *sides = two_versions(tmp_path, schema, before, after)
    result = tables.diff(tmp_path, *sides, key=["k"])
    trouble = result["key_trouble"]
    assert (result["mode"], trouble["kind"]) == ("net", "duplicates")
    assert trouble["message"] == "Duplicate rows found for identifier columns ['k'] in changelog view."
    assert trouble["before"] == {"keys": 1, "rows": 2, "examples": [{"key": {"k": "1"}, "rows": 2}]}
    assert (trouble["after"]["keys"], trouble["after"]["rows"]) == (2, 4)
    assert (result["inserted"], result["deleted"], result["updated"]) == (4, 2, 0)
    assert max(row["copies"] for row in result["rows"]) == 2


def test_duplicates_of_untouched_keys_do_not_matter(tmp_path: Path) -> None:
    schema = keyed(field(2, "v", StringType()))
    same = [{"k": 7, "v": "a"}, {"k": 7, "v": "b"}]
    _, *sides = two_versions(tmp_path, schema, [*same, {"k": 1, "v": "a"}], [*same, {"k": 1, "v": "b"}])
    result = tables.diff(tmp_path, *sides, key=["k"])
    assert (result["mode"], result["updated"], result["unchanged"], result["key_trouble"]) == ("identifier", 1, 2, None)


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        # as many copies come as leave, and no two values of a key differ
        pytest.param([1, 1, 2], [1, 2, 2], (2, 2), id="copies"),
        pytest.param([1] * 400, [1] * 401, (400, 401), id="constant"),
        pytest.param([1], [2, 2], (0, 2), id="only-after"),
        pytest.param([None, None], [1], (2, 0), id="null"),
    ],
)
def test_repeated_keys_are_found_however_the_rows_meet(
    tmp_path: Path, before: list[int], after: list[int], rows: tuple[int, int]
) -> None:
    schema = keyed(field(2, "v", StringType()))
    ends = ([{"k": key, "v": "same"} for key in keys] for keys in (before, after))
    _, *sides = two_versions(tmp_path, schema, *ends)
    result = tables.diff(tmp_path, *sides, key=["k"])
    trouble = result["key_trouble"]
    assert (result["mode"], trouble["kind"]) == ("net", "duplicates")
    assert (trouble["before"]["rows"], trouble["after"]["rows"]) == rows


def test_a_new_row_with_the_key_of_an_untouched_file_is_found(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, keyed(field(2, "v", StringType())))
    table.append(tables.arrow_rows(table, [{"k": 1, "v": "a"}]))
    old = tables.snapshot_of(table)
    table.append(tables.arrow_rows(table, [{"k": 1, "v": "b"}]))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    result = tables.diff(tmp_path, *sides, key=["k"])
    assert result["files_read"] == 1
    assert result["key_trouble"]["before"]["keys"] == 0
    assert result["key_trouble"]["after"]["rows"] == 2
    assert (result["mode"], result["inserted"]) == ("net", 1)


def test_missing_key_column_is_named(tmp_path: Path) -> None:
    _, *sides = two_versions(tmp_path, keyed(), [{"k": 1}], [{"k": 2}])
    result = tables.diff(tmp_path, *sides, key=["k", "nope"])
    assert (result["mode"], result["key_trouble"]["columns"]) == ("net", ["nope"])


def test_new_and_removed_dataset(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, keyed(field(2, "v", StringType())))
    table.append(tables.arrow_rows(table, [{"k": 2, "v": "b"}, {"k": 1, "v": "a"}]))
    whole = tables.side(table, tables.snapshot_of(table))
    added = tables.diff(tmp_path, None, whole, key=["k"])
    assert (added["inserted"], [row["a0"] for row in added["rows"]]) == (2, [1, 2])
    removed = tables.diff(tmp_path, whole, None, key=["k"])
    assert (removed["deleted"], removed["after_rows"]) == (2, 0)
    assert tables.diff(tmp_path, None, None)["stored_rows"] == 0
    empty = tables.diff(tmp_path, tables.side(table, None), whole, key=["k"])
    assert empty["inserted"] == 2


def test_a_dataset_created_on_the_branch_has_no_columns_on_master(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, Schema())
    with table.update_schema() as update:
        update.add_column("k", LongType())
    placeholder = table.schemas()
    table.append(tables.arrow_rows(table, [{"k": 1}]))
    empty, whole = (
        tables.side(table, None, min(placeholder)),
        tables.side(table, tables.snapshot_of(table)),
    )
    for key in (["k"], None):
        result = tables.diff(tmp_path, empty, whole, key=key)
        assert (result["inserted"], result["key_trouble"]) == (1, None)
        assert tables.diff(tmp_path, whole, empty, key=key)["deleted"] == 1
        assert tables.diff(tmp_path, empty, empty, key=key)["stored_rows"] == 0


def test_no_column_in_common_replaces_every_row(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, Schema(field(1, "a", LongType())))
    table.append(tables.arrow_rows(table, [{"a": 1}, {"a": 1}]))
    old = tables.snapshot_of(table)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.add_column("b", LongType())
        update.delete_column("a")
    table.overwrite(tables.arrow_rows(table, [{"b": 1}]))
    result = tables.diff(tmp_path, tables.side(table, old, 0), tables.side(table, tables.snapshot_of(table)))
    assert (result["deleted"], result["inserted"], result["unchanged"]) == (2, 1, 0)


def test_an_added_column_alone_changes_no_row(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, keyed())
    table.append(tables.arrow_rows(table, [{"k": 1}]))
    old = tables.snapshot_of(table)
    with table.update_schema() as update:
        update.add_column("v", StringType())
    table.overwrite(tables.arrow_rows(table, [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    result = tables.diff(tmp_path, *sides, key=["k"])
    assert (result["updated"], result["unchanged"], result["inserted"]) == (0, 1, 1)
    assert result["rows"][0]["a1"] == "b"


def test_rows_of_one_file_differ_where_their_default_does(tmp_path: Path) -> None:
    """Only the schemas differ: old rows lack the column, and the field inside the struct, and read defaults."""
    inner = StructType(NestedField(3, "a", LongType()))
    table = tables.make_table(tmp_path, Schema(NestedField(1, "k", LongType()), NestedField(2, "s", inner)))
    table.append(tables.arrow_rows(table, [{"k": 1, "s": {"a": 1}}, {"k": 2, "s": None}]))
    raw = json.loads(Path(table.metadata_location.removeprefix("file://")).read_bytes())
    key, struct = raw["schemas"][0]["fields"]

    def number(schema_id: int, outer: int | None, inner: int | None) -> dict[str, Any]:
        added: dict[str, Any] = {"id": 4, "name": "n", "type": "long", "required": False, "initial-default": outer}
        part = {"id": 5, "name": "b", "type": "long", "required": False, "initial-default": inner}
        parts = {**struct, "type": {**struct["type"], "fields": [*struct["type"]["fields"], part]}}
        return {**raw["schemas"][0], "schema-id": schema_id, "fields": [key, parts, added]}

    raw |= {"format-version": 3, "next-row-id": 0, "schemas": [number(1, 5, None), number(2, 6, None), number(3, 5, 7)]}
    target = tmp_path / "defaults.metadata.json"
    target.write_text(json.dumps(raw | {"current-schema-id": 1}))
    ends = [SideRef(f"file://{target}", tables.snapshot_of(table), schema_id) for schema_id in (1, 2, 3)]
    result = tables.diff(tmp_path, ends[0], ends[1], key=["k"])
    assert [(row["k0"], row["b2"], row["a2"]) for row in result["rows"]] == [(1, 5, 6), (2, 5, 6)]
    assert tables.diff(tmp_path, ends[0], ends[2], key=["k"])["updated"] == 1
    assert tables.diff(tmp_path, ends[0], ends[0], key=["k"])["unchanged"] == 2


def test_a_retyped_column_with_equal_text_changes_no_row(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, Schema(field(1, "k", StringType()), field(2, "v", LongType())))
    table.append(tables.arrow_rows(table, [{"k": "1", "v": 7}, {"k": "2", "v": 8}]))
    old = tables.snapshot_of(table)
    with table.update_schema(allow_incompatible_changes=True) as update:
        for name in ("k", "v"):
            update.delete_column(name)
    with table.update_schema() as update:
        update.add_column("k", LongType())
        update.add_column("v", StringType())
    table.overwrite(tables.arrow_rows(table, [{"k": 1, "v": "7"}, {"k": 2, "v": "08"}]))
    sides = tables.side(table, old, 0), tables.side(table, tables.snapshot_of(table))
    result = tables.diff(tmp_path, *sides, key=["k"])
    assert (result["updated"], result["unchanged"], result["inserted"]) == (1, 1, 0)
    assert result["rows"][0]["b1"] == 8


LONG = 1_234_567_890_123_456_789_012_345_678


@pytest.mark.parametrize(
    ("kind", "before", "after", "rules", "updated"),
    [
        (DoubleType(), 1.0, 1.05, {"tolerance": {"v": {"absolute": 0.1}}}, 0),
        (DoubleType(), 1.0, 1.2, {"tolerance": {"v": {"absolute": 0.1}}}, 1),
        (DoubleType(), INF, 1.0, {"tolerance": {"v": {"relative": 0.5}}}, 1),
        (DoubleType(), NAN, 1.0, {"tolerance": {"v": {"absolute": 9.0}}}, 1),
        (DoubleType(), None, 1.0, {"tolerance": {"v": {"absolute": 9.0}}}, 1),
        (DoubleType(), 100.0, 101.0, {"tolerance": {"v": {"relative": 0.01}}}, 0),
        (DecimalType(9, 2), Decimal("0.30"), Decimal("0.40"), {"tolerance": {"v": {"absolute": 0.1}}}, 0),
        (DecimalType(9, 2), Decimal("0.30"), Decimal("0.41"), {"tolerance": {"v": {"absolute": 0.1}}}, 1),
        (DecimalType(38, 10), LONG, LONG + 10, {"tolerance": {"v": {"absolute": 5.0}}}, 1),
        (DecimalType(38, 10), LONG, LONG + 3, {"tolerance": {"v": {"absolute": 5.0}}}, 0),
        (DecimalType(38, 0), 10**38 - 1, 1 - 10**38, {"tolerance": {"v": {"absolute": 5.0}}}, 1),
        (DecimalType(38, 0), 2, -2, {"tolerance": {"v": {"absolute": 5.0}}}, 0),
        (LongType(), 2**63 - 1, -(2**63), {"tolerance": {"v": {"absolute": 5.0}}}, 1),
        (LongType(), 5, 3, {"tolerance": {"v": {"absolute": 2.0}}}, 0),
        (StringType(), "a", "b", {"tolerance": {"v": {"absolute": 2.0}}}, 1),
        (StringType(), "a", "b", {"ignore": ("v",)}, 0),
    ],
)
def test_rules(tmp_path: Path, kind: Any, before: Any, after: Any, rules: Any, updated: int) -> None:
    _, *sides = two_versions(tmp_path, keyed(field(2, "v", kind)), [{"k": 1, "v": before}], [{"k": 1, "v": after}])
    assert tables.diff(tmp_path, *sides, key=["k"], **rules)["updated"] == updated


def test_rules_that_name_unknown_columns_warn(tmp_path: Path) -> None:
    _, *sides = two_versions(tmp_path, keyed(), [{"k": 1}], [{"k": 2}])
    warnings = tables.diff(tmp_path, *sides, ignore=("x",), tolerance={"y": {"absolute": 1.0}})["warnings"]
    assert len(warnings) == 2


def test_a_huge_diff_stores_the_first_rows_and_counts_all(tmp_path: Path) -> None:
    rows = [{"k": number} for number in range(50)]
    _, *sides = two_versions(tmp_path, keyed(), rows, [])
    result = tables.diff(tmp_path, *sides, key=["k"], row_limit=10)
    assert (result["deleted"], result["stored_rows"], result["is_complete"]) == (50, 10, False)
    assert [row["k0"] for row in result["rows"]] == list(range(10))


def test_columns_that_differ_by_case_only(tmp_path: Path) -> None:
    schema = Schema(field(1, "k", LongType()), field(2, "A", StringType()), field(3, "a", StringType()))
    before, after = [{"k": 1, "A": "x", "a": "y"}], [{"k": 1, "A": "x", "a": "z"}]
    _, *sides = two_versions(tmp_path, schema, before, after)
    assert tables.diff(tmp_path, *sides, key=["k"])["rows"][0]["changed"] == [2]


def test_the_widest_span_of_integers_is_stored_for_every_reader(tmp_path: Path) -> None:
    """By deltas DuckDB writes what no other reader takes where one needs more bits than the type has."""
    rows = [{"k": -(2**31), "v": 2**31 - 1}, {"k": 0, "v": -(2**31)}, {"k": 2**31 - 1, "v": 0}]
    schema = Schema(field(1, "k", IntegerType()), field(2, "v", IntegerType()))
    table = tables.make_table(tmp_path, schema)
    table.append(tables.arrow_rows(table, rows))
    result = tables.diff(tmp_path, None, tables.side(table, tables.snapshot_of(table)), key=["k"])
    assert [{"k": row["a0"], "v": row["a1"]} for row in result["rows"]] == rows


def test_a_struct_that_gained_a_field_compares_what_both_have(tmp_path: Path) -> None:
    schema = keyed(field(2, "s", StructType(field(3, "x", IntegerType()))))
    table = tables.make_table(tmp_path, schema)
    table.append(tables.arrow_rows(table, [{"k": 1, "s": {"x": 1}}, {"k": 2, "s": {"x": 2}}, {"k": 3, "s": None}]))
    old = tables.snapshot_of(table)
    with table.update_schema() as update:
        update.add_column(("s", "y"), StringType())
        update.update_column(("s", "x"), LongType())
    table.append(tables.arrow_rows(table, []))
    rows = [{"k": 1, "s": {"x": 1, "y": "new"}}, {"k": 2, "s": {"x": 5, "y": None}}, {"k": 3, "s": None}]
    table.overwrite(tables.arrow_rows(table, rows))
    sides = tables.side(table, old, 0), tables.side(table, tables.snapshot_of(table))
    result = tables.diff(tmp_path, *sides, key=["k"])
    assert [row["k0"] for row in result["rows"]] == [2]
    # read with the newer schema, the old files' structs lack the field
    newer = tables.side(table, old, table.metadata.current_schema_id)
    assert [row["k0"] for row in tables.diff(tmp_path, newer, sides[1], key=["k"])["rows"]] == [1, 2]


def test_partition_values_stand_in_for_columns_that_files_lack(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = tables.make_table(tmp_path, keyed(field(2, "p", StringType())), properties={"format-version": "2"})
    with table.update_spec() as update:
        update.add_field("p", IdentityTransform(), "p")
    table.append(tables.arrow_rows(table, [{"k": 1, "p": "it's"}]))
    (file,) = tables.data_files(table)
    content = pq.read_table(file.file_path.removeprefix("file://"))
    stripped = pa.Table.from_arrays([content.column("k")], schema=pa.schema([content.schema.field("k")]))
    pq.write_table(stripped, file.file_path.removeprefix("file://"))
    whole = tables.side(table, tables.snapshot_of(table))
    assert tables.diff(tmp_path, None, whole, key=["k"])["rows"][0]["a1"] == "it's"


def test_files_without_field_ids_are_read_by_the_name_mapping(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = tables.make_table(tmp_path, keyed(field(2, "v", StringType())))
    path = f"{table.location()}/data/plain [1]*.parquet"
    (tmp_path / "n.t" / "data").mkdir(parents=True)
    pq.write_table(pa.table({"v": ["a"], "k": [1]}), path.removeprefix("file://"))
    table.add_files([path])
    with table.update_schema() as update:
        update.rename_column("v", "w")
    whole = tables.side(table, tables.snapshot_of(table), table.metadata.current_schema_id)
    (row,) = tables.diff(tmp_path, None, whole, key=["k"])["rows"]
    assert (row["a0"], row["a1"]) == (1, "a")


def test_the_name_mapping_reaches_into_structs_lists_and_maps(tmp_path: Path) -> None:
    point = StructType(field(20, "x", LongType()), field(21, "y", LongType()))
    fields = [
        field(2, "s", StructType(field(22, "p", point))),
        field(3, "l", ListType(30, point, element_required=False)),
        field(4, "m", MapType(31, StringType(), 32, point, value_required=False)),
    ]
    schema = assign_fresh_schema_ids(keyed(*fields))
    mapping = {"schema.name-mapping.default": create_mapping_from_schema(schema).model_dump_json()}
    table = tables.make_table(tmp_path, schema, properties=mapping)
    rows = [{"k": 1, "s": {"p": {"x": 1, "y": 2}}, "l": [{"x": 1, "y": 2}], "m": [("a", {"x": 1, "y": 2})]}]
    tables.replace(table, [], tables.write_files(table, tables.arrow_rows(table, rows), "polars"))
    with table.update_schema() as update:
        for path in ("s.p", "l.element", "m.value"):
            update.rename_column(f"{path}.x", "z")
    whole = tables.side(table, tables.snapshot_of(table), table.schema().schema_id)
    (row,) = tables.diff(tmp_path, None, whole, key=["k"])["rows"]
    point_now = {"z": 1, "y": 2}
    assert (row["a1"], row["a2"], row["a3"]) == ({"p": point_now}, [point_now], [("a", point_now)])


def test_an_expired_snapshot_is_named(tmp_path: Path) -> None:
    table, before, _ = two_versions(tmp_path, keyed(), [{"k": 1}], [{"k": 2}])
    with pytest.raises(ExpiredSnapshotError, match="Snapshot 12345 has expired"):
        tables.diff(tmp_path, before, tables.side(table, 12345))


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    table, *sides = two_versions(tmp_path, keyed(), [{"k": 1}], [{"k": 2}])
    (file,) = tables.data_files(table)
    (tmp_path / file.file_path.removeprefix("file://")).unlink()
    with pytest.raises(UnreadableTableError):
        tables.diff(tmp_path, *sides)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("trap", ["fifo", "link"])
@pytest.mark.parametrize("kind", ["data", "metadata"])
def test_a_trap_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path, kind: str, trap: str) -> None:
    table, *sides = two_versions(tmp_path, keyed(), [{"k": 1}], [{"k": 2}])
    (file,) = tables.data_files(table)
    location = file.file_path if kind == "data" else sides[0].metadata_location
    path = tmp_path / location.removeprefix("file://")
    path.rename(tmp_path / "elsewhere")
    os.mkfifo(path) if trap == "fifo" else path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableTableError, match="not a regular file"):
        tables.diff(tmp_path, *sides)


def test_metadata_that_is_none(tmp_path: Path) -> None:

    for content in ("", "[]", "{}", '{"format-version": 2}'):
        broken = tmp_path / "broken.json"
        broken.write_text(content)
        with pytest.raises(UnreadableTableError):
            tables.diff(tmp_path, None, SideRef(f"file://{broken}", None))
    with pytest.raises(UnreadableTableError, match="cannot be read"):
        tables.diff(tmp_path, None, SideRef(f"file://{tmp_path}/nothing.json", None))


def test_counts_are_there_before_the_rows(tmp_path: Path) -> None:
    _, *sides = two_versions(tmp_path, keyed(), [{"k": 1}], [{"k": 2}])
    folder = tables.diff(tmp_path, *sides, key=["k"])["folder"]
    progress = json.loads((folder / "progress.json").read_text())
    assert progress["phase"] == "ready"
    assert progress["summary"]["inserted"] == 1
    assert {path.name for path in folder.iterdir()} == {
        "first",
        "rows.parquet",
        "schema.json",
        "statistics.json",
        "summary.json",
        "progress.json",
    }


def first_and_whole(tmp_path: Path) -> tuple[Path, list[dict[str, Any]], list[dict[str, Any]]]:
    _, *sides = two_versions(tmp_path, keyed(), [], [{"k": n} for n in range(300, 0, -1)])
    folder = tables.diff(tmp_path, *sides, key=["k"])["folder"]
    first, whole = (pq.read_table(each / "rows.parquet").to_pylist() for each in (folder / "first", folder))
    summary = json.loads((folder / "first" / "summary.json").read_text())
    assert (summary["inserted"], summary["stored_rows"]) == (300, len(first))
    return folder, first, whole


def test_the_first_rows_by_key_are_there_before_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.engine.write.changed_rows._FEW_VALUES", 100)
    folder, first, whole = first_and_whole(tmp_path)
    assert first == whole[:200]
    assert [row["n"] for row in first] == [row["a0"] for row in first] == list(range(1, 201))
    written = [
        (each / name).stat().st_mtime_ns
        for each, name in ((folder / "first", "summary.json"), (folder, "rows.parquet"))
    ]
    assert written == sorted(written)


def test_few_rows_are_all_among_the_first_and_written_once(tmp_path: Path) -> None:
    folder, first, whole = first_and_whole(tmp_path)
    assert first == whole
    assert (folder / "rows.parquet").samefile(folder / "first" / "rows.parquet")


def test_statistics_of_both_ends(tmp_path: Path) -> None:
    schema = keyed(field(2, "v", DoubleType()), field(3, "t", StringType()), field(4, "d", DateType()))
    before = [{"k": n, "v": float(n), "t": "abc"[n % 3], "d": dt.date(2020, 1, 1 + n)} for n in range(9)]
    after = [*before[:-1], {"k": 9, "v": NAN, "t": None, "d": None}]
    _, *sides = two_versions(tmp_path, schema, before, after)
    folder = tables.diff(tmp_path, *sides, key=["k"])["folder"]
    found = json.loads((folder / "statistics.json").read_text())
    _, value, letter, day = found["scopes"]["table"]["columns"]
    assert (value["before"]["min"], value["before"]["max"], value["before"]["mean"]) == (0.0, 8.0, 4.0)
    assert (value["after"]["max"], value["after"]["not_finite"], value["after"]["distinct"]) == (7.0, 1, 9)
    assert sum(value["before"]["histogram"]) == 9
    assert letter["top"][0] == {"value": "a", "before": 3, "after": 3}
    assert (letter["after"]["nulls"], letter["after"]["distinct"]) == (1, 3)
    assert (day["before"]["min"], day["bins"]["kind"]) == ("2020-01-01", "time")
    assert found["scopes"]["changed"]["rows"] == {"before": 1, "after": 1}


def test_a_wide_table_is_measured_in_detail_where_it_changed(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(150)]
    schema = keyed(*(field(number + 2, name, StringType()) for number, name in enumerate(names)))
    before = {name: "x" for name in names}
    _, *sides = two_versions(tmp_path, schema, [{"k": 1, **before}], [{"k": 1, **before, "c140": "y"}])
    folder = tables.diff(tmp_path, *sides, key=["k"])["folder"]
    columns = json.loads((folder / "statistics.json").read_text())["scopes"]["table"]["columns"]
    assert columns[141]["top"]
    assert "top" not in columns[139]
    assert columns[139]["before"]["distinct"] == 1
    net = tables.diff(tmp_path, *sides)
    assert (net["inserted"], net["deleted"]) == (1, 1)


def test_long_keys_with_any_character_are_looked_up_among_untouched_rows(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, Schema(field(1, "k", StringType())))
    long = "x" * 4096
    table.append(tables.arrow_rows(table, [{"k": long + "a\0'"}, {"k": long + "b"}]))
    old = tables.snapshot_of(table)
    table.append(tables.arrow_rows(table, [{"k": long + "a\0'"}]))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    assert tables.diff(tmp_path, *sides, key=["k"])["key_trouble"]["after"]["rows"] == 2
