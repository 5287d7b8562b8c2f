"""Rows as clients wrote them, read back bounded: PyIceberg writes through the catalog."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from jobs import nulls
from tests.factories import datasets as make
from webapp.catalog.storage.reader import TableReader
from webapp.core.errors import BadRequest, Unavailable
from webapp.datasets import queries
from webapp.datasets.queries import preview
from webapp.datasets.queries.preview import PreviewRequest, read_preview

if TYPE_CHECKING:
    from collections.abc import Callable

    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("readers")]


@pytest.fixture
def user() -> User:
    return make.a_user()


@pytest.fixture
def connect(user: User) -> Callable[..., Any]:
    return lambda branch="": make.a_pyiceberg(user, branch)


@pytest.fixture
def numbers(connect: Callable[..., Any], user: User) -> Dataset:
    """Three files of ten rows: n = 0…29, and a word."""
    client = connect()
    client.create_namespace("shop")
    rows = [{"n": n, "word": f"w{n % 7}"} for n in range(30)]
    table = client.create_table("shop.numbers", pa.Table.from_pylist(rows[:1]).schema)
    for start in (0, 10, 20):
        table.append(pa.Table.from_pylist(rows[start : start + 10]))
    return queries.get_dataset(make.who(user), "/shop/numbers")


def test_pages_follow_each_other(numbers: Dataset) -> None:
    seen: list[Any] = []
    start = 0
    while True:
        page = read_preview(make.ADMIN, numbers, request=PreviewRequest(start=start, limit=8))
        seen += [row[0] for row in page.rows]
        start += 8
        if not page.has_more:
            break

    assert sorted(seen) == list(range(30))
    assert (page.total, page.scanned, page.branch) == (30, None, "master")


def test_first_page_reads_only_the_files_it_needs(numbers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    original = TableReader._open
    monkeypatch.setattr(
        TableReader,
        "_open",
        lambda self, channel, location: opened.append(location) or original(self, channel, location),
    )

    read_preview(make.ADMIN, numbers, request=PreviewRequest(limit=5))

    assert sum(location.endswith(".parquet") for location in opened) == 1


def test_sort_and_search(numbers: Dataset) -> None:
    down = read_preview(make.ADMIN, numbers, request=PreviewRequest(limit=3, sort="-n"))
    found = read_preview(make.ADMIN, numbers, request=PreviewRequest(limit=50, q="word = w3", sort="n"))
    part = read_preview(make.ADMIN, numbers, request=PreviewRequest(limit=50, q="W6", columns=["n"]))

    assert [row[0] for row in down.rows] == [29, 28, 27]
    assert (down.total, down.has_more) == (30, True)
    assert [row[0] for row in found.rows] == [3, 10, 17, 24]
    assert (found.total, found.has_more) == (4, False)
    assert (part.rows, part.total) == ([], 0)
    assert read_preview(make.ADMIN, numbers, request=PreviewRequest(q="w6")).total == 4


def test_search_speaks_the_language_of_diffs(connect: Callable[..., Any], user: User) -> None:
    client = connect()
    client.create_namespace("shop")
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "Id": pa.array(["a", "b", None]),
            "mean delay": pa.array([60.5, float("nan"), None], pa.float64()),
            "price": pa.array([decimal.Decimal("1.10"), decimal.Decimal("-2.00"), None], pa.decimal128(9, 2)),
            "day": pa.array([dt.date(2013, 7, 10), dt.date(1969, 12, 31), None]),
            "at": pa.array([dt.datetime(2013, 7, 10, 12, 30, tzinfo=dt.UTC), None, None], pa.timestamp("us", "UTC")),
            "plain": pa.array([dt.datetime(2013, 7, 10, 12, 30), None, None], pa.timestamp("us")),  # noqa: DTZ001
            "time": pa.array([dt.time(9, 5), None, None], pa.time64("us")),
            "is_late": pa.array([True, False, None]),
            "raw": pa.array([b"a", b"b", None]),
            "place": pa.array([{"city": "Ulm"}, {"city": "Bonn"}, None], pa.struct({"city": pa.string()})),
            "tags": pa.array([["new", "red"], [], None], pa.list_(pa.string())),
        }
    )
    client.create_table("shop.kinds", rows.schema).append(rows)
    dataset = queries.get_dataset(make.who(user), "/shop/kinds")

    def find(q: str) -> list[Any]:
        return [row[0] for row in read_preview(make.ADMIN, dataset, request=PreviewRequest(q=q)).rows]

    expected = {
        '"mean delay" > 60': [1],
        "day = 2013-07-10, id = 1": [1],
        "day < 1970-01-01 and price < 0": [2],
        '"mean delay" = nan': [2],
        "price = 1.1": [1],
        "at = 2013-07-10T14:30:00+02:00": [1],
        "plain = 2013-07-10": [1],
        "time = 09:05": [1],
        "is_late != true": [2],
        "raw = YQ==": [1],
        "place.city = Ulm": [1],
        "tags ~ RED": [1],
        "Id in (a, b)": [1, 2],
        "Id is null": [3],
        "bonn": [2],
        "id >= 2 id <= 2": [2],
    }
    assert {q: find(q) for q in expected} == expected
    for q, named in (("nosuch = 5", "nosuch"), ("day > x", "day"), ("mean > 5", "mean"), ("id = 1 and", "character")):
        with pytest.raises(BadRequest, match=named) as refused:
            find(q)
        assert refused.value.code == "bad_search"


def test_search_says_when_it_did_not_look_at_all_rows(numbers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "SCANNED_ROWS", 12)

    page = read_preview(make.ADMIN, numbers, request=PreviewRequest(limit=5, sort="n"))

    assert page.scanned == 12


def test_branch_reads_its_own_rows_and_schema(numbers: Dataset, connect: Callable[..., Any]) -> None:
    table = connect("feature").load_table("shop.numbers")
    with table.update_schema() as update:
        update.add_column("extra", pa_string())
    table.append(pa.Table.from_pylist([{"n": 99, "word": "x", "extra": "y"}]))

    branch = read_preview(make.ADMIN, numbers, branch="feature", request=PreviewRequest(limit=1, q="n=99"))
    master = read_preview(make.ADMIN, numbers, request=PreviewRequest(limit=1))
    other = read_preview(make.ADMIN, numbers, branch="other", request=PreviewRequest(limit=1))

    assert [column.name for column in branch.columns] == ["n", "word", "extra"]
    assert branch.rows == [[99, "x", "y"]]
    assert [column.name for column in master.columns] == ["n", "word"]
    assert master.total == 30
    assert (other.branch, other.total) == ("master", 30)


def pa_string() -> Any:
    from pyiceberg.types import StringType

    return StringType()


def test_old_transaction_is_read_as_it_was(numbers: Dataset) -> None:
    first = queries.list_history(queries.get_branch(numbers, "master"))[-1]

    page = read_preview(make.ADMIN, numbers, transaction=first.pk, request=PreviewRequest(limit=50))

    assert [row[0] for row in page.rows] == list(range(first.summary["rows"]))


def test_values_are_encoded_without_loss(connect: Callable[..., Any], user: User) -> None:
    nulls.install()  # PyIceberg would write them as empty lists
    client = connect()
    client.create_namespace("shop")
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    row = {
        "big": 2**62, "small": 7, "money": decimal.Decimal("1.50"), "nan": float("nan"), "inf": float("-inf"),
        "raw": b"\x00\xff", "at": moment, "day": dt.date(2026, 1, 2), "list": [1, None], "nested": {"a": 2**60},
        "no": None, "yes": True, "nothing": None, "empty": [],
    }  # fmt: skip
    parts = pa.list_(pa.struct({"a": pa.int64()}))
    data = pa.Table.from_pylist([row], schema=pa.schema({
        "big": pa.int64(), "small": pa.int32(), "money": pa.decimal128(9, 2), "nan": pa.float64(),
        "inf": pa.float64(), "raw": pa.binary(), "at": pa.timestamp("us", "UTC"), "day": pa.date32(),
        "list": pa.list_(pa.int64()), "nested": pa.struct({"a": pa.int64()}), "no": pa.string(), "yes": pa.bool_(),
        "nothing": parts, "empty": parts,
    }))  # fmt: skip
    client.create_table("shop.kinds", data.schema).append(data)

    page = read_preview(
        make.ADMIN, queries.get_dataset(make.who(user), "/shop/kinds"), request=PreviewRequest(sort="big")
    )

    assert dict(zip((column.name for column in page.columns), page.rows[0], strict=True)) == {
        "big": str(2**62), "small": 7, "money": "1.50", "nan": "NaN", "inf": "-Infinity", "raw": "AP8=",
        "at": "2026-01-02T03:04:05.000006+00:00", "day": "2026-01-02", "list": [1, None],
        "nested": {"a": str(2**60)}, "no": None, "yes": True, "nothing": None,
        "empty": [],
    }  # fmt: skip


def test_missing_file_is_a_named_error(numbers: Dataset, home: Any) -> None:
    for file in home.rglob("*.parquet"):
        file.unlink()

    with pytest.raises(Unavailable, match="/shop/numbers cannot be read"):
        read_preview(make.ADMIN, numbers, request=PreviewRequest())


def test_depth_is_bounded(numbers: Dataset) -> None:
    with pytest.raises(BadRequest, match="first 10,000 rows"):
        read_preview(make.ADMIN, numbers, request=PreviewRequest(start=10_000))


def test_file_names_with_percent_signs_are_read_as_they_are_written(connect: Callable[..., Any], user: User) -> None:
    """Iceberg's writers put the partition's value into the path, encoded, and name the file on the disk so."""
    words = ["é", "a/b", "10:30", "50%", "50%25", "日本", "a b", "x=y", "..", "%2e%2e", "q?#"]
    client = connect()
    client.create_namespace("shop")
    rows = pa.table({"word": words, "at": [dt.datetime(2026, 1, 2, 3, n) for n in range(len(words))]})  # noqa: DTZ001
    table = client.create_table("shop.words", rows.schema)
    with table.update_spec() as spec:
        spec.add_identity("word")
        spec.add_identity("at")
    table.append(rows)

    page = read_preview(make.ADMIN, queries.get_dataset(make.who(user), "/shop/words"), request=PreviewRequest())

    assert sorted(row[0] for row in page.rows) == sorted(words)


def test_a_table_of_version_1_is_read(connect: Callable[..., Any], user: User) -> None:
    client = connect()
    client.create_namespace("shop")
    rows = pa.table({"n": [1, 2]})
    table = client.create_table("shop.old", rows.schema, properties={"format-version": "1"})
    table.append(rows)
    table.append(rows)

    page = read_preview(make.ADMIN, queries.get_dataset(make.who(user), "/shop/old"), request=PreviewRequest())

    assert sorted(row[0] for row in page.rows) == [1, 1, 2, 2]
