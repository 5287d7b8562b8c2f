"""Row filters and tolerances: which rows are compared, by which ends, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from jobs.engine.errors import InvalidRulesError
from jobs.engine.read.exact_filters import fit_filter
from tests.factories import engine as tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

NAN = float("nan")


def a_table(root: Path, kind: IcebergType, name: str = "n.t") -> Table:
    return tables.make_table(root, Schema(NestedField(1, "k", LongType()), NestedField(2, "v", kind)), name)


INTEGERS = [1, 2, None, -5]
FLOATS = [1.5, NAN, -0.0, None]
TEXTS = ["a", "", None, "ab"]
PRICES = [Decimal("1.10"), Decimal("-3.00"), None]
LONG_NUMBER = "1234567890123456789012345678.0000000001"
DAYS = [date(1969, 12, 31), date(2020, 1, 1), None]
UUIDS = [UUID(int=5), UUID(int=2**127), None]
TIMES = [time(10), time(23, 59, 59, 999_999), None]
MOMENT = datetime(2020, 1, 1, 10, 0, 0, 123_456)


@pytest.mark.parametrize(
    ("kind", "values", "condition", "chosen"),
    [
        (LongType(), INTEGERS, "v > 1", {1}),
        (LongType(), INTEGERS, "not (v = 2)", {0, 3}),
        (LongType(), INTEGERS, "v is null or v <= -5", {2, 3}),
        (LongType(), INTEGERS, "v < 99999999999999999999999", {0, 1, 3}),
        (LongType(), INTEGERS, "v > 1.5", {1}),
        (LongType(), INTEGERS, "v >= 1.5", {1}),
        (IntegerType(), INTEGERS, "v < 1.5", {0, 3}),
        (IntegerType(), INTEGERS, "v <= 0.5", {3}),
        (IntegerType(), INTEGERS, "v = 1.5 or v = 1.0", {0}),
        (IntegerType(), INTEGERS, "v != 1.5", {0, 1, 3}),
        (LongType(), INTEGERS, "v in (1.5, 2.0)", {1}),
        (LongType(), INTEGERS, "v not in (1.5, 2.0)", {0, 2, 3}),
        (DoubleType(), [1.5, NAN, float("inf"), None], "v > 1", {0, 2}),
        (DoubleType(), FLOATS, "v is nan", {1}),
        (DoubleType(), FLOATS, "v is not nan", {0, 2}),
        (DoubleType(), FLOATS, "v = 0", {2}),
        (DoubleType(), [0.0, NAN], "v = 0", {0}),
        (DoubleType(), [0.0, NAN], "v < 5", {0}),
        (DoubleType(), [2.0**53, 2.0**53 + 2], "v > 9007199254740993", {1}),
        (DoubleType(), [2.0**53, 0.1], "v = 9007199254740993 or v = 0.1", {1}),
        (StringType(), ["a", "", None, "it's", "ab"], "v in ('it''s', 'a')", {0, 3}),
        (StringType(), TEXTS, "v not in ('a', '')", {2, 3}),
        (StringType(), TEXTS, "v like 'a%'", {0, 3}),
        (StringType(), TEXTS, "v not like 'a%'", {1}),
        (BooleanType(), [True, False, None], "v = true", {0}),
        (DateType(), DAYS, "v >= '1970-01-01'", {1}),
        (DateType(), DAYS, "v < '2020-01-01T10:00:00'", {0, 1}),
        (DecimalType(9, 2), PRICES, "v between -3 and 1.10", {0, 1}),
        (DecimalType(9, 2), PRICES, "v > 1.1", set()),
        (DecimalType(9, 2), PRICES, "v >= 1.1 and v < 1.105", {0}),
        (DecimalType(9, 2), PRICES, "v = 1.101", set()),
        (DecimalType(38, 10), [Decimal(LONG_NUMBER), Decimal(1)], f"v >= {LONG_NUMBER}", {0}),
        (TimeType(), TIMES, "v > '10:00'", {1}),
        (TimeType(), TIMES, "v = '23:59:59.9999990'", {1}),
        (TimestampType(), [MOMENT, None], "v > '2020-01-01T10:00:00.1234555'", {0}),
        (TimestampType(), [MOMENT, None], "v < '2020-01-01T10:00:00.1234565'", {0}),
        (BinaryType(), [b"\0\xff", b"a", None], "v = '00ff'", {0}),
        (FixedType(2), [b"\0\xff", b"ab", None], "v in ('00FF', '6162')", {0, 1}),
        (UUIDType(), UUIDS, f"v = '{UUIDS[1]}'", {1}),
        (
            TimestamptzType(),
            [datetime(1969, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC), None],
            "v < '1970-01-01T00:00:00+00:00'",
            {0},
        ),
        (LongType(), [1, 2], "true", {0, 1}),
        (LongType(), [1, 2], "false", set()),
    ],
)
def test_a_filter_chooses_the_rows_that_it_says(
    tmp_path: Path, kind: IcebergType, values: list[Any], condition: str, chosen: set[int]
) -> None:
    """In a comparison and in the scan of a job."""
    table = a_table(tmp_path, kind)
    stored = [value.bytes if isinstance(value, UUID) else value for value in values]
    table.append(tables.arrow_rows(table, [{"k": number, "v": value} for number, value in enumerate(stored)]))
    if not isinstance(kind, UUIDType):  # Arrow compares none
        scan = table.scan(row_filter=fit_filter(parse(condition), table.schema()), selected_fields=("k",))
        assert set(scan.to_arrow()["k"].to_pylist()) == chosen
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
        ({"row_filter": "v = 'a'"}, "does not fit 'v', a long: 'a' is no number"),
        ({"row_filter": "v like 'a%'"}, "does not fit 'v', a long: like compares texts"),
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
