"""Scans planned by the server, asked for by a real PyIceberg and compared with what it plans itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThan, In, IsNull, LessThan, Not, NotEqualTo, Or, StartsWith
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

pytestmark = [pytest.mark.contract, pytest.mark.timeout(120)]
On = Callable[..., Any]
SERVER = {"scan-planning-mode": "server"}
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "price", DecimalType(9, 2)),
    NestedField(6, "ratio", DoubleType()),
    NestedField(7, "good", BooleanType()),
    NestedField(8, "point", StructType(NestedField(9, "x", LongType()))),
)
SPECS = {
    "unpartitioned": PartitionSpec(),
    "identity": PartitionSpec(PartitionField(7, 1000, IdentityTransform(), "good")),
    "several": PartitionSpec(
        PartitionField(3, 1000, IdentityTransform(), "day"), PartitionField(2, 1001, IdentityTransform(), "name")
    ),
}
FILTERS = [
    EqualTo("id", 3),
    NotEqualTo("name", "b2"),
    And(GreaterThan("id", 2), LessThan("id", 5)),
    Or(EqualTo("day", "2024-01-03"), IsNull("name")),
    Not(In("name", {"a0", "a1"})),
    StartsWith("name", "b"),
    GreaterThan("at", "2024-01-03T00:00:00"),
    EqualTo("good", True),
    LessThan("price", "2.50"),
    GreaterThan("ratio", 0.35),
    EqualTo("point.x", 2),
    Not(And(EqualTo("good", True), Or(IsNull("day"), LessThan("id", 100)))),
]


def rows(start: int, count: int, *, nulls: bool = True) -> pa.Table:
    numbers = range(start, start + count)
    made = [
        {
            "id": number,
            "name": None if nulls and number == 5 else f"{'ab'[number % 2]}{number}",
            "day": None if nulls and number == 4 else date(2024, 1, 1 + number % 5),
            "at": datetime(2024, 1, 1 + number % 5, number % 24),
            "price": Decimal(number) + Decimal("0.25"),
            "ratio": number / 10,
            "good": None if nulls and number == 1 else number % 3 == 0,
            "point": {"x": number},
        }
        for number in numbers
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA.as_arrow())


def files(scan: Any) -> set[tuple[str, str]]:
    return {
        (task.file.file_path, ",".join(sorted(delete.file_path for delete in task.delete_files)))
        for task in scan.plan_files()
    }


def content(scan: Any) -> list[dict[str, Any]]:
    return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_the_same_files_and_rows_as_the_client_finds(on: On, namespace: str, spec: PartitionSpec) -> None:
    table = on().create_table(f"{namespace}.t", SCHEMA, partition_spec=spec)
    # PyIceberg 0.12 refuses planned files whose partition has a null.
    for start in (0, 3, 6):
        table.append(rows(start, 3, nulls=spec.is_unpartitioned()))
    planned = on(**SERVER).load_table(f"{namespace}.t")
    assert files(planned.scan()) == files(table.scan())
    assert content(planned.scan()) == content(table.scan())
    for wanted in FILTERS:
        assert files(planned.scan(row_filter=wanted)) == files(table.scan(row_filter=wanted)), wanted
        assert content(planned.scan(row_filter=wanted)) == content(table.scan(row_filter=wanted)), wanted
        assert planned.scan(row_filter=wanted).count() == table.scan(row_filter=wanted).count()
    first = table.snapshots()[0].snapshot_id
    assert content(planned.scan(snapshot_id=first)) == content(table.scan(snapshot_id=first))
