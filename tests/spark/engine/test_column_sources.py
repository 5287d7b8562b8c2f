"""What columns are made of, by the plans of a real Spark: certain, or nothing."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType

from jobs.engine.spark.plans import TableColumn, group_sources, read_sources

if TYPE_CHECKING:
    from tests.spark.engine.conftest import Shared

pytestmark = pytest.mark.spark
Sources = dict[str, dict[str, str]]
FLIGHTS = Schema(
    NestedField(1, "day", StringType(), required=False),
    NestedField(2, "carrier", StringType(), required=False),
    NestedField(3, "delay", DoubleType(), required=False),
    NestedField(4, "distance", LongType(), required=False),
    NestedField(5, "tags", ListType(6, StringType(), element_required=False), required=False),
    NestedField(7, "place", StructType(NestedField(8, "code", StringType(), required=False)), required=False),
)
AIRLINES = Schema(
    NestedField(1, "carrier", StringType(), required=False), NestedField(2, "name", StringType(), required=False)
)


def explain(frame: Any) -> dict[str, frozenset[TableColumn]]:
    """Return what the text that Spark explains says, as a job's session gets it."""
    with redirect_stdout(io.StringIO()) as text:
        frame.limit(0).explain(extended=True)
    return read_sources(text.getvalue(), frame.columns)


@pytest.fixture
def tell(shared: Shared, tmp_path: Path) -> Callable[[str], Sources]:
    """Return what the columns of a query over `flights` and `airlines` are made of, each by table."""
    tables = {
        ".".join(shared.load(tmp_path, name, schema=schema).name()): name
        for name, schema in (("flights", FLIGHTS), ("airlines", AIRLINES))
    }
    paths = {f"tributary.{table}": name for table, name in tables.items()}
    for table, name in tables.items():
        shared.session.read.table(f"tributary.{table}").createOrReplaceTempView(name)

    def tell(sql: str) -> Sources:
        sources = explain(shared.session.sql(sql))
        grouped = {column: group_sources(made_of, paths) for column, made_of in sources.items()}
        return {
            column: {name: " ".join(columns) for name, columns in made_of.items()}
            for column, made_of in grouped.items()
        }

    return tell


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT day, DELAY AS late FROM flights", {"day": {"flights": "day"}, "late": {"flights": "delay"}}),
        (
            "SELECT carrier, avg(delay) / max(distance) AS pace, count(*) AS n FROM flights WHERE day > '2013' "
            "GROUP BY carrier HAVING count(*) > 3 ORDER BY pace LIMIT 5",
            {"carrier": {"flights": "carrier"}, "pace": {"flights": "delay distance"}, "n": {}},
        ),
        (
            "SELECT f.day, a.name, f.delay + other.delay AS both FROM flights f JOIN airlines a USING (carrier) "
            "LEFT JOIN flights other ON f.day = other.day",
            {"day": {"flights": "day"}, "name": {"airlines": "name"}, "both": {"flights": "delay"}},
        ),
        (
            "SELECT carrier, coalesce(f.carrier, a.carrier) AS either FROM flights f FULL OUTER JOIN airlines a "
            "USING (carrier)",
            {
                "carrier": {"airlines": "carrier", "flights": "carrier"},
                "either": {"airlines": "carrier", "flights": "carrier"},
            },
        ),
        (
            "SELECT day AS one FROM flights UNION ALL SELECT name FROM airlines",
            {"one": {"airlines": "name", "flights": "day"}},
        ),
        (
            "SELECT day, row_number() OVER (PARTITION BY carrier ORDER BY delay) AS place FROM flights",
            {"day": {"flights": "day"}, "place": {"flights": "carrier delay"}},
        ),
        ("SELECT place.code AS code, tags[0] AS tag FROM flights", {"code": {"flights": "place"}, "tag": {"flights": "tags"}}),
        ("SELECT DISTINCT concat(day, ', (x), y') AS text FROM flights", {"text": {"flights": "day"}}),
        (
            "SELECT late.day, 7 AS seven FROM (SELECT * FROM flights WHERE delay > 10) late "
            "LEFT SEMI JOIN airlines ON late.carrier = airlines.carrier",
            {"day": {"flights": "day"}, "seven": {}},
        ),
    ],
)  # fmt: skip
def test_columns_are_made_of_what_their_expressions_name(
    tell: Callable[[str], Sources], sql: str, expected: Sources
) -> None:
    assert tell(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT day, tag FROM flights LATERAL VIEW explode(tags) AS tag",
        "SELECT day, (SELECT max(name) FROM airlines) AS name FROM flights",
        "SELECT day FROM flights WHERE carrier IN (SELECT carrier FROM airlines)",
        "SELECT day AS `the day`, delay FROM flights",
        "SELECT concat(day, 'C#') AS text FROM flights",
        "SELECT concat(day, ' [') AS text FROM flights",
        "SELECT transform(tags, tag -> concat(tag, day)) AS tags FROM flights",
        "SELECT id, day FROM range(3) JOIN flights ON true",
        "SELECT day, 'a\nb' AS text FROM flights",
        "SELECT day, day FROM flights",
        "WITH late AS (SELECT * FROM flights) SELECT day FROM late",
    ],
)
def test_a_plan_with_anything_that_is_not_known_tells_nothing(tell: Callable[[str], Sources], sql: str) -> None:
    assert tell(sql) == {}


def test_a_plan_whose_text_is_cut_tells_nothing(shared: Shared, tmp_path: Path) -> None:
    schema = Schema(*(NestedField(n + 1, f"c{n}", LongType(), required=False) for n in range(40)))
    name = ".".join(shared.load(tmp_path, "wide", schema=schema).name())
    assert explain(shared.session.read.table(f"tributary.{name}")) == {}
