"""Values that are easily taken for one another, and ways to write one value: one list, for every test that needs some."""

from __future__ import annotations

import datetime as dt
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
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

NAN, INF = float("nan"), float("inf")
OTHER_NAN = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
"""A NaN with other bits, which is the same value."""
UTC, PLUS_ONE = dt.UTC, dt.timezone(dt.timedelta(hours=1))
COMPOSED, DECOMPOSED = "\u00e9", "e\u0301"
"""One letter in two normal forms of Unicode, which are two values."""


@dataclass(frozen=True)
class Edge:
    """A type, and some of its values; each with all the ways in which it may be written."""

    type: IcebergType
    values: tuple[tuple[Any, ...], ...]

    @property
    def ways(self) -> list[tuple[int | None, Any]]:
        """Every way to write a value, with the number of the value; NULL is none of them."""
        return [(None, None), *((number, way) for number, ways in enumerate(self.values) for way in ways)]

    @property
    def firsts(self) -> list[Any]:
        """Every value once, NULL too, written in its first way."""
        return [None, *(ways[0] for ways in self.values)]

    @property
    def lasts(self) -> list[Any]:
        """Every value once, NULL too, written in its last way."""
        return [None, *(ways[-1] for ways in self.values)]


@dataclass(frozen=True)
class Same:
    """Several ways to write one value."""

    ways: tuple[Any, ...]


def same(*ways: Any) -> Same:
    return Same(ways)


def edge(kind: IcebergType, *values: Any) -> Edge:
    return Edge(kind, tuple(value.ways if isinstance(value, Same) else (value,) for value in values))


def _field(number: int, name: str, kind: IcebergType) -> NestedField:
    return NestedField(number, name, kind, required=False)


_PAIR = StructType(_field(90, "x", DoubleType()), _field(91, "y", StringType()))
_PAIRS = ListType(103, StructType(_field(104, "x", DoubleType()), _field(105, "y", StringType())), False)

EDGES: dict[str, Edge] = {
    "boolean": edge(BooleanType(), True, False),
    "int": edge(IntegerType(), 0, 1, -1, 2**31 - 1, -(2**31)),
    # beyond 2 to the 53rd no double tells neighbours apart
    "long": edge(LongType(), 0, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)),
    "float": edge(FloatType(), same(0.0, -0.0), NAN, INF, -INF, 0.5, 1.401298464324817e-45),
    "double": edge(
        DoubleType(),
        same(0.0, -0.0),
        same(NAN, OTHER_NAN),
        INF,
        -INF,
        5e-324,
        0.1,
        0.1 + 2**-56,
        1.7976931348623157e308,
    ),
    "decimal": edge(
        DecimalType(9, 2),
        same(Decimal(0), Decimal("-0.00")),
        same(Decimal("1.5"), Decimal("1.50")),
        Decimal("-1.50"),
        Decimal("9999999.99"),
    ),
    "wide decimal": edge(
        DecimalType(38, 10),
        same(Decimal(1), Decimal("1.0000000000")),
        Decimal("1.0000000001"),
        Decimal("9999999999999999999999999999.9999999999"),
        Decimal("-9999999999999999999999999999.9999999999"),
    ),
    # the day before the epoch, one that the Gregorian calendar left out, and the ends of what people write
    "date": edge(
        DateType(),
        *(dt.date(*day) for day in [(1969, 12, 31), (1970, 1, 1), (1582, 10, 10), (1, 1, 1), (9999, 12, 31)]),
    ),
    "timestamp": edge(
        TimestampType(),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        dt.datetime(1970, 1, 1),
        dt.datetime(1, 1, 1),
        dt.datetime(1582, 10, 10, 12),
        dt.datetime(2024, 3, 31, 2, 30),  # no such time where the clock goes forward
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    ),
    "timestamptz": edge(
        TimestamptzType(),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        same(dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(1970, 1, 1, 1, tzinfo=PLUS_ONE)),
        dt.datetime(1970, 1, 1, tzinfo=PLUS_ONE),
        dt.datetime(1, 1, 2, tzinfo=UTC),
        dt.datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC),
    ),
    "string": edge(
        StringType(),
        "",
        " ",
        "a",
        "A",
        "a ",
        "a\x00b",
        "NULL",
        COMPOSED,
        DECOMPOSED,
        "\ufb01",  # its compatibility form is "fi"
        "fi",
        "\uffee",  # in UTF-16 it sorts after the next one, in UTF-8 before
        "\U0001d11e",
        "=1+1",
        COMPOSED * 2048,
        DECOMPOSED * 1366,
        "x" * 4095 + "a",
        "x" * 4095 + "b",
    ),
    "binary": edge(
        BinaryType(), b"", b"\x00", b"\x00\x00", b"a", b"\xff\xfe", b"\xff" * 4096, b"\xff" * 4095 + b"\xfe"
    ),
    "uuid": edge(UUIDType(), UUID(int=0), UUID(int=1), UUID(int=2**127), UUID(int=2**128 - 1)),
    "struct": edge(
        _PAIR,
        {"x": None, "y": None},
        {"x": NAN, "y": ""},
        {"x": None, "y": ""},
        same({"x": 0.0, "y": "a"}, {"x": -0.0, "y": "a"}),
        {"x": INF, "y": COMPOSED},
        {"x": INF, "y": DECOMPOSED},
    ),
    "list": edge(
        ListType(92, DoubleType(), False), [], [None], [None, None], [NAN, 1.0], [1.0, NAN], same([0.0], [-0.0]), [-INF]
    ),
    "map": edge(
        MapType(93, StringType(), 94, DoubleType(), False),
        [],
        [("a", None)],
        [("", NAN)],
        same([("a", 1.0), ("b", None)], [("b", None), ("a", 1.0)]),
        same([("a", 0.0)], [("a", -0.0)]),
        [(COMPOSED, 1.0), (DECOMPOSED, 2.0)],
        [(COMPOSED, 2.0), (DECOMPOSED, 1.0)],
    ),
    "structs in lists in maps": edge(
        MapType(101, StringType(), 102, _PAIRS, False),
        [],
        [("a", None)],
        [("a", [])],
        [("a", [None])],
        [("a", [{"x": None, "y": None}])],
        same(
            [("a", [{"x": 0.0, "y": ""}]), ("b", [{"x": NAN, "y": None}])],
            [("b", [{"x": NAN, "y": None}]), ("a", [{"x": -0.0, "y": ""}])],
        ),
        [("a", [{"x": 0.0, "y": None}]), ("b", [{"x": NAN, "y": ""}])],
    ),
}

RETYPED: dict[str, tuple[IcebergType, IcebergType, list[tuple[Any, Any, bool]]]] = {
    "decimals of another scale": (
        DecimalType(9, 2),
        DecimalType(12, 4),
        [
            (Decimal("1.50"), Decimal("1.5000"), True),
            (Decimal("0.00"), Decimal("-0.0000"), True),
            (Decimal("-9999999.99"), Decimal("-9999999.9900"), True),
            (Decimal("2.50"), Decimal("2.5001"), False),
            (None, None, True),
        ],
    ),
    "decimals that no type holds both": (
        DecimalType(38, 0),
        DecimalType(38, 38),
        [
            (Decimal(0), Decimal("0E-38"), True),
            (Decimal(1), Decimal("0." + "9" * 38), False),
            (Decimal("9" * 38), Decimal("0." + "1" * 38), False),
        ],
    ),
    "a time without a zone and one with": (
        TimestampType(),
        TimestamptzType(),
        [(dt.datetime(1969, 12, 31, 23), dt.datetime(1969, 12, 31, 23, tzinfo=UTC), False), (None, None, True)],
    ),
    "a number of half the bits": (
        DoubleType(),
        FloatType(),
        [(0.5, 0.5, True), (-0.0, 0.0, True), (NAN, NAN, True), (INF, INF, True), (0.1, 0.1, False)],
    ),
    "a number and its text": (
        DoubleType(),
        StringType(),
        [
            (-0.0, "0.0", True),
            (NAN, "NaN", True),
            (INF, "Infinity", True),
            (-INF, "-Infinity", True),
            (1.5, "1.50", False),
        ],
    ),
}
"""What a column was, what it is after it was dropped and added again, and which values of both are the same in a row diff."""
