"""Row filters and tolerances: which rows are compared, by which ends, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from jobs.engine.errors import InvalidRulesError
from tests.factories import engine as tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

NAN = float("nan")


def a_table(root: Path, kind: IcebergType, name: str = "n.t") -> Table:
    return tables.make_table(root, Schema(NestedField(1, "k", LongType()), NestedField(2, "v", kind)), name)


@pytest.mark.parametrize(
    ("kind", "values", "condition"),
    [
        (LongType(), [1, 2, None, -5], "v > 1"),
        (LongType(), [1, 2, None, -5], "not (v = 2)"),
        (LongType(), [1, 2, None, -5], "v is null or v <= -5"),
        (LongType(), [1, 2, None], "v < 99999999999999999999999"),
        (DoubleType(), [1.5, NAN, float("inf"), None], "v > 1"),
        (DoubleType(), [1.5, NAN, -0.0, None], "v is nan"),
        (DoubleType(), [1.5, NAN, -0.0, None], "v is not nan"),
        (DoubleType(), [1.5, NAN, -0.0, None], "v = 0"),
        (DoubleType(), [0.0, NAN], "v = 0"),
        (DoubleType(), [0.0, NAN], "v < 5"),
        (StringType(), ["a", "", None, "it's", "ab"], "v in ('it''s', 'a')"),
        (StringType(), ["a", "", None, "ab"], "v not in ('a', '')"),
        (StringType(), ["a", "", None, "ab"], "v like 'a%'"),
        (StringType(), ["a", "", None, "ab"], "v not like 'a%'"),
        (BooleanType(), [True, False, None], "v = true"),
        (DateType(), [date(1969, 12, 31), date(2020, 1, 1), None], "v >= '1970-01-01'"),
        (DecimalType(9, 2), [Decimal("1.10"), Decimal("-3.00"), None], "v between -3 and 1.10"),
        (
            TimestamptzType(),
            [datetime(1969, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC), None],
            "v < '1970-01-01T00:00:00+00:00'",
        ),
        (LongType(), [1, 2], "true"),
        (LongType(), [1, 2], "false"),
    ],
)
def test_a_filter_chooses_the_rows_that_a_pyiceberg_scan_does(
    tmp_path: Path, kind: IcebergType, values: list[Any], condition: str
) -> None:
    table = a_table(tmp_path, kind)
    table.append(tables.arrow_rows(table, [{"k": number, "v": value} for number, value in enumerate(values)]))
    chosen = {row["k"] for row in table.scan(row_filter=condition).to_arrow().to_pylist()}
    sides = tables.side(table, None), tables.side(table, tables.snapshot_of(table))
    result = tables.diff(tmp_path, *sides, key=["k"], row_filter=condition)
    assert {row["k0"] for row in result["rows"]} == chosen
    assert (result["inserted"], result["after_rows"]) == (len(chosen), len(chosen))


def test_a_filter_holds_for_shared_files_and_rows_that_cross_it(tmp_path: Path) -> None:
    table = a_table(tmp_path, LongType())
    table.append(tables.arrow_rows(table, [{"k": k, "v": k % 2} for k in range(10)]))
    table.append(tables.arrow_rows(table, [{"k": 100, "v": 1}, {"k": 101, "v": 0}, {"k": 102, "v": 0}]))
    old = tables.snapshot_of(table)
    table.overwrite(tables.arrow_rows(table, [{"k": 100, "v": 0}, {"k": 101, "v": 1}]), overwrite_filter="k >= 100")
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    result = tables.diff(tmp_path, *sides, key=["k"], row_filter="v = 0")
    assert {(row["k0"], row["change"]) for row in result["rows"]} == {
        (100, "inserted"),
        (101, "deleted"),
        (102, "deleted"),
    }
    assert (result["unchanged"], result["before_rows"], result["after_rows"]) == (5, 7, 6)


def test_a_filter_by_an_ignored_column_of_another_field_reads_shared_files(tmp_path: Path) -> None:
    table = a_table(tmp_path, LongType())
    table.append(tables.arrow_rows(table, [{"k": 1, "v": 1}, {"k": 2, "v": 0}]))
    old = tables.snapshot_of(table)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("v")
    with table.update_schema() as update:
        update.add_column("v", LongType())
    sides = tables.side(table, old, 0), tables.side(table, old, table.schema().schema_id)
    result = tables.diff(tmp_path, *sides, key=["k"], ignore=["v"], row_filter="v = 1")
    assert (result["deleted"], result["inserted"], result["before_rows"], result["after_rows"]) == (1, 0, 1, 0)


def test_ends_without_a_common_history_compare(tmp_path: Path) -> None:
    one, other = a_table(tmp_path, LongType(), "n.one"), a_table(tmp_path, LongType(), "n.other")
    for table, values in ((one, [1, 2]), (other, [1, 3])):
        table.append(tables.arrow_rows(table, [{"k": value, "v": value} for value in values]))
    sides = tables.side(one, tables.snapshot_of(one)), tables.side(other, tables.snapshot_of(other))
    result = tables.diff(tmp_path, *sides, key=["k"])
    assert (result["deleted"], result["inserted"], result["unchanged"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("rules", "part"),
    [
        ({"row_filter": "v >"}, "cannot be read near character"),
        ({"row_filter": "w = 1"}, "neither side has that column"),
        ({"row_filter": "v = 'a'"}, "does not fit 'v', a long"),
        ({"tolerance": {"v": {"percent": 1.0}}}, "can be 'absolute', 'relative' or both"),
        ({"tolerance": {"v": {"absolute": -1.0}}}, "at least 0"),
        ({"tolerance": {"v": {"relative": NAN}}}, "at least 0"),
    ],
)
def test_rules_that_cannot_hold_are_refused(tmp_path: Path, rules: dict[str, Any], part: str) -> None:
    table = a_table(tmp_path, LongType())
    table.append(pa.table({"k": [1], "v": [1]}))
    sides = tables.side(table, None), tables.side(table, tables.snapshot_of(table))
    with pytest.raises(InvalidRulesError, match=part):
        tables.diff(tmp_path, *sides, key=["k"], **rules)
