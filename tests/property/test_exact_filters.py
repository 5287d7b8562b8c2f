"""Filters against the same comparisons of exact numbers, as Arrow and DuckDB are asked them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import expressions as e
from pyiceberg.expressions.literals import DecimalLiteral, LongLiteral, StringLiteral
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
)

from jobs.engine.plan.columns import pair_columns
from jobs.engine.plan.rules import filter_sql
from jobs.engine.read.exact_filters import fit_filter
from jobs.engine.read.fields import read_schema

LARGEST = [2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 10**27 + 1, 10**37]
wholes = st.integers(-3, 3) | st.sampled_from(LARGEST) | st.sampled_from([-number for number in LARGEST])
numbers = wholes.map(Decimal) | st.decimals(-3, 3, places=3) | st.sampled_from([Decimal("1e-9"), Decimal("0.105")])
KINDS: dict[str, tuple[PrimitiveType, Any]] = {
    "int": (IntegerType(), st.integers(-3, 3) | st.sampled_from([-(2**31), 2**31 - 1])),
    "long": (LongType(), st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1])),
    "decimal": (DecimalType(5, 2), st.decimals(-3, 3, places=2) | st.just(Decimal("999.99"))),
    "wide": (DecimalType(38, 9), (wholes.filter(lambda number: abs(number) < 10**29) | st.just(1)).map(Decimal)),
    "double": (DoubleType(), st.integers(-3, 3).map(float) | st.sampled_from([0.5, 2.0**53, 2.0**53 + 2, 1e300])),
    "float": (FloatType(), st.integers(-3, 3).map(float) | st.sampled_from([0.5, 2.0**24, 2.0**31, 1e30])),
}
SIGNS: dict[type[e.LiteralPredicate], Any] = {
    e.EqualTo: lambda left, right: left == right,
    e.NotEqualTo: lambda left, right: left != right,
    e.LessThan: lambda left, right: left < right,
    e.LessThanOrEqual: lambda left, right: left <= right,
    e.GreaterThan: lambda left, right: left > right,
    e.GreaterThanOrEqual: lambda left, right: left >= right,
}
MOMENTS: dict[str, tuple[PrimitiveType, int, str]] = {
    "microseconds": (TimestampType(), 10**6, ""),
    "nanoseconds": (TimestampNanoType(), 10**9, ""),
    "nanoseconds in a zone": (TimestamptzNanoType(), 10**9, "+00:00"),
}


def choose(kind: PrimitiveType, values: list[Any], condition: e.BooleanExpression) -> list[list[int]]:
    """The places that Arrow chooses, and those that DuckDB does."""
    schema = Schema(NestedField(1, "v", kind))
    rows = pa.table(
        {
            "v": pa.array(values, schema_to_pyarrow(schema, include_field_ids=False).field(0).type),
            "n": range(len(values)),
        }
    )
    bound = bind(schema, fit_filter(condition, schema), case_sensitive=True)
    by_arrow = rows.filter(expression_to_pyarrow(bound, schema))["n"].to_pylist()
    columns = read_schema(schema.model_dump())
    (pair,) = pair_columns(columns, columns)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("rows", rows.rename_columns(["b0", "n"]))
        sql = filter_sql(condition, {"v": pair}, "b")
        by_duckdb = [n for (n,) in connection.execute(f"SELECT n FROM rows WHERE {sql} ORDER BY n").fetchall()]
    return [by_arrow, by_duckdb]


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=60)
@given(data=st.data(), sign=st.sampled_from([*SIGNS]), literal=numbers)
def test_numbers_compare_exactly(
    name: str, data: st.DataObject, sign: type[e.LiteralPredicate], literal: Decimal
) -> None:
    kind, stored = KINDS[name]
    values = data.draw(st.lists(st.none() | stored, max_size=6))
    if isinstance(kind, DoubleType | FloatType):  # a fraction means the nearest value of the type
        literal = literal.to_integral_value()
    is_whole = literal == literal.to_integral_value()
    written = LongLiteral(int(literal)) if is_whole and data.draw(st.booleans()) else DecimalLiteral(literal)
    right = [
        place
        for place, value in enumerate(values)
        if value is not None and SIGNS[sign](Fraction(value), Fraction(literal))
    ]
    assert choose(kind, values, sign("v", written)) == [right, right]


@pytest.mark.parametrize("name", MOMENTS)
@settings(max_examples=40)
@given(
    steps=st.lists(st.none() | st.integers(-3, 3), max_size=6),
    sign=st.sampled_from([*SIGNS]),
    billionths=st.integers(-3_500, 3_500),
)
def test_times_compare_exactly(
    name: str, steps: list[int | None], sign: type[e.LiteralPredicate], billionths: int
) -> None:
    """A literal may be finer than the column, and before 1970."""
    kind, per_second, zone = MOMENTS[name]
    seconds, rest = divmod(billionths, 10**9)
    text = f"{'1970-01-01T00:00:00' if seconds == 0 else '1969-12-31T23:59:59'}.{rest:09}{zone}"
    right = [
        place
        for place, value in enumerate(steps)
        if value is not None and SIGNS[sign](Fraction(value, per_second), Fraction(billionths, 10**9))
    ]
    assert choose(kind, steps, sign("v", StringLiteral(text))) == [right, right]
