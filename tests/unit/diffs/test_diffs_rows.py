"""Pages, searches and exports of stored diffs, over artifacts that the engine made."""

from __future__ import annotations

import base64
import csv
import datetime as dt
import io
import json
import os
import shutil
import tempfile
from array import array
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from jobs.engine.read import row_exports
from jobs.engine.read.stored_rows import StoredRows
from jobs.protocol import ExportedValue, RowExport
from tests.factories import engine as tables
from webapp.accounts.rules.sight import EVERYTHING
from webapp.comparisons.diffs import numbers, reader, rows
from webapp.comparisons.diffs.artifact import DiffColumn
from webapp.comparisons.diffs.exports import export
from webapp.comparisons.diffs.key_proposals import KeyProposal, propose_keys
from webapp.comparisons.diffs.pictures import list_values, take_picture
from webapp.comparisons.diffs.spread import read_spread
from webapp.comparisons.diffs.statistics import load_statistics
from webapp.comparisons.pages.rows import DiffPlace, read_rows
from webapp.comparisons.pages.spread import read_spread_view
from webapp.comparisons.serializers.described import SpreadSerializer, StatisticsSerializer
from webapp.core.errors import BadRequest, Conflict, Gone, NotFound

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("readers")


def field(field_id: int, name: str, kind: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


SCHEMA = Schema(
    field(1, "id", LongType()),
    field(2, "name", StringType()),
    field(3, "amount", DecimalType(9, 2)),
    field(4, "ratio", DoubleType()),
    field(5, "at", TimestamptzType()),
    field(6, "raw", BinaryType()),
    field(7, "big", LongType()),
)


def line(number: int, **values: Any) -> dict[str, Any]:
    base = {
        "id": number,
        "name": f"n{number}",
        "amount": Decimal(number) / 4,
        "ratio": number / 8,
        "at": dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC) + dt.timedelta(days=number),
        "raw": b"\x00\xff",
        "big": 2**60 + number,
    }
    return base | values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 updated (ids 0–29), 10 deleted (30–39), 10 inserted (100–109), 10 unchanged."""
    tmp_path = tmp_path_factory.mktemp("rows")
    table = tables.make_table(tmp_path, SCHEMA)
    table.append(tables.arrow_rows(table, [line(number) for number in range(50)]))
    old = tables.snapshot_of(table)
    after = [line(n, amount=Decimal(n) / 4 + Decimal("14.25")) for n in range(20)]
    after += [line(n, name=None if n == 25 else "", ratio=float("nan")) for n in range(20, 30)]
    after += [line(n) for n in (*range(40, 50), *range(100, 110))]
    table.overwrite(tables.arrow_rows(table, after))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    return tables.diff(tmp_path, *sides, key=["id"])["folder"]


@pytest.fixture
def own_folder(folder: Path, tmp_path: Path) -> Path:
    """The same, of a test that changes it or counts what is kept in it."""
    return shutil.copytree(folder, tmp_path / "own", ignore=shutil.ignore_patterns(numbers.FOLDER))


def ids(page: rows.RowPage) -> list[Any]:
    return [row.key["id"] for row in page.rows]


def test_first_page_has_values_as_the_contract_writes_them(folder: Path) -> None:
    page = rows.read_page(folder, EVERYTHING)
    assert (page.mode, page.key, page.total, page.first, page.last) == ("identifier", ("id",), 50, 1, 50)
    first = page.rows[1].as_json()
    assert first["change"] == "updated"
    assert first["key"] == {"id": 1}
    assert first["changed"] == ["amount"]
    assert first["before"] == {
        "id": 1,
        "name": "n1",
        "amount": "0.25",
        "ratio": 0.125,
        "at": "2020-01-02T12:00:00+00:00",
        "raw": "AP8=",
        "big": str(2**60 + 1),
    }
    assert page.rows[1].cells[2].delta == "+14.25"
    nan = page.rows[25]
    assert (nan.after or {})["ratio"] == "NaN"
    assert (nan.after or {})["name"] is None
    json.dumps(page.as_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("before", "after", "delta"),
    [
        ("1234567890123456789012345670.0000000001", "1234567890123456789012346560.0000000002", "+890.0000000001"),
        ("-99999999999999999999999999999999999999", "99999999999999999999999999999999999999", f"+1{'9' * 37}8"),
        ("0.00000000000000000000000000000000000001", "9999999999", "+9999999998." + "9" * 38),
        ("0.1", "0.10", "+0"),
    ],
)
def test_difference_of_long_decimals_has_all_digits(before: str, after: str, delta: str) -> None:
    column = DiffColumn(
        0, "v", "v", "decimal(38,10)", "v", "decimal(38,10)", is_key=False, is_ignored=False, is_unreadable=False
    )
    assert rows._delta(column, before, after) == delta


def test_a_side_that_does_not_exist_is_null(folder: Path) -> None:
    deleted = rows.read_page(folder, EVERYTHING, change=["deleted"]).rows[0]
    assert (deleted.as_json()["after"], deleted.key) == (None, {"id": 30})
    assert {cell.state for cell in deleted.cells} == {"deleted"}
    inserted = rows.read_page(folder, EVERYTHING, change=["inserted"]).rows[0]
    assert (inserted.as_json()["before"], inserted.key) == (None, {"id": 100})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"change": ["updated", "deleted"]},
        {"column": "amount"},
        {"sort": "-id"},
        {"sort": "name", "q": "id >= 3", "change": ["inserted", "updated"]},
    ],
)
def test_walking_all_pages_and_back_shows_each_row_once(folder: Path, options: Any) -> None:
    whole = ids(rows.read_page(folder, EVERYTHING, limit=250, **options))
    page, walked, starts = rows.read_page(folder, EVERYTHING, limit=7, **options), [], []
    while True:
        walked += ids(page)
        starts.append(page.first)
        if page.next is None:
            break
        page = rows.read_page(folder, EVERYTHING, limit=7, cursor=page.next, **options)
    assert walked == whole
    assert starts == list(range(1, len(whole) + 1, 7))
    back = ids(page)
    while page.previous is not None:
        page = rows.read_page(folder, EVERYTHING, limit=7, cursor=page.previous, **options)
        back = ids(page) + back
    assert back == whole
    assert page.first == 1


@pytest.mark.parametrize(
    ("q", "wanted"),
    [
        ("id = 7", [7]),
        ("id=7", [7]),
        ('"id" = "7"', [7]),
        ("7", [7]),
        ("name = n3", [3]),
        ("name=n3 id=3", [3]),
        ("name=n3, id=4", []),
        ('name = ""', [20, 21, 22, 23, 24, 26, 27, 28, 29]),
        ("name = null", [25]),
        ("amount = 14.25", [0]),
        ("at = 2020-01-03T12:00:00+00:00", [2]),
        ("raw = AP8= id = 5", [5]),
        ("100", [100]),
        ("7, 8", []),
        ("7 7 and 7", [7]),
        ("id in (7, 100) and name = n7", [7]),
        ("id > 107 id != 109", [108]),
        ("id >= 7.5, id < 8.5", [8]),
        ("id = 7.5", []),
        ("id < 1e30 and id > 108", [109]),
        ("amount <= 0.1", [0]),
        ("amount > 18.999 and amount < 100, id < 20", [19]),
        ("at = 2020-01-03", [2]),
        ("at > 2020-01-03 12:00 and at <= 2020-01-05T13:00:00+01:00", [3, 4]),
        ("at ~ 2020-01-03T12", [2]),
        ("name is null", [25]),
        ("name is not null, id = 25", [25]),
        ("name = 'null'", []),
        ("name in (n3, null)", [3, 25]),
        ("name ~ N10, id > 50", list(range(100, 110))),
        ("ratio = NaN, id < 22", [20, 21]),
        ("ratio > 3.3, ratio < 3.5", [27]),
        ("ratio > 3.3 and id < 30", [27, 28, 29]),
        ("raw ~ ap8, id = 5", [5]),
    ],
)
def test_search(folder: Path, q: str, wanted: list[int]) -> None:
    assert ids(rows.read_page(folder, EVERYTHING, q=q)) == wanted


@pytest.mark.parametrize(
    ("q", "place", "reason"),
    [
        ("nosuch = 5", 1, "there is no column 'nosuch'"),
        ("id = 1, Nmae = x", 9, "perhaps name is meant."),
        ("id = nonsense", 6, "id is of type long, and 'nonsense' is no number"),
        ("id = 1; DROP TABLE x", 6, "'1;' is no number"),
        ("' OR 1=1 --", 1, "the quote has no end"),
        ("UA", 1, "no part of the key has values like 'UA' (id long)"),
        ("id > null", 6, "NULL is neither less"),
        ("id 7", 3, "after the column id comes one of"),
        ("id in 7", 7, "values in parentheses"),
        ("id is 7", 7, "null or not null"),
        ("id = 7 or id = 8", 8, "column in (one, other)"),
        ("id == 7", 5, "before '='"),
        ("id =", 5, "a value after = is missing"),
        ("id = 7,", 8, "a condition is missing"),
        ("raw = a", 7, "is no Base64"),
        ("raw > AP8=", 7, "which has no order"),
        ("at = yesterday", 6, "is no time like"),
        ("x" * 2000, 1001, "at most 1,000 characters"),
    ],
)
def test_a_search_that_is_not_understood_says_where(folder: Path, q: str, place: int, reason: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        rows.read_page(folder, EVERYTHING, q=q)
    assert f"at character {place}:" in refusal.value.detail
    assert reason in refusal.value.detail
    assert refusal.value.code == "bad_search"


@pytest.mark.parametrize(
    "options",
    [
        {"change": ["changed"]},
        {"column": "nope"},
        {"sort": "nope"},
        {"q": "nope = 1"},
        {"q": "x" * 2000},
        {"cursor": "!!"},
        {"cursor": "bm90aGluZw"},
    ],
)
def test_bad_requests_are_named(folder: Path, options: Any) -> None:
    with pytest.raises(BadRequest):
        rows.read_page(folder, EVERYTHING, **options)


def test_a_cursor_belongs_to_its_request(folder: Path) -> None:
    cursor = rows.read_page(folder, EVERYTHING, limit=5).next
    with pytest.raises(BadRequest, match="another list"):
        rows.read_page(folder, EVERYTHING, limit=5, cursor=cursor, column="amount")


def test_a_page_before_one_that_began_elsewhere_ends_where_that_began(folder: Path) -> None:
    third = rows.read_page(folder, EVERYTHING, limit=3).next
    page = rows.read_page(folder, EVERYTHING, limit=10, cursor=third)
    assert ids(page) == list(range(3, 13))
    assert ids(rows.read_page(folder, EVERYTHING, limit=10, cursor=page.previous)) == [0, 1, 2]


def test_lines_that_fit_are_found_once_for_all_pages(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = []
    write = reader.write_numbers
    monkeypatch.setattr(reader, "write_numbers", lambda *args, **query: lists.append(query) or write(*args, **query))
    for _ in range(2):
        cursor = None
        for _ in range(4):
            cursor = rows.read_page(own_folder, EVERYTHING, sort="-name", q="id != 3", limit=5, cursor=cursor).next
    assert len(lists) == 1
    rows.read_page(own_folder, EVERYTHING, limit=5)
    assert len(lists) == 1


def test_only_the_newest_lists_are_kept_and_those_of_other_rows_are_not_read(own_folder: Path) -> None:
    for number in range(numbers.KEPT + 3):
        assert ids(rows.read_page(own_folder, EVERYTHING, q=f"id = {number}")) == [number]
    assert len(list((own_folder / numbers.FOLDER).iterdir())) == numbers.KEPT
    assert ids(rows.read_page(own_folder, EVERYTHING, q="id = 0")) == [0]
    os.utime(own_folder / "rows.parquet", ns=(1, 1))
    for path in (own_folder / numbers.FOLDER).iterdir():
        path.write_bytes(b"")
    assert ids(rows.read_page(own_folder, EVERYTHING, q="id = 0")) == [0]


@pytest.mark.parametrize(("q", "total"), [("", 50), ("id != 3", 49), ("id < 4", 4), ("id < 1", 1), ("id < 0", 0)])
def test_the_front_of_a_list_is_that_of_the_whole(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch, q: str, total: int
) -> None:
    monkeypatch.setattr(numbers, "FRONT_LINES", 4)
    front = rows.read_page(own_folder, EVERYTHING, sort="-name", q=q, limit=4)
    assert {path.suffix for path in (own_folder / numbers.FOLDER).iterdir()} == {".front"}
    whole = rows.read_page(own_folder, EVERYTHING, sort="-name", q=q, limit=50)
    assert {path.suffix for path in (own_folder / numbers.FOLDER).iterdir()} == {".front", ".whole"}
    assert front.total == whole.total == len(whole.rows) == total
    assert ids(front) == ids(whole)[:4]
    assert (front.next is None) == (total <= 4)


@pytest.mark.slow
def test_what_does_not_fit_into_memory_is_sorted_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, path = 600_000, tmp_path / "rows.parquet"
    text = f"printf('%06d', range * 7919 % {count}) || repeat('x', 150) || range"
    duckdb.execute(f"COPY (SELECT range + 1 AS n, {text} AS a1 FROM range({count})) TO '{path}' (ROW_GROUP_SIZE 8192)")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    listed = StoredRows(memory="96MiB").list_numbers(path, where="true", parameters=(), order="a1", first=None)
    sorted_lines = array("I", next(listed))
    assert list(tmp_path.glob("spill-*/*"))
    sorted_lines.frombytes(b"".join(listed))
    assert all((number - 1) * 7919 % count == place for place, number in enumerate(sorted_lines))
    assert len(sorted_lines) == count


@pytest.mark.soak
def test_two_million_rows_page_alike_at_every_depth(tmp_path: Path) -> None:
    count = 2_000_000
    table = tables.make_table(tmp_path, Schema(field(1, "k", LongType()), field(2, "t", StringType())))
    texts = [f"{number * 7_919 % count:07} {'x' * 100}" for number in range(count)]
    table.append(pa.table({"k": range(count), "t": texts}))
    folder = tables.diff(tmp_path, None, tables.side(table, tables.snapshot_of(table)), key=["k"])["folder"]
    cursor = rows.read_page(folder, EVERYTHING, sort="-t", limit=250).next
    assert cursor is not None
    name, _, most = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    for start in (25_000, count // 2, count - 250):
        cursor = base64.urlsafe_b64encode(json.dumps([name, start, most]).encode()).decode().rstrip("=")
        page = rows.read_page(folder, EVERYTHING, sort="-t", limit=250, cursor=cursor)
        assert (page.total, page.first, len(page.rows)) == (count, start + 1, 250)
        assert page.rows[0].after is not None
        assert page.rows[0].after["t"].startswith(f"{count - 1 - start:07} ")


def test_removed_and_damaged_artifacts(own_folder: Path) -> None:
    (own_folder / "rows.parquet").write_bytes(b"PAR1 broken")
    with pytest.raises(Conflict, match="damaged"):
        rows.read_page(own_folder, EVERYTHING)
    (own_folder / "summary.json").unlink()
    with pytest.raises(Gone):
        rows.read_page(own_folder, EVERYTHING)


def test_csv_escapes_formulas_in_text_only(tmp_path: Path) -> None:
    schema = Schema(
        field(1, "k", LongType()), field(2, "=t", StringType()), field(3, "d", DateType()), field(4, "b", BinaryType())
    )
    table = tables.make_table(tmp_path, schema)
    texts = ["=1+1", "-2", "+3", "@x", "\tx", "plain", "", None, 'quo"te,\n', "'=1"]
    same = {"d": dt.date(2020, 1, 1), "b": b"\xf8"}
    table.append(tables.arrow_rows(table, [{"k": -n, "=t": t, **same} for n, t in enumerate(texts)]))
    folder = tables.diff(tmp_path, None, tables.side(table, tables.snapshot_of(table)), key=["k"])["folder"]
    content = b"".join(export(folder, EVERYTHING, "csv")).decode()
    lines = list(csv.reader(io.StringIO(content)))
    assert lines[0] == ["change", "copies", "after.k", "after.=t", "after.d", "after.b"]
    by_key = {line[2]: line[3] for line in lines[1:]}
    assert [by_key[str(-n)] for n in range(len(texts))] == [
        "'=1+1",
        "'-2",
        "'+3",
        "'@x",
        "'\tx",
        "plain",
        "",
        "",
        'quo"te,\n',
        "''=1",
    ]
    assert {line[5] for line in lines[1:]} == {"'+A=="}
    assert ',"",' in content
    assert content.startswith("change,copies,after.k,after.=t,after.d,after.b\r\n")


def test_parquet_export_has_both_sides(folder: Path) -> None:
    content = b"".join(export(folder, EVERYTHING, "parquet"))
    found = pq.read_table(io.BytesIO(content)).to_pylist()
    assert len(found) == 50
    assert found[0]["changed"] == ["amount"]
    assert found[0]["before"]["amount"] == Decimal("0.00")
    assert next(row for row in found if row["change"] == "deleted")["after"] is None


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_export_begins_before_it_is_read_whole(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    monkeypatch.setattr(row_exports, "EXPORT_BATCH", 1)
    read = []
    batches = row_exports.read_batches

    def note(path: Path, _size: int) -> Iterator[Any]:
        for batch in batches(path, 10):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(row_exports, "read_batches", note)
    value = ExportedValue("after", "id", ("a0",), is_text=False)
    chunks = row_exports.export_rows(folder / "rows.parquet", RowExport(kind, (value,), tuple(enumerate("abcdefg"))))
    sent = next(chunks) + next(chunks)
    assert sent[:4] in (b"PAR1", b"chan")
    assert len(read) <= 2
    content = sent + b"".join(chunks)
    assert read == [10] * 5
    if kind == "parquet":
        assert pq.read_table(io.BytesIO(content)).num_rows == 50


def test_net_mode_counts_copies_and_has_no_key(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, Schema(field(1, "v", StringType())))
    table.append(tables.arrow_rows(table, [{"v": "a"}]))
    old = tables.snapshot_of(table)
    table.append(tables.arrow_rows(table, [{"v": "b"}, {"v": "b"}]))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    folder = tables.diff(tmp_path, *sides)["folder"]
    page = rows.read_page(folder, EVERYTHING)
    assert (page.mode, page.key, page.as_json()["key"]) == ("net", (), None)
    assert page.rows[0].as_json()["copies"] == 2
    assert page.summary["inserted"] == 2
    assert ids_of(rows.read_page(folder, EVERYTHING, q="B")) == [1]
    assert b"".join(export(folder, EVERYTHING, "parquet"))[:4] == b"PAR1"


def ids_of(page: rows.RowPage) -> list[int]:
    return [row.n for row in page.rows]


def test_an_empty_diff_pages_and_exports(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, Schema(field(1, "v", StringType())))
    table.append(tables.arrow_rows(table, [{"v": "a"}]))
    end = tables.side(table, tables.snapshot_of(table))
    folder = tables.diff(tmp_path, end, end, key=["v"])["folder"]
    page = rows.read_page(folder, EVERYTHING)
    assert (page.rows, page.total, page.first, page.last, page.next) == ((), 0, 0, 0, None)
    assert b"".join(export(folder, EVERYTHING, "csv")).startswith(b"change,copies")
    assert pq.read_table(io.BytesIO(b"".join(export(folder, EVERYTHING, "parquet")))).num_rows == 0
    assert load_statistics(folder, EVERYTHING).changed == ()


def test_nested_values_are_json(tmp_path: Path) -> None:
    schema = Schema(
        field(1, "k", LongType()),
        field(2, "s", StructType(field(3, "x", DoubleType()))),
        field(4, "m", MapType(5, StringType(), 6, DecimalType(5, 1), False)),
    )
    table = tables.make_table(tmp_path, schema)
    values = {"k": 1, "s": {"x": float("inf")}, "m": [("a", Decimal("1.5"))]}
    table.append(tables.arrow_rows(table, [values]))
    folder = tables.diff(tmp_path, None, tables.side(table, tables.snapshot_of(table)), key=["k"])["folder"]
    (row,) = rows.read_page(folder, EVERYTHING).rows
    assert row.after == {"k": 1, "s": {"x": "Infinity"}, "m": [["a", "1.5"]]}
    assert b"Infinity" in b"".join(export(folder, EVERYTHING, "csv"))


def test_statistics_for_pages_and_the_api(folder: Path) -> None:
    found = load_statistics(folder, EVERYTHING)
    assert (found.scope, found.rows_before, found.rows_after) == ("table", 50, 50)
    assert [column.name for column in found.changed] == ["amount", "name", "ratio"]
    amount = found.changed[0]
    assert amount.kind == "number"
    assert sum(bucket.before for bucket in amount.buckets) == 50
    moment = next(column for column in found.columns if column.name == "at")
    assert moment.kind == "time"
    assert moment.buckets[0].label.startswith("2020-01-01")
    assert moment.before is not None
    assert moment.before.quantiles["p50"].startswith("2020-01-")
    stored = next(measure for measure in found.measures if measure["name"] == "at")["before"]
    assert "T" in stored["min"]
    assert moment.before.min == stored["min"].replace("T", " ").removesuffix("+00:00").removesuffix(":00")
    body = StatisticsSerializer(found).data
    assert body["rows"] == {"before": found.rows_before, "after": found.rows_after}
    assert body["columns"][2]["match_rate"] == 0.5
    json.dumps(body, allow_nan=False)
    assert load_statistics(folder, EVERYTHING, scope="changed").rows_before == 40


@pytest.mark.parametrize(
    "options", [{}, {"sort": "-id"}, {"change": ["updated"], "q": "id >= 3"}, {"column": "amount", "sort": "name"}]
)
def test_a_row_is_found_on_its_page_of_what_was_asked(folder: Path, options: Any) -> None:
    whole = ids(rows.read_page(folder, EVERYTHING, limit=250, **options))
    page = rows.read_page(folder, EVERYTHING, limit=7, row="19", **options)
    assert page.first == whole.index(19) // 7 * 7 + 1
    assert [row.key["id"] for row in page.rows if row.n == page.sought] == [19]
    assert (
        page.previous is None
        or rows.read_page(folder, EVERYTHING, limit=7, cursor=page.previous, **options).sought is None
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"row": "4711"}, NotFound),
        ({"row": "19", "change": ["deleted"]}, NotFound),
        ({"row": "word"}, NotFound),
        ({"row": "1, 2"}, BadRequest),
        ({"like": "4711"}, NotFound),
        ({"like": "1", "alike": "colour"}, BadRequest),
    ],
)
def test_a_row_that_is_not_there_is_no_first_page(folder: Path, options: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="row|key|alike"):
        rows.read_page(folder, EVERYTHING, **options)


def test_rows_like_one_changed_in_the_same_columns(folder: Path) -> None:
    every = rows.read_page(folder, EVERYTHING, limit=250).rows
    for key in (1, 25, 30, 100):
        row = next(row for row in every if row.key["id"] == key)
        alike = [other.key["id"] for other in every if (other.change, other.changed) == (row.change, row.changed)]
        page = rows.read_page(folder, EVERYTHING, like=str(key), limit=250)
        assert ids(page) == alike
        same = rows.read_page(folder, EVERYTHING, like=str(key), alike="values", limit=250)
        assert key in ids(same)
        assert set(ids(same)) <= set(alike)
        values = {
            tuple(str((cell.before, cell.after)) for cell in row.cells if cell.state == "changed") for row in same.rows
        }
        assert len(values) == 1
        with pytest.raises(BadRequest, match="cursor"):
            rows.read_page(folder, EVERYTHING, like=str(key), cursor=rows.read_page(folder, EVERYTHING, limit=1).next)


def test_a_page_in_two_lines_has_old_values_above_new_ones(folder: Path) -> None:
    place = DiffPlace(url="/data", keeps={}, csv_url="", parquet_url="")
    one = read_rows(folder, EVERYTHING, parameters={"q": "id <= 100"}, place=place)
    two = read_rows(folder, EVERYTHING, parameters={"q": "id <= 100", "lines": "two", "row": "1"}, place=place)
    assert (one.changed_cells, one.changed_columns) == (20 + 10 + 10, 3)
    assert [(line.sign, line.n) for line in two.table.rows[:4]] == [
        ("−", 0),
        ("+", one.table.rows[0].n),
        ("−", 0),
        ("+", 2),
    ]
    was, now = two.table.rows[2:4]
    amount = [column.name for column in two.table.columns].index("amount")
    assert [(row.cells[amount].state, row.is_sought) for row in (was, now)] == [("deleted", True), ("inserted", True)]
    assert was.cells[amount].before == one.table.rows[1].cells[amount].before
    assert two.sought is not None
    assert (two.sought.words, two.sought.changed, two.sought.values) == ("id = 1", "amount", [])
    assert [choice.is_current for choice in two.lines_choices] == [False, True]
    assert {column.name: column.equal for column in one.table.columns} | {"amount": 0.5} == {
        **dict.fromkeys(("id", "at", "raw", "big")),
        "amount": 0.5,
        "name": 0.75,
        "ratio": 0.75,
    } | {name: 1.0 for name in ("at", "raw", "big")}
    assert "lines=two" in two.all_url


def test_columns_that_do_not_differ_are_hidden_and_come_back_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = DiffPlace(url="/data", keeps={}, csv_url="", parquet_url="")
    whole = read_rows(folder, EVERYTHING, parameters={}, place=place)
    assert (len(whole.table.columns), whole.hidden, whole.quiet_columns) == (7, 0, [])
    monkeypatch.setattr("webapp.comparisons.pages.rows.MANY_COLUMNS", 6)
    few = read_rows(folder, EVERYTHING, parameters={}, place=place)
    assert [column.name for column in few.table.columns] == ["id", "name", "amount", "ratio"]
    assert (few.only_changed, few.hidden) == (True, 3)
    assert {choice.text: choice.url for choice in few.quiet_columns}["raw"] == "/data?also=raw"
    more = read_rows(folder, EVERYTHING, parameters={"also": "raw"}, place=place)
    assert [column.name for column in more.table.columns] == ["id", "name", "amount", "ratio", "raw"]
    assert [(choice.text, choice.url, choice.is_current) for choice in more.quiet_columns] == [
        ("raw", "/data?", True),
        ("at", "/data?also=raw%2C+at", False),
        ("big", "/data?also=raw%2C+big", False),
    ]
    assert ("also", "raw") in more.hidden_fields
    assert more.toggle_url == "/data?columns=all"


def test_changed_rows_spread_over_the_values_of_a_column(folder: Path) -> None:
    by_day = read_spread(folder, EVERYTHING, by="at")
    assert (by_day.unit, len(by_day.values), by_day.others, by_day.total) == ("day", 50, 0, 50)
    assert [value.value for value in by_day.values[:2]] == ["2020-01-01", "2020-01-02"]
    by_name = read_spread(folder, EVERYTHING, by="name")
    assert (by_name.unit, by_name.values[0].value, by_name.values[0].updated) == ("", "", 9)
    assert sum(value.deleted for value in by_name.values) == 10
    assert SpreadSerializer(by_day).data["values"][0] == {
        "value": "2020-01-01", "inserted": 0, "deleted": 0, "updated": 1
    }  # fmt: skip
    for unknown in ("nothing", "raw", "ratio"):
        with pytest.raises(BadRequest, match="can be counted"):
            read_spread(folder, EVERYTHING, by=unknown)

    view = read_spread_view(folder, EVERYTHING, keeps={"dataset": "/a/b"}, parameters={"by": "name"})
    assert view is not None
    assert (view.columns[0], view.fields, view.lines[0].parts[0].width) == ("id", [("dataset", "/a/b")], 240)
    assert (read_spread_view(folder, EVERYTHING, keeps={}, parameters={}) or view).lines == []


def test_rows_of_which_the_first_are_stored_are_not_counted_by_their_values(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    table.append(tables.arrow_rows(table, [line(number) for number in range(3)]))
    side = tables.side(table, tables.snapshot_of(table))
    folder = tables.diff(tmp_path, None, side, key=["id"], row_limit=2)["folder"]
    view = read_spread_view(folder, EVERYTHING, keeps={}, parameters={"by": "name"})
    assert view is not None
    assert view.problem.endswith("here the first 2 are.")


def test_a_picture_has_the_key_and_what_changed(folder: Path) -> None:
    picture = take_picture(folder, key={"id": "1"}, column="name")
    assert picture is not None
    assert json.loads(json.dumps(picture)) == picture
    assert [(cell["name"], cell["before"], cell["after"]) for cell in picture["cells"]] == [
        ("id", 1, 1),
        ("name", "n1", "n1"),
        ("amount", "0.25", "14.50"),
    ]
    assert [value.state for value in list_values(picture)] == ["same", "same", "changed"]
    for key in ({"id": "4711"}, {"id": "x"}, {"name": "n1"}, {}, {"id": 1, "name": "n1"}):
        assert take_picture(folder, key=key, column=None) is None


def test_a_key_is_proposed_that_tells_changed_rows_apart(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    table.append(tables.arrow_rows(table, [line(number, name="x") for number in range(20)]))
    old = tables.snapshot_of(table)
    after = [line(n, name="x", ratio=n + 0.5 if n < 12 else n / 8) for n in range(2, 22)]
    table.overwrite(tables.arrow_rows(table, after))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    net = tables.diff(tmp_path, *sides)["folder"]
    assert propose_keys(net, EVERYTHING) == [KeyProposal((name,), 10) for name in ("id", "at", "big")]

    place = DiffPlace(url="/data", keeps={}, csv_url="", parquet_url="")
    assert read_rows(net, EVERYTHING, parameters={}, place=place).propose_url == "/data?propose=key"
    view = read_rows(net, EVERYTHING, parameters={"propose": "key"}, place=place)
    assert view.proposed is not None
    assert (view.proposed.rows, view.proposed.proposals[0].columns, view.proposed.problem) == (24, ("id",), "")
    keyed = tables.diff(tmp_path, *sides, key=["id"])["folder"]
    assert read_rows(keyed, EVERYTHING, parameters={"propose": "key"}, place=place).proposed is None
    with pytest.raises(BadRequest, match="by a key already"):
        propose_keys(keyed, EVERYTHING)
