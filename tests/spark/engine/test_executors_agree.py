"""One table with everything in it that is hard to read, and every range of its history: both executors tell the same."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
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
)

from jobs.changelog import read_changelog
from tests.factories import engine as tables
from tests.factories.tiers import further
from tests.property import engine_oracle as oracle

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
POINT = StructType(NestedField(20, "z", IntegerType(), required=False))
SCHEMA = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "value", DoubleType()),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "raw", BinaryType()),
    NestedField(5, "points", ListType(21, POINT, element_required=False)),
    NestedField(6, "sizes", MapType(22, StringType(), 23, DoubleType(), value_required=False)),
    NestedField(7, "at", TimestamptzType()),
    NestedField(8, "local", TimestampType()),
    NestedField(9, "name", StringType()),
)
VALUES = [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 1e300]


def row(number: int | None, **more: Any) -> dict[str, Any]:
    place = (number or 0) % 100
    return {
        "id": number,
        "value": VALUES[place % len(VALUES)],
        "price": None if place % 5 == 0 else Decimal(place) / 4,
        "raw": None if place % 4 == 0 else bytes([place, 0, 255]),
        "points": [None, [], [None], [{"z": place}, {"z": None}]][place % 4],
        "sizes": [None, [], [("a", 1.0), ("b", None)], [("b", math.nan), ("a", -0.0)]][place % 4],
        "at": dt.datetime(1965, 1, 1, 1, 2, 3, place, tzinfo=dt.timezone.utc),
        "local": dt.datetime(2100, 1, 1) + dt.timedelta(microseconds=place),
        "name": ["", "e\u0301", "\u00e9", "n" * 4096, None][place % 5],
        **more,
    }


def append(table: Any, rows: list[dict[str, Any]]) -> Any:
    names = set(table.schema().column_names)
    table.append(tables.arrow_rows(table, [{key: value for key, value in one.items() if key in names} for one in rows]))
    return table


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Deletes of every kind, then columns that are widened, renamed, added and dropped."""
    table = tables.make_table(tmp_path_factory.mktemp("history"), SCHEMA)
    append(table, [row(number) for number in (*range(12), None)])
    append(table, [row(number) for number in range(20, 30)])
    second, first = [file.file_path for file in tables.data_files(table)]
    table = tables.delete_positions(table, {first: [0, 3]})
    table = tables.delete_equal(table, ["id"], [{"id": 21}, {"id": None}])
    # the same rows come back, one of them in another order of its map and with another zero
    append(table, [row(3, sizes=[("a", 0.0), ("b", math.nan)]), row(21, name="again"), row(None)])
    table = tables.delete_vectors(table, {second: [1, 5, 7]})
    with table.update_schema() as update:
        update.update_column("id", LongType())
        update.rename_column("name", "title")
        update.add_column("more", StringType())
        update.delete_column("raw")
    return append(table, [row(2**40, title="new", more="x"), row(27, title=None, more=None)])


def told(found: pa.Table) -> Counter[Any]:
    return Counter(oracle.row_of(one, found.column_names) for one in found.to_pylist())


def compare(history: Any, read_by_spark: Callable[..., pa.Table], start: int | None, **question: Any) -> int:
    """Ask both executors up to the head; return the number of changes."""
    asked = {"keys": None, **question, "start": start, "end": tables.snapshot_of(history)}
    embedded, spark = read_changelog(history, **asked), read_by_spark(history, **asked)
    assert told(spark) == told(embedded), asked
    assert spark.schema.names == embedded.schema.names
    return embedded.num_rows


@further("spark/engine/test_write_styles.py::test_the_laws_hold_of_what_several_programs_wrote")
@pytest.mark.parametrize("keys", [None, ["id"]])
def test_both_executors_tell_the_same_of_the_whole_history(
    history: Any, keys: list[str] | None, read_by_spark: Callable[..., pa.Table]
) -> None:
    first = history.metadata.snapshots[0].snapshot_id
    assert compare(history, read_by_spark, first, keys=keys) > 10


@pytest.mark.soak
@pytest.mark.parametrize(
    "question", [{}, {"keys": ["id"]}, {"keys": ["title", "id"]}, {"keys": ["id"], "images": "latest"}]
)
def test_both_executors_tell_the_same_of_every_range(
    history: Any, question: dict[str, Any], read_by_spark: Callable[..., pa.Table]
) -> None:
    starts = [None, *(snapshot.snapshot_id for snapshot in history.metadata.snapshots)]
    assert sum(compare(history, read_by_spark, start, **question) for start in starts) > 50
