"""All cases of the embedded engine's tests again, with Spark finding the rows that differ: both must say the same, to the
last statistic. Of a case with several values all but the first are for soak, as random histories and schemas are, in
`test_diff_histories_on_spark`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
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
    TimestamptzType,
    UUIDType,
)

from tests.factories import engine as tables
from tests.spark.engine.conftest import BothExecutors
from tests.unit.engine.test_engine_embedded import *  # noqa: F403 - collected here again
from tests.unit.engine.test_engine_nested_keys import *  # noqa: F403
from tests.unit.engine.test_engine_rules import *  # noqa: F403

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
# A law over random rows, which is for soak.
del test_a_field_and_a_column_of_its_values_give_the_same_diff  # noqa: F821 - it came with the cases
NAN, INF = float("nan"), float("inf")
EVERYTHING = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "value", DoubleType()),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "raw", BinaryType()),
    NestedField(5, "points", ListType(21, StructType(NestedField(20, "z", IntegerType())), element_required=False)),
    NestedField(6, "sizes", MapType(22, StringType(), 23, DoubleType(), value_required=False)),
    NestedField(7, "at", TimestamptzType()),
    NestedField(8, "local", TimestampType()),
    NestedField(9, "name", StringType()),
    NestedField(10, "day", DateType()),
    NestedField(11, "flag", BooleanType()),
    NestedField(12, "who", UUIDType()),
)
VALUES = [None, 0.0, -0.0, NAN, INF, -INF, 1.5, 1e300]
FILTER = (
    "(value is not nan and value < 9 and value in (0.0, 1.5)) or price >= 2.50 or day < '1970-01-03' or name like 'n%' "
    "or at >= '1970-01-01T00:00:10+00:00' or (flag = true and name not in ('', 'x') and raw is null)"
)


def row(number: int | None, **more: Any) -> dict[str, Any]:
    place = (number or 0) % 100
    return {
        "id": number,
        "value": VALUES[place % len(VALUES)],
        "price": None if place % 5 == 0 else Decimal(place) / 4,
        "raw": None if place % 4 == 0 else bytes([place, 0, 255]),
        "points": [None, [], [{"z": place}], [{"z": place}, {"z": None}]][place % 4],
        "sizes": [None, [], [("a", 1.0), ("b", None)], [("b", NAN), ("a", -0.0)]][place % 4],
        "at": dt.datetime(1969, 12, 31, 23, 59, 59, 7, tzinfo=dt.UTC) + dt.timedelta(seconds=place),
        "local": dt.datetime(1969, 12, 1) + dt.timedelta(hours=place),
        "name": ["", "e\u0301", "\u00e9", "n" * 400, None][place % 5],
        "day": dt.date(1970, 1, 1) + dt.timedelta(days=place),
        "flag": [None, True, False][place % 3],
        "who": bytes(15) + bytes([place]),
        **more,
    }


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A table with everything in it that is hard to read, its deletes of every kind included; the ends of a diff."""
    table = tables.make_table(tmp_path_factory.mktemp("diffs"), EVERYTHING)
    table.append(tables.arrow_rows(table, [row(number) for number in range(40, 44)]))
    table.append(tables.arrow_rows(table, [row(number) for number in (*range(12), None)]))
    table.append(tables.arrow_rows(table, [row(number) for number in range(20, 30)]))
    old = tables.snapshot_of(table)
    second, first, _ = [file.file_path for file in tables.data_files(table)]
    table = tables.delete_positions(table, {first: [0, 3]})
    table = tables.delete_equal(table, ["id"], [{"id": 21}, {"id": None}])
    # two come back, one of them in another order of its map and with another zero; others are new
    again = [row(3, sizes=[("a", 0.0), ("b", NAN)]), row(21, name="again", value=0.75)]
    table.append(tables.arrow_rows(table, [*again, row(None), row(60), row(61, value=None)]))
    table = tables.delete_vectors(table, {second: [1, 5, 7]})
    with table.update_schema() as update:
        update.update_column("id", LongType())
        update.update_column("price", DecimalType(12, 2))
        update.rename_column("name", "title")
        update.add_column("more", StringType())
        update.delete_column("local")
    extra = row(62, title="new", more="x")
    known = set(table.schema().column_names)
    table.append(tables.arrow_rows(table, [{name: value for name, value in extra.items() if name in known}]))
    return table, old


def ends(history: Any) -> tuple[Any, Any]:
    table, old = history
    return tables.side(table, old, 0), tables.side(table, tables.snapshot_of(table), table.schema().schema_id)


@pytest.mark.parametrize(
    "question",
    [
        {"key": ["id"], "ignore": ("name",)},
        {},
        {"key": ["day"], "tolerance": {"value": {"absolute": 1.0}, "id": {"relative": 0.1}}},
    ],
)
def test_both_executors_say_the_same_of_a_hard_history(
    history: Any, tmp_path: Path, both: BothExecutors, question: dict[str, Any]
) -> None:
    found = both.diff(tmp_path, *ends(history), **question)
    assert both.by_spark == 1
    assert found["stored_rows"] > 5


def test_both_executors_choose_the_same_rows(history: Any, tmp_path: Path, both: BothExecutors) -> None:
    found = both.diff(tmp_path, *ends(history), key=["id"], row_filter=FILTER)
    assert both.by_spark == 1
    assert 3 < found["before_rows"] < 27


def test_the_other_way_round(history: Any, tmp_path: Path, both: BothExecutors) -> None:
    after, before = ends(history)
    assert both.diff(tmp_path, before, after, key=["id"])["inserted"] > 0


def test_what_is_near_is_left_out_by_spark_and_what_is_not_is_judged_here(tmp_path: Path, both: BothExecutors) -> None:
    table = tables.make_table(tmp_path, Schema(NestedField(1, "k", LongType()), NestedField(2, "v", DoubleType())))
    gaps = [0.0, 0.05, 0.1, 0.1 + 1e-17, 0.1 + 1e-15, 0.2, NAN, INF]
    table.append(tables.arrow_rows(table, [{"k": k, "v": 0.0} for k in range(len(gaps))]))
    old = tables.snapshot_of(table)
    table.overwrite(tables.arrow_rows(table, [{"k": k, "v": gap} for k, gap in enumerate(gaps)]))
    found = both.diff(
        tmp_path,
        tables.side(table, old),
        tables.side(table, tables.snapshot_of(table)),
        key=["k"],
        tolerance={"v": {"absolute": 0.1}},
    )
    assert (both.by_spark, found["updated"]) == (1, 5)


@pytest.fixture(autouse=True)
def _by_both(both: BothExecutors) -> None:
    """Every diff of the cases."""
