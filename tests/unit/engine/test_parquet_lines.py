"""Parquet files as JSON lines: every value comes back, a changed one alone is another, and what does not fit is named."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.engine.read.opened import FileError
from jobs.engine.read.parquet_lines import list_columns, make_lines, make_parquet

NAIVE = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "small": (pa.int8(), st.integers(-128, 127)),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "large": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "narrow": (pa.float32(), st.floats(width=32)),
    "wide": (pa.float64(), st.floats()),
    "money": (pa.decimal128(38, 3), st.decimals(-(10**30), 10**30, places=3)),
    "text": (pa.string(), st.text()),
    "chosen": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b", "\u2028", ""])),
    "day": (pa.date32(), st.dates()),
    "hour": (pa.time64("us"), st.times()),
    "at": (pa.timestamp("us"), NAIVE),
    "seconds": (pa.timestamp("s"), NAIVE.map(lambda at: at.replace(microsecond=0))),
    "there": (pa.timestamp("us", "America/New_York"), st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))),
    "bytes": (pa.binary(), st.binary()),
    "four": (pa.binary(4), st.binary(min_size=4, max_size=4)),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in KINDS.items()}), max_size=4)
SCHEMA = pa.schema(
    [pa.field("key", pa.int32(), nullable=False, metadata={"PARQUET:field_id": "7"})]
    + [pa.field(name, kind) for name, (kind, _) in KINDS.items()]
)


def make_file(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA, **options: Any) -> bytes:
    sink = io.BytesIO()
    keyed = [{"key": number, **row} for number, row in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(keyed, schema=schema), sink, **options)
    return sink.getvalue()


def read(content: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(content))


def columns_of(table: pa.Table) -> dict[str, list[str]]:
    """Texts, since NaN is not equal to itself."""
    return {name: [repr(value) for value in table[name].to_pylist()] for name in table.column_names}


@settings(max_examples=30)
@given(rows=ROWS)
def test_a_text_makes_the_rows_that_it_came_from(rows: list[dict[str, Any]]) -> None:
    content = make_file(rows, compression="zstd")
    again = make_parquet(make_lines(content), content)
    assert columns_of(read(again)) == columns_of(read(content))
    assert read(again).schema.equals(read(content).schema, check_metadata=True)
    if rows:
        assert pq.ParquetFile(io.BytesIO(again)).metadata.row_group(0).column(0).compression == "ZSTD"


@settings(max_examples=30)
@given(before=ROWS, after=ROWS)
def test_a_text_of_other_rows_makes_those(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    content = make_parquet(make_lines(make_file(after)), make_file(before))
    assert columns_of(read(content)) == columns_of(read(make_file(after)))


def test_a_missing_member_and_an_empty_line_are_no_value() -> None:
    content = make_file([])
    table = read(make_parquet('\n{"key": 1, "text": "a"}\n\n{"key": 2}', content))
    assert table["key"].to_pylist() == [1, 2]
    assert table["text"].to_pylist() == ["a", None]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"key": 1.5}', "column 'key' takes a whole number (int32), not 1.5"),
        ('{"key": true}', "column 'key' takes a whole number (int32), not true"),
        ('{"key": 2147483648}', "column 'key' takes a whole number (int32), not 2147483648"),
        ('{"text": "a"}', "column 'key' has to have a value"),
        ('{"key": 1, "text": 3}', "column 'text' takes a text (string), not 3"),
        ('{"key": 1, "money": 1.2345}', "column 'money' takes a decimal number (decimal128(38, 3)), not 1.2345"),
        ('{"key": 1, "day": "2026-13-01"}', "column 'day' takes a date (date32[day]), not \"2026-13-01\""),
        ('{"key": 1, "hour": "25:00"}', "column 'hour' takes a time of day (time64[us]), not \"25:00\""),
        ('{"key": 1, "at": "soon"}', "column 'at' takes a date with a time (timestamp[us]), not \"soon\""),
        ('{"key": 1, "four": "YQ=="}', "column 'four' takes bytes in base64 (fixed_size_binary[4]), not \"YQ==\""),
        ('{"key": 1, "bytes": "?"}', "column 'bytes' takes bytes in base64 (binary), not \"?\""),
        ('{"key": 1, "wide": "much"}', "column 'wide' takes a number (double), not \"much\""),
        ('{"key": 1, "wide": NaN}', 'this is not JSON: NaN is written "NaN"'),
        ('{"key": 1, "key": 2}', "this is not JSON: the key 'key' occurs twice"),
        ('{"key": 1, "other": 2}', "there is no column 'other'; the file has key, flag,"),
        ("[1]", "expected one JSON object on each line"),
        ('{"key": ', "this is not JSON: "),
        (f"{'[' * 100_000}", "this is not JSON: "),
    ],
)
def test_what_does_not_fit_is_named_with_its_line(line: str, message: str) -> None:
    with pytest.raises(FileError) as refusal:
        make_parquet(f'{{"key": 0}}\n{line}\n', make_file([]))
    assert str(refusal.value).startswith(f"line 2: {message}")


@pytest.mark.parametrize(
    ("schema", "rows", "message"),
    [
        (
            pa.schema([("tags", pa.list_(pa.string()))]),
            [],
            "column 'tags' is a list<element: string>, which has no text",
        ),
        (pa.schema([("a", pa.struct([("b", pa.int8())]))]), [], "column 'a' is a struct<b: int8>, which has no text"),
        (pa.schema([("at", pa.time64("ns"))]), [{"at": 1}], "its rows cannot be edited as text"),
        (pa.schema([("day", pa.date32())]), [{"day": 10**7}], "its rows cannot be edited as text"),
        (pa.schema([("long", pa.string())]), [{"long": "x" * 1_000_001}], "its rows as text have more than 1,000,000"),
    ],
)
def test_a_file_whose_rows_have_no_text_is_refused(schema: pa.Schema, rows: list[dict[str, Any]], message: str) -> None:
    content = make_file(rows, schema)
    with pytest.raises(FileError, match="^" + message.replace("(", r"\(")):
        make_lines(content)


def test_two_columns_of_one_name_and_what_is_no_parquet_file_are_refused() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), sink)
    with pytest.raises(FileError, match="two columns 'a'"):
        make_lines(sink.getvalue())
    with pytest.raises(FileError, match="not a Parquet file"):
        make_lines(b"PAR1 and nothing else")


def test_columns_say_whether_their_values_are_texts() -> None:
    kinds = dict(list_columns(make_file([])))
    assert {name for name, is_text in kinds.items() if not is_text} == {
        *("key", "flag", "small", "whole", "large", "narrow", "wide", "money")
    }
