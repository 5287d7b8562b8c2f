"""Types of CSV and JSON columns against a plain oracle: a type only where every value, written back, is an equal form."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.engine.read.files import Format, open_file
from jobs.engine.read.opened import CsvFormat
from tests.factories.forks import in_child

pytestmark = pytest.mark.slow
EXAMPLES = [12, pytest.param(4_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
MISSING = ("NA", "N/A", "NULL", "null", "NaN", "nan", r"\N", "")
Text = str | None
"""A field: None is empty and has no quotes, "" is a quoted empty one."""


# --- the oracle -----------------------------------------------------------------------------------


def judge(texts: Sequence[Text], missing: Sequence[str] = MISSING) -> tuple[str, list[Any]]:
    """The type of a column of texts, and its values."""
    for kind, read in (("bool", boolean), ("int64", whole), ("double", fraction), *TIMES):
        spaces = " " if kind in {"int64", "double"} else ""
        is_missing = [text is None or (text.strip(" ") if spaces else text) in missing for text in texts]
        present = [
            text for text, is_left_out in zip(texts, is_missing, strict=True) if text is not None and not is_left_out
        ]
        values = [read(text) for text in present]
        if present and None not in values and (kind != "double" or are_fractions(present)):
            left = iter(values)
            return kind, [None if is_left_out else next(left) for is_left_out in is_missing]
    return "string", list(texts)


def boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def whole(text: str) -> int | None:
    digits = text.strip(" ")
    if not re.fullmatch("-?[0-9]+", digits) or str(int(digits)) != digits:
        return None
    return int(digits) if -(2**63) <= int(digits) < 2**63 else None


def fraction(text: str) -> float | None:
    digits = text.strip(" ")
    if digits in ("inf", "-inf", "Infinity", "-Infinity"):
        return float(digits)
    if not re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", digits):
        return None
    value = float(digits)
    return value if abs(value) != float("inf") and Decimal(repr(value)) == Decimal(digits) else None


def are_fractions(texts: Sequence[str]) -> bool:
    """Whether numbers are meant: some are finite, one has a point, and no two texts are one number."""
    spelled = [text.strip(" ") for text in texts]
    finite = [text for text in spelled if "i" not in text.lower()]
    points = [place for place, text in enumerate(spelled) if "." in text]
    exponents = [place for place, text in enumerate(spelled) if "e" in text.lower()]
    if not finite or not (points or len(finite) < len(spelled)):
        return False
    if any(set(points) <= {place} for place in exponents):
        return False
    return len({float(text) + 0.0 for text in spelled}) == len(set(spelled))


def day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) else None
    except ValueError:
        return None


def moment(text: str, offset: str = "") -> datetime | None:
    pattern = rf"(\d{{4}})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{{1,6}})0*)?)?{offset}"
    found = re.fullmatch(pattern, text, re.ASCII)
    if not found:
        return None
    try:
        return datetime(*map(int, (group or "0" for group in found.groups()[:6])), int((found[7] or "").ljust(6, "0")))  # type: ignore[misc, arg-type]
    except ValueError:
        return None


def instant(text: str) -> datetime | None:
    found = re.search(r"(Z|([+-])(\d\d)(?::?(\d\d))?)$", text, re.ASCII)
    local = moment(text, re.escape(found[0])) if found else None
    if not found or local is None or int(found[3] or 0) > 15 or int(found[4] or 0) > 59:
        return None
    minutes = int(found[3] or 0) * 60 + int(found[4] or 0)
    try:
        return local.replace(tzinfo=timezone(timedelta(minutes=-minutes if found[2] == "-" else minutes))).astimezone(
            UTC
        )
    except OverflowError:
        return None


TIMES = (("date32[day]", day), ("timestamp[us]", moment), ("timestamp[us, tz=UTC]", instant))


# --- odd texts ------------------------------------------------------------------------------------

digits = st.text("0123456789", min_size=1, max_size=4)
whole_numbers = st.integers(-30, 30).map(str) | st.integers(-(2**65), 2**65).map(str) | digits
fractions = (
    st.floats(allow_nan=False).map(repr)
    | st.floats(-100, 100).map(lambda value: f"{value:.2f}")
    | st.tuples(whole_numbers, digits).map(".".join)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str)
)
signed = st.tuples(st.sampled_from(["", "", "-", "+", "--"]), whole_numbers | fractions).map("".join)
exponents = st.tuples(
    whole_numbers | fractions, st.sampled_from("eE"), st.sampled_from(["", "-", "+"]), st.integers(0, 400).map(str)
).map("".join)
odd_numbers = st.sampled_from([
    "+4915112345678", "12E5", "1e400", "1e-400", "1.", ".5", "-.5", "0x10", "1_000", "1,000", "١٢", "½", "00", "-0", "-0.0",
    "0.0", "0", "1.1", "1.10", "1", "1.0", "1e3", "1000.0", "1234567890123456.78", "9007199254740993", "9007199254740992.0",
    "0.1", "0.10000000000000001", "0.30000000000000004", "123456789012345678901234567890", "5e-324", "1.7976931348623157e308",
    "1.7976931348623159e308", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "NaN0", "inf",
    "Infinity", "-inf", "INF", "+inf", "1e5", "1E5", "2.5",
])  # fmt: skip
spaced = st.tuples(st.sampled_from(["", " ", "  ", "\t"]), signed, st.sampled_from(["", " ", "\u00a0"])).map("".join)
days = st.dates().map(str) | st.sampled_from([
    "2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "10-11-12", "2024-1-2", "2024/01/02",
    "20240102", "01-31-2024", "infinity", "-infinity", "epoch", "today", " 2024-01-02",
])  # fmt: skip
clocks = st.sampled_from([
    "00:00", "09:05", "9:05", "23:59:59", "24:00:00", "10:00:60", "10:00:00.5", "10:00:00.50", "10:00:00.123456",
    "10:00:00.123456789", "10:00:00.123456000", "10:00:00.0", "10", "25:00",
])  # fmt: skip
offsets = st.sampled_from(
    ["Z", "+00:00", "-00:00", "+0000", "+00", "+02:00", "-0530", "+15:59", "+16:00", "z", " UTC", " +02:00"]
)
moments = st.tuples(days, st.sampled_from([" ", "T", "t", "  "]), clocks, st.just("") | offsets).map("".join)
names = st.sampled_from([
    "Namibia", "x", "true", "FALSE", "True", "t", "yes", "0042", "2ECC8B7E-0000-4000-8000-00000000ABCD",
    "2ecc8b7e-0000-4000-8000-00000000abcd", "{}", "[1]", "None", "n/a", "-", "'", 'a "quoted" word', "two\nlines", "a,b;c",
])  # fmt: skip
missing = st.sampled_from([None, *MISSING, "na", " NA", "Null"])
KINDS = (
    whole_numbers, fractions, signed, exponents, odd_numbers, spaced, days, clocks, moments, names, missing,
    st.sampled_from(["true", "FALSE", "True", "false"]), st.tuples(st.dates().map(str), clocks).map("T".join),
    st.tuples(st.datetimes(timezones=st.just(UTC)).map(lambda at: at.isoformat(" ")[:19]), offsets).map("".join),
    st.sampled_from(["1.50", "2.25", "3.00", "1.5"]), st.sampled_from(["1", "2.5", "1e3", "7.0"]),
)  # fmt: skip
ROWS = 4
COLUMNS = 8


@st.composite
def columns(draw: st.DrawFn) -> list[list[Text]]:
    """Columns of one file, each of texts of one kind, or of two or three."""
    drawn = []
    for _ in range(COLUMNS):
        kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
        drawn.append(draw(st.lists(st.one_of(*kinds), min_size=ROWS, max_size=ROWS)))
    return drawn


def load(content: str, kind: Format, form: CsvFormat = CsvFormat()) -> pa.Table:
    with tempfile.NamedTemporaryFile(suffix=".rows") as file:
        path = Path(file.name)
        path.write_text(content, newline="")
        with open_file(path, kind, form) as source:
            return pa.Table.from_batches(list(source.batches()), schema=source.schema)


def write_field(text: Text) -> str:
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if not text or re.search('[,"\r\n]', text) else text


def compare(table: pa.Table, expected: Sequence[tuple[str, list[Any]]], texts: Sequence[Sequence[object]]) -> None:
    for column, (kind, values), written in zip(table.schema, expected, texts, strict=True):
        found = table[column.name].to_pylist()
        assert (str(column.type), found) == (kind, values), written
        if kind == "double":
            assert list(map(repr, found)) == list(map(repr, values)), written  # -0.0 equals 0.0


def check_csv(texts: list[list[Text]]) -> None:
    lines = [[f"c{number}" for number in range(COLUMNS)], *zip(*texts, strict=True)]
    content = "".join(",".join(map(write_field, line)) + "\n" for line in lines)
    compare(load(content, "csv"), list(map(judge, texts)), texts)
    chosen = CsvFormat(types={f"c{number}": "string" for number in range(COLUMNS)})
    compare(load(content, "csv", chosen), [("string", column) for column in texts], texts)


def check_json(texts: list[list[Text]]) -> None:
    """Texts of JSON are dates and times at most, at the top as within objects and lists."""
    rows = [
        {"top": dict(enumerate(row)) if not place % 2 else None, **{f"c{n}": text for n, text in enumerate(row)}}
        for place, row in enumerate(zip(*texts, strict=True))
    ]
    expected = []
    for column in texts:
        kind, values = judge(column, missing=())
        expected.append((kind, values) if kind in dict(TIMES) else ("string", column))
    table = load("".join(json.dumps(row) + "\n" for row in rows), "jsonl")
    compare(table.drop_columns(["top"]), expected, texts)
    for number, inner in enumerate(table["top"].combine_chunks().field(f"{n}") for n in range(COLUMNS)):
        half = [text for place, text in enumerate(texts[number]) if not place % 2]
        kind, values = judge(half, missing=())
        found = [value for place, value in enumerate(inner.to_pylist()) if not place % 2]
        assert (str(inner.type), found) == ((kind, values) if kind in dict(TIMES) else ("string", half)), half


def check_json_numbers(texts: list[str]) -> None:
    """A column of numbers of JSON keeps each of them: as whole numbers, else in doubles that hold all, else as text."""
    table = load("".join(f'{{"n": {text}}}\n' for text in texts), "jsonl")
    values = [json.loads(text) for text in texts]
    if all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in values):
        expected = "int64", values
    elif all(isinstance(value, int) for value in values) or None in map(fraction, texts):
        expected = (
            "string",
            [str(value) if isinstance(value, int) else text for value, text in zip(values, texts, strict=True)],
        )
    else:
        expected = "double", list(map(float, texts))
    assert (str(table.schema.field("n").type), table["n"].to_pylist()) == expected, texts


json_numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr), exponents, fractions,
    st.sampled_from(["9007199254740993", "1.5", "1e400", "-0.0", "1.10", "1234567890123456.78"]),
).filter(re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?").fullmatch)  # fmt: skip


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize(
    ("check", "drawn"),
    [
        (check_csv, columns()),
        (check_json, columns()),
        (check_json_numbers, st.lists(json_numbers, min_size=1, max_size=4)),
    ],
    ids=["csv", "json", "json numbers"],
)
def test_a_type_keeps_every_value(check: Any, drawn: st.SearchStrategy[Any], examples: int) -> None:
    sized = settings(max_examples=examples, database=None)
    in_child(lambda: sized(given(drawn)(check))())
