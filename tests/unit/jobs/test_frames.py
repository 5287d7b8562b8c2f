"""pandas frames of tables lose neither values nor types, there and back."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from jobs.transforms.frames import from_pandas, to_pandas

LARGE = 2**53 + 1
ID = uuid.UUID(int=7)
COLUMNS: dict[str, pa.Array] = {
    "long": pa.array([LARGE, None, -LARGE]),
    "int": pa.array([1, None, 2], pa.int32()),
    "whole": pa.array([1, 2, LARGE]),
    "nan": pa.array([float("nan"), None, 0.5]),
    "single": pa.array([float("nan"), None, 0.5], pa.float32()),
    "gaps": pa.array([0.5, None, 1e300]),
    "flag": pa.array([True, None, False]),
    "price": pa.array([Decimal("1.20"), None, Decimal("12345678901234.00")], pa.decimal128(18, 2)),
    "wide": pa.array([Decimal("9" * 38), None, Decimal(0)], pa.decimal128(38, 0)),
    "no_price": pa.nulls(3, pa.decimal128(18, 2)),
    "code": pa.array([ID.bytes, None, ID.bytes], pa.uuid()),
    "list": pa.array([[LARGE, None], None, []], pa.list_(pa.int64())),
    "part": pa.array([{"a": LARGE}, None, {"a": None}], pa.struct([("a", pa.int64())])),
    "fine": pa.array([1, None, -1], pa.timestamp("ns")),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_come_back_as_they_were(name: str) -> None:
    table = pa.table({name: COLUMNS[name]})
    back = from_pandas(to_pandas(table))[name]
    if name in {"nan", "single"}:  # NaN equals nothing
        assert back.type == table[name].type
        assert str(back.to_pylist()) == str(table[name].to_pylist())
    else:
        assert back.combine_chunks().equals(COLUMNS[name])


def test_numbers_without_gaps_stay_numpys() -> None:
    frame = to_pandas(pa.table({"n": pa.array([1, 2]), "x": pa.array([0.5, None]), "s": ["a", None]}))
    assert [str(kind) for kind in frame.dtypes] == ["int64", "float64", "object"]
    assert len(to_pandas(pa.table({"n": [1, 2]}).select([]))) == 2


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (DecimalType(18, 2), [Decimal("1.5"), None], "decimal128(18, 2)"),
        (DecimalType(18, 2), [Decimal("1.505")], "decimal128(4, 3)"),
        (DecimalType(18, 2), [None, None], "decimal128(18, 2)"),
        (DecimalType(18, 2), [], "decimal128(18, 2)"),
        (DecimalType(18, 2), [Decimal(7)], "decimal128(18, 2)"),
        (LongType(), pd.Series([1.0, None]), "int64"),
        (LongType(), pd.Series([1.5, None]), "double"),
        (LongType(), pd.Series([1.0, 2.0]), "double"),
        (LongType(), pd.Series([None, None], dtype="float64"), "int64"),
        (LongType(), ["5", "6"], "string"),
        (StringType(), pd.Series([None, None], dtype="float64"), "large_string"),
        (StringType(), [1, None], "int64"),
        (UUIDType(), [ID.bytes], "extension<arrow.uuid>"),
        (FixedType(2), [b"ab", None], "fixed_size_binary[2]"),
        (FixedType(2), [b"abc"], "binary"),
        (
            StructType(NestedField(3, "a", DecimalType(18, 2))),
            [{"a": Decimal("1.5")}],
            "struct<a: decimal128(18, 2)>",
        ),
        (
            ListType(3, DecimalType(18, 2), element_required=False),
            [[Decimal("1.5")], None],
            "large_list<element: decimal128(18, 2)>",
        ),
    ],
)
def test_objects_get_the_type_of_the_output(kind: IcebergType, values: Any, expected: str) -> None:
    """A type that would change a value, or another kind of value, is the frame's own business."""
    frame = pd.DataFrame({"v": values if isinstance(values, pd.Series) else pd.Series(values, dtype="object")})
    written = from_pandas(frame, Schema(NestedField(1, "v", kind)))
    assert str(written.schema.field("v").type) == expected
    assert [value for value in written["v"].to_pylist() if value is not None] == [
        ID if value == ID.bytes else value for value in frame["v"].tolist() if not (value is None or value != value)
    ]
