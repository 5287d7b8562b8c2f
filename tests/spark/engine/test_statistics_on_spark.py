"""Statistics of values that are hard to count, by both executors, to the last digit."""

from __future__ import annotations

import datetime as dt
import json
import random
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
    FixedType,
    FloatType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from jobs.engine.measure import measured, statistics
from jobs.engine.spark import statistics as spark_statistics
from tests.factories import engine as tables
from tests.factories.tiers import further
from tests.spark.engine.conftest import BothExecutors

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
NAN, INF, TINY = float("nan"), float("inf"), 5e-324
LEAST = -(2**63)
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "skewed", DoubleType()),
    NestedField(3, "tiny", DoubleType()),
    NestedField(4, "endless", DoubleType()),
    NestedField(5, "nowhere", DoubleType()),
    NestedField(6, "single", FloatType()),
    NestedField(7, "zeros", DoubleType()),
    NestedField(8, "whole", LongType()),
    NestedField(9, "money", DecimalType(18, 2)),
    NestedField(10, "long", DecimalType(38, 10)),
    NestedField(11, "small", DecimalType(9, 9)),
    NestedField(12, "day", DateType()),
    NestedField(13, "local", TimestampType()),
    NestedField(14, "at", TimestamptzType()),
    NestedField(15, "raw", BinaryType()),
    NestedField(16, "code", FixedType(3)),
    NestedField(17, "flag", BooleanType()),
    NestedField(18, "name", StringType()),
    NestedField(19, "nothing", StringType()),
    NestedField(20, "place", StructType(NestedField(21, "x", DoubleType()))),
)
LATER = Schema(*SCHEMA.fields[:18], NestedField(30, "more", DoubleType()), *SCHEMA.fields[19:])


def row(number: int) -> dict[str, Any]:
    chance = random.Random(number)
    odd = number % 7 == 0
    return {
        "id": number,
        "skewed": chance.choice([None, 0.1, -0.0, 0.0, chance.lognormvariate(0, 9), -chance.random()]),
        "tiny": TINY * (number % 3),
        "endless": chance.choice([1.7e308, -1.7e308, NAN, 1.0]),
        "nowhere": chance.choice([NAN, INF, -INF, None]),
        "single": chance.choice([0.1, 1e30, -INF, NAN, 16777217.0]),
        "zeros": -0.0 if number % 2 else 0.0,
        "whole": chance.choice([LEAST, 2**63 - 1, 2**53 + 1, number, None]),
        "money": Decimal(chance.randrange(-(10**18) + 1, 10**18)).scaleb(-2),
        "long": Decimal(chance.randrange(-(10**27), 10**27)).scaleb(-10) if odd else Decimal(number),
        "small": Decimal(chance.randrange(10**9)).scaleb(-9),
        "day": dt.date(1850, 1, 1) + dt.timedelta(days=chance.randrange(100_000)),
        "local": dt.datetime(1950, 1, 1) + dt.timedelta(microseconds=chance.randrange(10**15)),
        "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999_990, dt.UTC) + dt.timedelta(microseconds=number % 20),
        "raw": None if odd else bytes([number % 30, 0, 255]),
        "code": bytes([255, number % 12, 0]),
        "flag": [None, True, False][number % 3],
        "name": chance.choice(["", "e\u0301", "\u00e9", "\U0001f600", "\uffff", "n" * 4096, None]),
        "nothing": None,
        "more": number / 3,
        "place": [None, {"x": -0.0}, {"x": 0.0}, {"x": NAN}, {"x": None}][number % 5],
    }


def ends(folder: Path, before: range, after: range) -> tuple[Any, Any]:
    """Two tables with some of the rows."""
    found = []
    for name, schema, numbers in (("n.old", SCHEMA, before), ("n.new", LATER, after)):
        table = tables.make_table(folder, schema, name=name)
        names = schema.column_names
        rows = [{key: value for key, value in row(number).items() if key in names} for number in numbers]
        # several files, each of its own range
        for start in range(0, len(rows), 200):
            table.append(tables.arrow_rows(table, rows[start : start + 200]))
        found.append(tables.side(table, tables.snapshot_of(table)))
    return found[0], found[1]


def measured_columns(found: dict[str, Any]) -> dict[str, Any]:
    scopes = json.loads((found["folder"] / "statistics.json").read_text())["scopes"]
    return {column["name"]: column for column in scopes["table"]["columns"]}


def test_values_of_every_kind_are_counted_alike(tmp_path: Path, both: BothExecutors) -> None:
    found = both.diff(tmp_path, *ends(tmp_path, range(600), range(100, 640)), key=["id"])
    assert (both.by_spark, found["warnings"]) == (1, [])
    columns = measured_columns(found)
    assert columns["id"]["before"]["quantiles"] == {"p5": 29, "p25": 149, "p50": 299, "p75": 449, "p95": 569}
    assert columns["id"]["after"]["mean"] == (100 + 639) / 2
    assert columns["tiny"]["before"]["mean"] == TINY
    assert [entry["value"] for entry in columns["endless"]["top"]][-1] in ("NaN", "1.0", "1.7e+308", "-1.7e+308")
    assert columns["nowhere"]["before"]["distinct"] == 3
    assert json.dumps(columns["zeros"]["after"]["min"]) == "0.0"
    assert (columns["nothing"]["after"], columns["more"]["before"]) == (None, None)
    assert columns["place"]["before"]["distinct"] == 3


@pytest.mark.soak
def test_an_end_without_rows_and_a_window_for_every_quantile(
    tmp_path: Path, both: BothExecutors, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = ends(tmp_path, range(1500), range(1500))
    both.diff(tmp_path, before, after, row_filter="id < 0")
    both.diff(tmp_path, before, after, key=["id"], row_filter="id >= 1000 and id < 1004")
    monkeypatch.setattr(spark_statistics, "_DISTINCT_AT_ONCE", 3)
    monkeypatch.setattr(statistics, "DETAILED_COLUMNS", 2)
    both.diff(tmp_path, before, after, key=["id"])
    assert both.by_spark == 3


@further("spark/engine/test_statistics_on_spark.py::test_values_of_every_kind_are_counted_alike")
def test_columns_of_two_types_share_their_top_values(tmp_path: Path, both: BothExecutors) -> None:
    sides = []
    kinds = [(DoubleType(), [7.0, 7.5, -0.0, 0.0, NAN]), (StringType(), ["7.0", "x", "0.0", "NaN", None])]
    times = [
        (TimestampType(), [dt.datetime(1969, 1, 1, 0, 0, 0, 5)] * 5),
        (StringType(), ["1969-01-01T00:00:00.000005"] * 5),
    ]
    for (kind, values), (time, moments) in zip(kinds, times, strict=True):
        schema = Schema(NestedField(1, "k", LongType()), NestedField(2, "v", kind), NestedField(3, "t", time))
        table = tables.make_table(tmp_path, schema, name=f"n.t{len(sides)}")
        rows = zip(values, moments, strict=True)
        table.append(tables.arrow_rows(table, [{"k": k, "v": v, "t": t} for k, (v, t) in enumerate(rows)]))
        sides.append(tables.side(table, tables.snapshot_of(table)))
    found = both.diff(tmp_path, *sides, key=["k"], ignore=("v", "t"))
    assert both.by_spark == 1
    columns = measured_columns(found)
    assert columns["v"]["top"][0] == {"value": "0.0", "before": 2, "after": 1}
    assert columns["t"]["top"] == [{"value": "1969-01-01T00:00:00.000005", "before": 5, "after": 5}]


@further("spark/engine/test_statistics_on_spark.py::test_values_of_every_kind_are_counted_alike")
def test_what_spark_cannot_measure_this_process_does_and_says_so(
    tmp_path: Path, both: BothExecutors, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tables.make_table(tmp_path, Schema(NestedField(1, "id", LongType())))
    table.append(tables.arrow_rows(table, [{"id": number} for number in range(9)]))
    old = tables.snapshot_of(table)
    table.overwrite(tables.arrow_rows(table, [{"id": number} for number in range(4, 12)]))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    measured_here = both.diff(tmp_path, *sides, key=["id"])

    def fail(*_arguments: Any, **_more: Any) -> None:
        raise measured.MeasuringError("no room left")

    monkeypatch.setattr(spark_statistics.SparkMeasured, "spread", fail)
    found = both.spark(tmp_path, *sides, key=["id"])
    assert found["warnings"] == ["Spark compared the rows and could not measure them: no room left"]
    assert measured_columns(found) == measured_columns(measured_here)
