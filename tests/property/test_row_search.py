"""Searches of row diffs against the same searches over Python's own values, and the grammar against what was meant."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.engine.read.fields import KEEP_NAN
from webapp.core.errors import BadRequest
from webapp.datasets.rules.row_search import Term, parse_search
from webapp.datasets.rules.row_values import compare

SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
numbers = st.one_of(
    st.integers(-3, 3).map(Decimal),
    st.decimals(-4, 4, places=3, allow_nan=False),
    st.sampled_from([Decimal(2) ** 31, Decimal(2) ** 63, -(Decimal(2) ** 63) - 1, Decimal("1e30"), Decimal("-1e-30")]),
)
LONG_NUMBER = "1234567890123456789012345678.0000000001"
days = st.dates(dt.date(2019, 12, 30), dt.date(2020, 1, 3))
moments = st.one_of(
    st.datetimes(dt.datetime(2019, 12, 31), dt.datetime(2020, 1, 2)),
    st.dates(dt.date(2019, 12, 31), dt.date(2020, 1, 2)).map(lambda day: dt.datetime(day.year, day.month, day.day)),
)
texts = st.text("aAb'\", =%_é", max_size=4)


def write_number(number: Decimal) -> str:
    return f"{number:f}"


def as_decimal(value: Any) -> Decimal:
    return Decimal(value)


def same(value: Any) -> Any:
    return value


KINDS: dict[str, tuple[pa.DataType, Any, Any, Callable[[Any], str], Callable[[Any], Any]]] = {
    "INTEGER": (
        pa.int32(),
        st.one_of(st.integers(-4, 4), st.sampled_from([2**31 - 1, -(2**31)])),
        numbers,
        write_number,
        as_decimal,
    ),
    "BIGINT": (
        pa.int64(),
        st.one_of(st.integers(-4, 4), st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1])),
        numbers,
        write_number,
        as_decimal,
    ),
    "DECIMAL(4,2)": (
        pa.decimal128(4, 2),
        st.decimals(-4, 4, places=2) | st.just(Decimal("99.99")),
        numbers,
        write_number,
        same,
    ),
    "DECIMAL(38,10)": (
        pa.decimal128(38, 10),
        st.sampled_from([Decimal(LONG_NUMBER), Decimal(LONG_NUMBER[:-1] + "2"), Decimal("-0.0000000001"), Decimal(0)]),
        st.sampled_from([Decimal(LONG_NUMBER), Decimal(LONG_NUMBER + "5"), Decimal("-1e-10"), Decimal("1e-11")]),
        write_number,
        same,
    ),
    "DOUBLE": (
        pa.float64(),
        st.floats(-4, 4) | st.sampled_from([math.nan, math.inf, -math.inf, -0.0]),
        st.one_of(st.floats(-4, 4), st.sampled_from([0.0, math.inf, -math.inf])),
        lambda number: repr(number).replace("-", "\N{MINUS SIGN}", 1),
        same,
    ),
    "DATE": (pa.date32(), days, days, str, same),
    "TIMESTAMP": (pa.timestamp("us"), moments, moments, str, same),
    "TIMESTAMP WITH TIME ZONE": (
        pa.timestamp("us", tz="UTC"),
        moments.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
        moments.map(lambda moment: moment.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))),
        str,
        same,
    ),
    "TIME": (pa.time64("us"), st.times(), st.times(), str, same),
    "VARCHAR": (pa.string(), texts, texts, str, same),
}


@pytest.mark.parametrize("type_", KINDS)
def test_values_compare_as_their_types_do(type_: str, tmp_path: Path) -> None:
    kind, stored, typed, write, read = KINDS[type_]
    path = tmp_path / "rows.parquet"

    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(rows=st.lists(st.none() | stored, max_size=8), value=typed, sign=st.sampled_from([*SIGNS]))
    def check(rows: list[Any], value: Any, sign: str) -> None:
        pq.write_table(pa.table({"n": pa.array(range(len(rows)), pa.int64()), "v": pa.array(rows, kind)}), path)
        sql, parameters = compare("v", type_, sign, write(value))
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            source = f"read_parquet('{path}', {KEEP_NAN})"
            selected = connection.execute(f"SELECT n FROM {source} WHERE {sql} ORDER BY n", list(parameters)).fetchall()
        meant = [n for n, row in enumerate(rows) if row is not None and SIGNS[sign](read(row), value)]
        assert [n for (n,) in selected] == meant

    check()


@pytest.mark.parametrize("sign", SIGNS)
def test_a_date_is_its_whole_day(sign: str) -> None:
    day = dt.date(2020, 1, 1)
    moments = [dt.datetime(2019, 12, 31, 23, 59, 59, 999_999) + dt.timedelta(microseconds=n) for n in (0, 1, 2)]
    moments += [dt.datetime(2020, 1, 1, 23, 59, 59, 999_999), dt.datetime(2020, 1, 2)]
    sql, parameters = compare("v", "TIMESTAMP", sign, "2020-01-01")
    with duckdb.connect() as connection:
        selected = connection.execute(
            f"SELECT v FROM (SELECT unnest(?::TIMESTAMP[]) AS v) WHERE {sql}", [moments, *parameters]
        ).fetchall()
    assert [moment for (moment,) in selected] == [moment for moment in moments if SIGNS[sign](moment.date(), day)]


names = st.text("ab.é d,=>'\"", min_size=1, max_size=5)
quoted = st.text("aN'\", =<>~()é;\n", max_size=5)
plain = st.sampled_from(
    ["7", "-1.5", "2013-07-10", "2013-07-10 12:30:00", "UA", "AP8=", "x;y", "1e3", "2020-01-01T00:00Z"]
)
blanks = st.sampled_from(["", " ", "  "])


def quote(text: str, mark: str) -> str:
    return mark + text.replace(mark, mark * 2) + mark


@st.composite
def values(draw: Any) -> tuple[str, str]:
    """A value and one way to write it."""
    if draw(st.booleans()):
        return (text := draw(plain)), text
    text = draw(quoted)
    return text, quote(text, draw(st.sampled_from("'\"")))


@st.composite
def conditions(draw: Any) -> tuple[str, tuple[str | None, str, list[str]]]:
    """A condition as written, and what it means."""
    name, blank = draw(names), draw(blanks)
    head = quote(name, '"') + blank
    match draw(st.sampled_from(["sign", "in", "null", "bare"])):
        case "sign":
            sign = draw(st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">=", "~"]))
            value, written = draw(values())
            return f"{head}{sign}{draw(blanks)}{written}", (name, "!=" if sign == "<>" else sign, [value])
        case "in":
            several = draw(st.lists(values(), min_size=1, max_size=3))
            listed = f"{draw(blanks)},{draw(blanks)}".join(written for _, written in several)
            return f"{head} IN {blank}({listed}{blank})", (name, "in", [value for value, _ in several])
        case "null":
            negated = draw(st.booleans())
            return f"{head} is {'not ' * negated}null", (name, "!=" if negated else "=", ["null"])
    value = draw(quoted)
    return quote(value, "'"), (None, "=", [value])


def meant(term: Term) -> tuple[str | None, str, list[str]]:
    return term.column.text if term.column else None, term.operator, [value.text for value in term.values]


@settings(max_examples=200)
@given(terms=st.lists(conditions(), min_size=1, max_size=4), data=st.data())
def test_what_is_written_is_understood_as_it_was_meant(terms: list[Any], data: st.DataObject) -> None:
    text = terms[0][0]
    for written, _ in terms[1:]:
        text += data.draw(st.sampled_from([" ", ",", ", ", "\t, ", " and ", " AND "])) + written
    columns = {name for _, (name, _, _) in terms if name is not None}
    assert [meant(term) for term in parse_search(f" {text} ", columns=columns)] == [term for _, term in terms]


@settings(max_examples=300)
@given(text=st.text("a1 ,=<>!~()'\"isnulor.\n", min_size=1, max_size=20))
def test_any_text_is_read_whole_or_refused_with_its_place(text: str) -> None:
    try:
        terms = parse_search(text, columns={"a", "in", "is"})
    except BadRequest as error:
        place = int(error.detail.split("character ")[1].split(":")[0])
        assert 1 <= place <= len(text) + 1
        return
    words = [word for term in terms for word in (term.column, *term.values) if word is not None and word.text]
    signs = "".join(sign for sign in "".join(word.text for word in words) if not sign.isspace())
    assert {*signs} <= {*text}
    assert terms
