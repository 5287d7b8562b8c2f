"""Literals of scan filters are values of their columns' types, exactly; others are left to the reader of the rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    PrimitiveType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from webapp.catalog.rules.errors import IllegalArgument
from webapp.catalog.rules.filters import Leaf, parse_filter

LONG_NUMBER = "1234567890123456789012345678.0000000001"


def parse(kind: PrimitiveType, value: Any) -> Leaf:
    body = {"type": "gt", "term": "v", "value": value}
    parsed = parse_filter(body, schema=Schema(NestedField(1, "v", kind)), case_sensitive=True)
    assert isinstance(parsed, Leaf)
    return parsed


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        (DecimalType(38, 10), LONG_NUMBER, Decimal(LONG_NUMBER)),
        (DecimalType(38, 0), "9" * 38, Decimal("9" * 38)),
        (DecimalType(9, 2), "1.5", Decimal("1.50")),
        (DecimalType(9, 2), "1.505", None),
        (DecimalType(9, 2), "1e300", None),
        (DoubleType(), 2**53, 2.0**53),
        (DoubleType(), 2**53 + 1, None),
        (LongType(), 2**53 + 1, 2**53 + 1),
        (TimestampType(), "1970-01-01T00:00:00.000001000", 1),
        (TimestampType(), "1970-01-01T00:00:00.000001001", None),
        (TimestamptzType(), "1970-01-01T00:00:00.0000010001+00:00", None),
        (TimeType(), "00:00:00.000001001", None),
    ],
)
def test_literal_is_exact_or_left_to_the_reader(kind: PrimitiveType, value: Any, literal: Any) -> None:
    leaf = parse(kind, value)
    assert (None if leaf.predicate is None else leaf.predicate.literal.value) == literal
    if literal is None:
        assert leaf.source["value"] == value


@pytest.mark.parametrize(("kind", "value"), [(DecimalType(9, 2), "x"), (DoubleType(), True)])
def test_what_is_no_value_is_refused(kind: PrimitiveType, value: Any) -> None:
    with pytest.raises(IllegalArgument):
        parse(kind, value)
