"""Uploaded files: types over the whole file, broken rows by line, nothing lost."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from jobs.engine.read.files import Format, open_file, sample_file
from jobs.engine.read.opened import CsvFormat, FileError, OpenedFile
from jobs.engine.write.schemas import storable_schema
from tests.factories.forks import BOMB_S, in_child

pytestmark = pytest.mark.slow
WAY_OUT = ". Choose another type for the column (string takes every value), leave it to the file, or correct the value"
NO_TIME = (
    "column 'n' is a double, which cannot become a date: leave its type to the file, or load it as it is and change it in "
    "a transform"
)
NOTHING = Schema()


def read(path: Path, content: str | bytes, *, kind: Format = "csv", known: Schema = NOTHING) -> pa.Table:
    path.write_bytes(content.encode() if isinstance(content, str) else content)

    def work() -> pa.Table:
        with open_file(path, kind, CsvFormat(), known) as source:
            table = pa.Table.from_batches(list(source.batches()), schema=source.schema)
            assert source.rows == table.num_rows
            return table

    return in_child(work)


def refuse_bomb(path: Path, content: str | bytes, *, kind: Format) -> tuple[str, str]:
    """What is said about a bomb; it takes no more processor time than the promise allows, however busy the machine is."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)

    def work() -> tuple[str, str, float]:
        began = time.process_time()
        message, code, _ = _try_to_read(path, kind)
        return message, code, time.process_time() - began

    message, code, seconds = in_child(work)
    print(f"refused after {seconds:.2f} s of processor time")
    assert seconds < BOMB_S
    return message, code


def refuse(path: Path, content: str | bytes, *, kind: Format = "csv") -> tuple[str, str, int]:
    """What is said about a file that cannot be read."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return in_child(lambda: _try_to_read(path, kind))


def _try_to_read(path: Path, kind: Format) -> tuple[str, str, int]:
    try:
        with open_file(path, kind, CsvFormat()) as source:
            for _ in source.batches():
                pass
    except FileError as error:
        return str(error), error.code, error.line
    return "it was read", "", 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "upload"


@pytest.mark.parametrize(
    ("values", "kind", "first"),
    [
        (["1", "-2", ""], pa.int64(), 1),
        (["1", "2.5", "1e3"], pa.float64(), 1.0),
        (["1", "-inf"], pa.float64(), 1.0),
        (["true", "FALSE"], pa.bool_(), True),
        (["2013-01-02", "2013-12-31"], pa.date32(), dt.date(2013, 1, 2)),
        (["2013-01-02 10:00", "2013-01-02T10:00:05.5"], pa.timestamp("us"), dt.datetime(2013, 1, 2, 10)),
        (
            ["2013-01-02T10:00:00Z", "2013-01-02 10:00+02:00"],
            pa.timestamp("us", "UTC"),
            dt.datetime(2013, 1, 2, 10, tzinfo=dt.UTC),
        ),
        (["00123", "45"], pa.string(), "00123"),
        (["12345678901234567890", "1"], pa.string(), "12345678901234567890"),
        (["2013-02-30"], pa.string(), "2013-02-30"),
        (["1", "x"], pa.string(), "1"),
        (["", ""], pa.string(), None),
        (["NA", "5"], pa.int64(), None),
        (["NA", "Namibia"], pa.string(), "NA"),
        (["+5", "6"], pa.string(), "+5"),
        (["+4915112345678"], pa.string(), "+4915112345678"),
        (["12E5", "34E1"], pa.string(), "12E5"),
        (["1e3", "2.5"], pa.float64(), 1000.0),
        (["1.5e3"], pa.string(), "1.5e3"),
        (["1.1", "1.10"], pa.string(), "1.1"),
        (["1", "1.0"], pa.string(), "1"),
        (["1.50", "2.25"], pa.float64(), 1.5),
        (["1012", "1012.3"], pa.float64(), 1012.0),
        ([" 7", "8 "], pa.int64(), 7),
        (["1234567890123456.78"], pa.string(), "1234567890123456.78"),
        (["9007199254740993", "1.5"], pa.string(), "9007199254740993"),
        (["1e400", "1.5"], pa.string(), "1e400"),
        (["0.30000000000000004", "2.0"], pa.float64(), 0.30000000000000004),
        (["1.", ".5"], pa.string(), "1."),
        (["-0", "1"], pa.string(), "-0"),
        (["-0.0", "0.0"], pa.string(), "-0.0"),
        (["2013-01-02 10:00:00.123456789"], pa.string(), "2013-01-02 10:00:00.123456789"),
        (["2013-01-02 24:00:00"], pa.string(), "2013-01-02 24:00:00"),
        (["0000-01-01"], pa.string(), "0000-01-01"),
        (["10-11-12"], pa.string(), "10-11-12"),
        (["9:05"], pa.string(), "9:05"),
        (["NULL", "nan", "N/A", r"\N"], pa.string(), "NULL"),
        ([r"\N", '""', "2.5"], pa.float64(), None),
        (["0x10"], pa.string(), "0x10"),
        (["yes", "no"], pa.string(), "yes"),
    ],
)
def test_types_are_what_all_values_are(path: Path, values: list[str], kind: pa.DataType, first: object) -> None:
    table = read(path, "id,value\n" + "".join(f"{number},{value}\n" for number, value in enumerate(values)))
    assert table.schema.field("value").type == kind
    assert table["value"][0].as_py() == first


def test_a_late_value_decides(path: Path) -> None:
    lines = "".join(f"{number},{number}\n" for number in range(50_000))
    table = read(path, f"a,b\n{lines}1,late\n")
    assert [str(field.type) for field in table.schema] == ["int64", "string"]


def test_a_word_for_missing_counts_only_among_other_types_than_text(path: Path) -> None:
    content = 'speed,country,word\nNA,NA,NULL\n5,"NA",""\n"",N/A,\n'
    assert read(path, content).to_pylist() == [
        {"speed": None, "country": "NA", "word": "NULL"},
        {"speed": 5, "country": "NA", "word": ""},
        {"speed": None, "country": "N/A", "word": None},
    ]
    texts = read_as(path, content, CsvFormat(types={"speed": "string"}))
    assert texts["speed"].to_pylist() == ["NA", "5", ""]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('"a\nb",c\n1,2\n', [{"a\nb": 1, "c": 2}]),
        ('\ufeff"a\r\nb","c\n\nd"\r\n1,2\r\n3,4\r\n', [{"a\r\nb": 1, "c\n\nd": 2}, {"a\r\nb": 3, "c\n\nd": 4}]),
        ("sep=;\na;b\n1;2\n", [{"a": 1, "b": 2}]),
        ('\ufeffsep=|\r\n"a\r\nx"|b\r\n1|2,5\r\n', [{"a\r\nx": 1, "b": "2,5"}]),
        ("sep=\t\na;b\tc\n1\t2\n", [{"a;b": 1, "c": 2}]),
        ('"a;b;c",d\n1,2\n', [{"a;b;c": 1, "d": 2}]),
        ("\n\na,b\n1,2\n", [{"a": 1, "b": 2}]),
        ("a,b\r1,2\r3,4\r", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
    ],
)
def test_headers_of_several_lines_and_a_line_that_names_the_delimiter(
    path: Path, content: str, rows: list[dict[str, Any]]
) -> None:
    assert read(path, content).to_pylist() == rows


def test_lines_are_counted_below_such_headers(path: Path) -> None:
    assert refuse(path, 'sep=;\n"a\nb";c\n1;2\n3\n')[1:] == ("broken_row", 5)
    form = CsvFormat(types={"c": "long"})
    path.write_text('sep=;\n"a\nb";c\n"1\n2";3\n\n4;x\n')
    assert "line 7: column 'c': 'x' is not a long" in str(in_child(lambda: _explain(path, form)))


def _explain(path: Path, form: CsvFormat, table: Schema = NOTHING, kind: Format = "csv") -> str:
    try:
        with open_file(path, kind, form, table) as source:
            list(source.batches())
            return f"{source.schema.types}"
    except FileError as error:
        return str(error)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_quotes_and_line_ends(path: Path, separator: str) -> None:
    text = f'\ufeffa{separator}"b ""x"""\r\n1{separator}"two{separator} lines\r\nhere"\r\n'
    assert read(path, text).to_pylist() == [{"a": 1, 'b "x"': f"two{separator} lines\r\nhere"}]


def test_one_column_is_enough(path: Path) -> None:
    assert read(path, "a\n1\n2\n")["a"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("content", "message", "code", "line"),
    [
        ("", "the file is empty", "empty_file", 0),
        ("\n \n", "the file is empty", "empty_file", 0),
        ("a,b\n", "a header and no rows", "empty_file", 0),
        ("a,b\n1,2\n3\n4,5\n", "expected 2 values, found 1 value", "broken_row", 3),
        ("a,b\n1,2\n3,4,5\n", "expected 2 values, found 3 values", "broken_row", 3),
        ('a,b\n1,"x\ny"\n3,"open\n', "a quoted value is never closed", "broken_row", 4),
        (b"a,b\n1,2\n3,\xff\xfe\n", "not UTF-8", "broken_row", 3),
        (b"\xff\xfea\n1\n", "not UTF-8", "broken_row", 1),
        ("a,a\n1,2\n", "the header names column 'a' twice", "bad_header", 1),
        ("a,A\n1,2\n", "the header names column 'A' twice", "bad_header", 1),
        ("a,,c\n1,2,3\n", "column 2 has no name", "bad_header", 1),
        (b"PK\x03\x04\0\0\0\n", "not a CSV file", "broken_file", 1),
    ],
)
def test_a_broken_csv_is_named_by_its_line(
    path: Path, content: str | bytes, message: str, code: str, line: int
) -> None:
    said = refuse(path, content)
    assert message in said[0]
    assert said[1:] == (code, line)


def test_a_broken_row_far_down_is_found(path: Path) -> None:
    lines = "".join(f"{number},x\n" for number in range(100_000))
    assert refuse(path, f"a,b\n{lines}only one\n")[2] == 100_002


KNOWN = Schema(
    NestedField(1, "a", StringType(), required=False),
    NestedField(2, "b", DoubleType(), required=False),
    NestedField(3, "c", LongType(), required=False),
    NestedField(4, "d", IntegerType(), required=False),
)


def test_appending_reads_values_as_the_table_has_them(path: Path) -> None:
    table = read(path, "a,b,c,d,e\n007,1,1,1,1\n8,2,2,2,2\n", known=KNOWN)
    assert [str(field.type) for field in table.schema] == ["string", "double", "int64", "int32", "int64"]
    assert table["a"].to_pylist() == ["007", "8"]


TYPED = {
    "decimal": DecimalType(10, 2), "time": TimeType(), "uuid": UUIDType(), "timestamp": TimestampType(), "date": DateType(),
    "float": FloatType(), "int": IntegerType(), "double": DoubleType(), "timestamptz": TimestamptzType(),
    "string": StringType(), "boolean": BooleanType(),
}  # fmt: skip
ID = "0ecc8b7e-0000-4000-8000-00000000abcd"
FITTING: list[tuple[str, str, Any]] = [
    ("decimal", "12.5", decimal.Decimal("12.50")),
    ("decimal", "-99999999.990", decimal.Decimal("-99999999.99")),
    ("decimal", "NA", None),
    ("time", "09:05", dt.time(9, 5)),
    ("time", "23:59:59.5", dt.time(23, 59, 59, 500_000)),
    ("uuid", ID.upper(), uuid.UUID(ID)),
    ("timestamp", "2024-02-29", dt.datetime(2024, 2, 29)),
    ("timestamp", "2024-02-29T10:00", dt.datetime(2024, 2, 29, 10)),
    ("timestamptz", "2024-02-29T10:00+02:00", dt.datetime(2024, 2, 29, 8, tzinfo=dt.UTC)),
    ("float", "0.1", 0.10000000149011612),
    ("float", "16777217", 16777217.0),  # the table's column becomes a double
    ("float", "1e39", 1e39),
    ("int", "3000000000", 3_000_000_000),
    ("double", "12E5", 1_200_000.0),
    ("string", "NA", "NA"),
    ("boolean", "TRUE", True),
]
REFUSED = [
    ("decimal", "1.005"), ("decimal", "100000000"), ("decimal", "+1"), ("time", "9:05"), ("time", "24:00"), ("uuid", "x"),
    ("uuid", ID.replace("-", "")), ("timestamp", "2024-02-30"), ("timestamp", "2024-02-29T10:00Z"),
    ("timestamp", "2024-02-29 10:00:00.1234567"), ("timestamptz", "2024-02-29 10:00"), ("date", "2024-02-29 10:00"),
    ("double", "1e400"), ("double", "9007199254740993"), ("double", "007"), ("int", "2.5"), ("int", "9223372036854775808"),
    ("boolean", "yes"),
]  # fmt: skip


def typed_table(word: str) -> Schema:
    return Schema(NestedField(1, "v", TYPED[word], required=False))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_are_appended_in_the_types_of_the_table(path: Path, kind: Format) -> None:
    def work() -> list[Any]:
        found = []
        for word, text, _ in FITTING:
            path.write_text(f"v\n{text}\n" if kind == "csv" else json.dumps({"v": None if text == "NA" else text}))
            with open_file(path, kind, CsvFormat(), typed_table(word)) as source:
                table = pa.Table.from_batches(list(source.batches()), schema=source.schema)
                storable_schema(table.schema)
                found += table["v"].to_pylist()
        return found

    expected = [value for _, _, value in FITTING]
    assert in_child(work) == (expected if kind == "csv" else [None if value == "NA" else value for value in expected])


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_what_does_not_fit_the_table_is_refused_by_line_and_column(path: Path, kind: Format) -> None:
    def work() -> list[str]:
        said = []
        for word, text in REFUSED:
            path.write_text(f"v\n\n{text}\n" if kind == "csv" else f"{{}}\n\n{json.dumps({'v': text})}\n")
            said.append(_explain(path, CsvFormat(), typed_table(word), kind))
        return said

    for (word, text), said in zip(REFUSED, in_child(work), strict=True):
        assert said.startswith(f"line 3: column 'v': {text!r} is not a"), (word, said)
        assert "the type of the table's column" in said


def test_a_header_alone_is_an_empty_table_once_all_types_are_given(path: Path) -> None:
    types = {"a": "long", "b": "string"}
    assert read_as(path, "a,b\n", CsvFormat(types=types)).schema.types == [pa.int64(), pa.string()]
    empty = read_types(path.with_name("empty"), "jsonl", types, content="")
    assert (empty.num_rows, empty.schema.types) == (0, [pa.int64(), pa.string()])
    path.write_text("a,b\n")
    assert "each column is given a type" in str(in_child(lambda: _explain(path, CsvFormat(types={"a": "long"}))))


def test_what_changes_is_a_warning_with_column_and_line(path: Path, tmp_path: Path) -> None:
    path.write_text(
        "at, n ,zero\n2024-01-01 10:00Z,0.1,2024-01-01 10:00Z\n"
        "2024-01-01 10:00+02:00,0.10000000000000001,2024-01-01 10:00+00:00\n"
    )
    lines = tmp_path / "lines"
    lines.write_text('{"a": 1, "b": {"c": "2024-01-01T10:00-01:00"}, "d": 9007199254740993}\n{"a": "1", "d": 1.5}\n')

    def work() -> list[list[str]]:
        with open_file(path, "csv", CsvFormat(types={"n": "double"})) as source:
            csv = source.warnings.sentences()
        with open_file(lines, "jsonl", CsvFormat()) as source:
            return [csv, source.warnings.sentences()]

    csv, json_lines = in_child(work)
    assert csv == [
        "column 'n': the header has spaces around its name, which are left out",
        "column 'n': numbers are rounded to the chosen type. 1 value lost digits, first on line 3",
        "column 'at': times are stored in UTC. 1 value had another offset or none, first on line 3",
    ]
    assert json_lines == [
        "column 'a': the values are of several kinds, and all are kept as text",
        "column 'b': b.c: times are stored in UTC. 1 value had another offset or none",
        "column 'd': a number has more digits than a column of numbers holds, so all are kept as text",
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_pointer_of_git_lfs_is_refused(path: Path, kind: Format) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    said, code, _ = refuse(path, pointer, kind=kind)
    assert code == "lfs_pointer"
    assert "Git LFS" in said


def test_texts_of_json_stay_as_they_are(path: Path) -> None:
    row = {
        "a": "10-11-12", "b": "9:05", "c": ID.upper(), "d": "2024-01-02T10:00:00.123456789Z", "e": ["10-11-12"],
        "f": {"g": "09:05", "h": "2024-01-02"}, "i": "NULL", "j": "", "k": "00", "l": [1.10, 2],
    }  # fmt: skip
    table = read(path, json.dumps(row), kind="jsonl")
    kept = {**row, "f": {"g": "09:05", "h": dt.date(2024, 1, 2)}}
    assert table.to_pylist() == [kept]


def test_numbers_of_json_that_no_double_holds_stay_texts(path: Path) -> None:
    text = '{"a": 9007199254740993, "b": 1e400, "c": [1234567890123456.78], "d": 18446744073709551616, "e": NaN}\n{"a": 1.50}'
    table = read(path, text, kind="jsonl").to_pylist()
    assert [row["a"] for row in table] == ["9007199254740993", "1.50"]
    assert (table[0]["b"], table[0]["c"], table[0]["d"]) == ("1e400", ["1234567890123456.78"], "18446744073709551616")
    assert math.isnan(table[0]["e"])


def test_json_lines(path: Path) -> None:
    text = """{"a": 1, "b": "x", "c": {"d": 1.5}, "e": [1], "f": "2013-01-02", "g": null, "h": 1}

{"b": "y", "a": 2.5, "late": true, "h": "mixed"}
"""
    table = read(path, text, kind="jsonl")
    assert table.num_rows == 2
    assert table.to_pylist()[0] == {
        "a": 1.0,
        "b": "x",
        "c": {"d": 1.5},
        "e": [1],
        "f": dt.date(2013, 1, 2),
        "g": None,
        "h": "1",
        "late": None,
    }


@pytest.mark.parametrize(
    ("content", "message", "line"),
    [
        ("", "the file is empty", 0),
        ('{"a": 1}\n{"a": \n{"a": 3}\n', "this is not JSON", 2),
        ('{"a": 1}\n[1]\n', "expected one JSON object on each line", 2),
        ('{"a": 1}\n5\n', "expected one JSON object on each line", 2),
        (b'{"a": "\xff"}\n', "not UTF-8", 1),
        ('{"a": "x"}\n\n{"a": "\\ud800"}\n', "half of a character", 3),
        ('{"a": 1}\n{"a": ' + "[" * 500 + "]" * 500 + "}", "nested more than 100 levels", 2),
        ('{"a": 1}\n{"a": ' + "[" * 50_000, "nested more than 100 levels", 2),
    ],
)
def test_broken_json_is_named_by_its_line(path: Path, content: str | bytes, message: str, line: int) -> None:
    said = refuse(path, content, kind="jsonl")
    assert message in said[0]
    assert said[2] == line


def test_parquet(path: Path, tmp_path: Path) -> None:
    data = pa.table({"a": [1, None], "b": pa.array(["x", "y"]).dictionary_encode()})
    pq.write_table(data, tmp_path / "in.parquet")
    content = (tmp_path / "in.parquet").read_bytes()
    assert read(path, content, kind="parquet")["a"].to_pylist() == [1, None]
    assert "not a Parquet file" in refuse(path, content[:-20], kind="parquet")[0]
    assert "not a Parquet file" in refuse(path, b"PAR1 nonsense PAR1", kind="parquet")[0]
    assert refuse(path, b"", kind="parquet")[1] == "empty_file"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (",".join(f"c{n}" for n in range(100_000)) + "\n" + ",".join(["1"] * 100_000) + "\n", "csv"),
        (json.dumps({f"c{n}": 1 for n in range(100_000)}), "jsonl"),
        (json.dumps({"a": [{f"c{n}": 1 for n in range(100_000)}]}), "jsonl"),
        ("".join(json.dumps({f"c{row}_{n}": 1 for n in range(100)}) + "\n" for row in range(1_000)), "jsonl"),
        ('{"a": "x"}\n' * 600_000 + json.dumps({f"c{n}": 1 for n in range(100_000)}), "jsonl"),
        (json.dumps({"a": math.inf, **{f"c{n}": 1 for n in range(100_000)}}), "jsonl"),
    ],
    ids=["csv", "json", "json inside", "json line by line", "json far below", "json with a number that is none"],
)
def test_a_hundred_thousand_columns_are_refused_before_anything_is_made_of_them(
    path: Path, content: str, kind: Format
) -> None:
    message, code = refuse_bomb(path, content, kind=kind)
    assert code == "too_many_columns"
    assert "5,000" in message


def test_a_parquet_of_too_many_columns_is_refused(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"c{n}": [1] for n in range(5_001)}), target)
    assert refuse_bomb(path, target.read_bytes(), kind="parquet")[1] == "too_many_columns"


def test_a_parquet_bomb_is_refused_by_its_footer_or_while_it_is_decoded(path: Path, tmp_path: Path) -> None:
    honest, lying = tmp_path / "honest.parquet", tmp_path / "lying.parquet"
    texts = pa.array(["x" * 2**20, "x" * 2**16], pa.string())
    plain = pa.concat_arrays([texts.slice(0, 1)] * 300)
    pq.write_table(pa.table({"a": plain}), honest, compression="zstd", use_dictionary=False)
    column = pa.DictionaryArray.from_arrays(pa.array([1] * 640_000, pa.int32()), texts)  # 40 GB
    pq.write_table(pa.table({"a": column}), lying, compression="zstd", store_schema=False)
    for bomb in (honest, lying):
        assert bomb.stat().st_size < 4 * 2**20
        message, code = refuse_bomb(path, bomb.read_bytes(), kind="parquet")
        assert code == "decodes_to_too_much", message


@pytest.mark.parametrize("shape", ["column", "struct", "list", "map"])
def test_a_parquet_bomb_that_keeps_its_dictionaries_is_refused(path: Path, tmp_path: Path, shape: str) -> None:
    # Arrow gives the column back as it was written, references to one long text: small until the rows are written out.
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 40_000, pa.int32()), pa.array(["x" * 2**20]))  # 40 GB
    offsets = list(range(40_001))
    column = {
        "column": lambda: texts,
        "struct": lambda: pa.StructArray.from_arrays([texts], ["inner"]),
        "list": lambda: pa.ListArray.from_arrays(offsets, texts),
        "map": lambda: pa.MapArray.from_arrays(offsets, pa.array(offsets[:-1]), texts),
    }[shape]()
    pq.write_table(pa.table({"a": column}), tmp_path / "bomb.parquet", compression="zstd")
    message, code = refuse_bomb(path, (tmp_path / "bomb.parquet").read_bytes(), kind="parquet")
    assert code == "decodes_to_too_much", message


def test_a_dictionary_of_few_short_values_is_no_bomb(path: Path, tmp_path: Path) -> None:
    carriers = pa.array(["UA", None, "AA"] * 1000).dictionary_encode()
    days = pa.array([1, 2, None] * 1000, pa.int64()).dictionary_encode()
    pq.write_table(pa.table({"carrier": carriers, "day": days}), path, compression="zstd")
    with open_file(path, "parquet", CsvFormat()) as source:
        assert sum(batch.num_rows for batch in source.batches()) == 3000


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('{"id": 1, "id": 2}\n', 1),
        ('{"id": 1}\n{"id": 2, "id": 2}\n', 2),
        ('{"a": {"b": 1, "b": 2}}\n{"a": {"b": 1, "b": 2}}\n', 1),
    ],
)
def test_a_key_twice_in_one_object_is_named_by_its_line(path: Path, content: str, line: int) -> None:
    said, code, found = refuse(path, content, kind="jsonl")
    assert (code, found) == ("broken_row", line)
    assert "occurs twice in one object" in said


def read_as(path: Path, content: str, form: CsvFormat) -> pa.Table:
    """Return a CSV file read as somebody chose."""
    path.write_text(content)

    def work() -> pa.Table:
        with open_file(path, "csv", form) as source:
            return pa.Table.from_batches(list(source.batches()), schema=source.schema)

    return in_child(work)


def test_csv_is_read_as_somebody_chose(path: Path) -> None:
    form = CsvFormat(delimiter=";", has_header=False, types={"column_1": "string", "column_3": "double"})
    table = read_as(path, "1;a,b;7\n2;c;NA\n", form)
    assert table.to_pylist() == [
        {"column_1": "1", "column_2": "a,b", "column_3": 7.0},
        {"column_1": "2", "column_2": "c", "column_3": None},
    ]


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ({"n": "long"}, f"row 2: column 'n': '2.5' is not a long{WAY_OUT}"),
        ({"n": "date"}, f"row 1: column 'n': '1' is not a date{WAY_OUT}"),
        ({"m": "long"}, "there is no column 'm' to give a type: the file has n, t"),
        ({"t": "date"}, f"row 2: column 't': '2024-02-01 10:00' is not a date{WAY_OUT}"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_values_that_are_not_of_the_chosen_type_are_named(
    path: Path, types: dict[str, str], said: str, kind: Format
) -> None:
    write_rows(path, kind, pa.table({"n": [1.0, 2.5], "t": ["2024-02-01", "2024-02-01 10:00"]}))
    if kind == "parquet" and "date" in types.values():
        said = said.replace("row 1: column 'n': '1' is not a date" + WAY_OUT, NO_TIME)
    if kind != "parquet":  # a line of text, and a CSV file has a header
        shift = 1 if kind == "csv" else 0
        said = said.replace("row 1:", f"line {1 + shift}:").replace("row 2:", f"line {2 + shift}:")
    assert refuse_types(path, kind, types) == said


def write_rows(path: Path, kind: Format, rows: pa.Table) -> None:
    if kind == "parquet":
        pq.write_table(rows, path)
        return
    lines = [
        [f"{value:g}" if isinstance(value, float) else value for value in row.values()] for row in rows.to_pylist()
    ]
    if kind == "csv":
        path.write_text("\n".join(",".join(map(str, line)) for line in [rows.column_names, *lines]))
    else:
        path.write_text(
            "\n".join(json.dumps({k: int(v) if v == 1.0 else v for k, v in row.items()}) for row in rows.to_pylist())
        )


def open_typed(path: Path, kind: Format, types: dict[str, str]) -> OpenedFile:
    return open_file(path, kind, CsvFormat(types=types))


def refuse_types(path: Path, kind: Format, types: dict[str, str]) -> str:
    def work() -> str:
        try:
            with open_typed(path, kind, types) as source:
                list(source.batches())
        except FileError as error:
            assert error.code == "type"
            return str(error)
        return "it was read"

    return str(in_child(work))


def read_types(path: Path, kind: Format, types: dict[str, str], *, content: str | None = None) -> pa.Table:
    if content is not None:
        path.write_text(content)

    def work() -> pa.Table:
        with open_typed(path, kind, types) as source:
            return pa.Table.from_batches(list(source.batches()), schema=source.schema)

    return in_child(work)


def test_json_lines_are_read_as_somebody_chose(path: Path) -> None:
    """From what stands in the file, not from what was made of it: digits and the spelling of dates stay."""
    path.write_text(
        '{"code": 12345678901234567890123, "day": "01-31-2024", "n": "7", "x": {"y": 1}, "rest": 1}\n'
        '\n{"day": "02-01-2024", "n": null, "rest": 2}\n'
    )
    types = {"code": "string", "day": "string", "n": "long", "x": "string"}
    table = read_types(path, "jsonl", types)
    assert table.to_pylist() == [
        {"code": "12345678901234567890123", "day": "01-31-2024", "n": 7, "x": '{"y":1}', "rest": 1},
        {"code": None, "day": "02-01-2024", "n": None, "x": None, "rest": 2},
    ]
    assert table.schema.field("n").type == pa.int64()
    assert read_types(path, "jsonl", {"rest": "double", **types})["rest"].to_pylist() == [1.0, 2.0]
    alone = read_types(path, "jsonl", {"rest": "string"})
    assert alone["rest"].to_pylist() == ["1", "2"]


def test_parquet_is_cast_where_nothing_is_lost(path: Path) -> None:
    rows = pa.table(
        {
            "n": pa.array([1, 2, None], pa.int64()),
            "d": pa.array([0.5, float("nan"), 3.0]),
            "day": pa.array([dt.datetime(2024, 1, 2), None, dt.datetime(2024, 1, 3)], pa.timestamp("ns")),
            "text": ["1", "2", "3"],
            "whole": [1, 2, 3],
            "list": [[1], [], None],
        }
    )
    pq.write_table(rows, path)
    types = {"n": "int", "d": "float", "day": "date", "text": "long", "whole": "string"}
    table = read_types(path, "parquet", types)
    assert [str(field.type) for field in table.schema][:5] == ["int32", "float", "date32[day]", "int64", "string"]
    assert table["day"].to_pylist() == [dt.date(2024, 1, 2), None, dt.date(2024, 1, 3)]
    assert table["whole"].to_pylist() == ["1", "2", "3"]
    assert "column 'list' is a list<" in refuse_types(path, "parquet", {"list": "string"})
    pq.write_table(pa.table({"n": [*range(20_000), 2**40], "d": [0.5] * 20_000 + [0.1]}), path)
    assert refuse_types(path, "parquet", {"n": "int"}).startswith(
        "row 20,001: column 'n': '1099511627776' is not an int."
    )
    assert refuse_types(path, "parquet", {"d": "float"}).startswith("row 20,001: column 'd': '0.1' is not a float.")


def test_samples_show_the_first_rows_with_their_types(path: Path, tmp_path: Path) -> None:
    path.write_text("n|day|x\n1|2024-02-01|\n2|2024-02-02|NA\n")
    lines, parquet = tmp_path / "lines", tmp_path / "parquet"
    lines.write_text('{"n": 1, "x": {"y": "z"}}\n{"n": 2}\n')
    pq.write_table(pa.table({"n": [1, 2], "x": [None, "y" * 500]}), parquet)

    def work() -> list[Any]:
        return [
            sample_file(path, "csv", CsvFormat(), shown=1),
            sample_file(path, "csv", CsvFormat(has_header=False), shown=1),
            sample_file(lines, "jsonl", CsvFormat(), shown=1),
            sample_file(parquet, "parquet", CsvFormat(), shown=2),
        ]

    csv, headless, json_lines, columnar = in_child(work)
    assert (csv.delimiter, csv.columns) == ("|", [("n", "long"), ("day", "date"), ("x", "string")])
    assert csv.rows == [["1", "2024-02-01", None]]
    assert headless.rows == [["n", "day", "x"]]
    assert [name for name, _ in headless.columns] == ["column_1", "column_2", "column_3"]
    assert json_lines.columns[0] == ("n", "long")
    assert json_lines.rows == [["1", '{"y":"z"}']]
    assert columnar.columns == [("n", "int64"), ("x", "string")]
    assert columnar.rows[1] == ["2", "y" * 200]
