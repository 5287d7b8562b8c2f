"""Pages of row diffs whose key is a field inside a struct column."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, StringType, StructType

from tests.factories import engine as tables
from tests.unit.diffs.test_diffs_rows import field
from webapp.accounts.rules.sight import EVERYTHING
from webapp.comparisons.diffs import rows
from webapp.comparisons.diffs.exports import export
from webapp.comparisons.pages.rows import DiffPlace, read_rows
from webapp.core.errors import BadRequest

PLACE = StructType(field(10, "a", LongType()), field(11, "it's", StringType()))
SCHEMA = Schema(field(1, "value", StringType()), field(2, "d", PLACE))

pytestmark = pytest.mark.usefixtures("readers")


def line(a: int | None, name: str, value: str) -> dict[str, Any]:
    return {"value": value, "d": {"a": a, "it's": name}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """1 changed in the value, 2 in the struct, 3 gone, 4 new, and the one without a struct changed."""
    table = tables.make_table(tmp_path, SCHEMA)
    rest = {"value": "none", "d": None}
    before = [line(1, "one", "x"), line(2, "two", "x"), line(3, "three", "x"), rest]
    table.append(tables.arrow_rows(table, before))
    old = tables.snapshot_of(table)
    after = [line(1, "one", "y"), line(2, "zwei", "x"), line(4, "four", "x"), {**rest, "value": "some"}]
    table.overwrite(tables.arrow_rows(table, after))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    found: Path = tables.diff(tmp_path, *sides, key=["d.a"])["folder"]
    return found


def keys(page: rows.RowPage) -> list[Any]:
    return [row.key["d.a"] for row in page.rows]


def test_a_row_has_the_key_by_its_name_and_the_struct_as_it_is(folder: Path) -> None:
    page = rows.read_page(folder, EVERYTHING)
    assert (page.key, keys(page)) == (("d.a",), [1, 2, 3, 4, None])
    assert [one.name for one in page.columns] == ["d.a", "value", "d"]
    changed, in_struct = page.rows[:2]
    assert changed.as_json() == {
        "change": "updated",
        "key": {"d.a": 1},
        "before": {"value": "x", "d": {"a": 1, "it's": "one"}},
        "after": {"value": "y", "d": {"a": 1, "it's": "one"}},
        "changed": ["value"],
    }
    assert in_struct.changed == ("d",)
    assert [(cell.column.name, cell.state, cell.after) for cell in in_struct.cells][0] == ("d.a", "same", 2)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"q": "d.a = 3"}, [3]),
        ({"q": "d.a=null"}, [None]),
        ({"q": "4"}, [4]),
        ({"sort": "-d.a"}, [4, 3, 2, 1, None]),
        ({"sort": "d.a", "change": ["updated"]}, [1, 2, None]),
        ({"column": "d"}, [2]),
    ],
)
def test_pages_are_searched_and_sorted_by_the_key(folder: Path, asked: dict[str, Any], found: list[Any]) -> None:
    assert keys(rows.read_page(folder, EVERYTHING, **asked)) == found


def test_a_field_that_is_no_part_of_the_key_is_no_column(folder: Path) -> None:
    with pytest.raises(BadRequest, match="there is no column 'd.b'"):
        rows.read_page(folder, EVERYTHING, sort="d.b")


def test_the_page_shows_the_key_in_front_and_links_to_the_rows_history(folder: Path) -> None:
    place = DiffPlace(url="/x", keeps={}, csv_url="", parquet_url="", dataset_id=7, branch="master")
    view = read_rows(folder, EVERYTHING, parameters={}, place=place)
    assert [(one.name, one.pin, one.note) for one in view.table.columns][0] == ("d.a", True, "long · key")
    assert [one.cells[0].after for one in view.table.rows if one.word != "removed"] == [1, 2, 4, None]
    assert "key.d.a=1" in view.table.rows[0].url
    assert "null=d.a" in view.table.rows[-1].url
    assert (view.key, [one.text for one in view.columns]) == ("d.a", ["value", "d"])


@pytest.mark.parametrize(
    "query", [{"q": "nosuch = 5"}, {"column": "nosuch"}, {"sort": "nosuch"}, {"change": "nosuch"}, {"cursor": "nosuch"}]
)
def test_what_is_not_understood_shows_no_rows_and_stays_to_be_mended(folder: Path, query: dict[str, str]) -> None:
    place = DiffPlace(url="/x", keeps={"dataset": "/d"}, csv_url="", parquet_url="", dataset_id=7, branch="master")
    view = read_rows(folder, EVERYTHING, parameters={**query, "limit": "25"}, place=place)
    assert view.problem
    assert view.table.rows == []
    assert view.q == query.get("q", "")
    assert view.all_url == "/x?dataset=/d&limit=25"


def test_exports_have_a_column_for_the_key_on_each_side(folder: Path) -> None:
    lines = list(csv.DictReader(io.StringIO(b"".join(export(folder, EVERYTHING, "csv")).decode())))
    assert list(lines[0]) == [
        "change",
        "copies",
        "before.d.a",
        "after.d.a",
        "before.value",
        "after.value",
        "before.d",
        "after.d",
    ]
    found = [(row["change"], row["before.d.a"], row["after.d.a"], row["after.d"]) for row in lines]
    assert found == [
        ("updated", "1", "1", '{"a": 1, "it\'s": "one"}'),
        ("updated", "2", "2", '{"a": 2, "it\'s": "zwei"}'),
        ("deleted", "3", "", ""),
        ("inserted", "", "4", '{"a": 4, "it\'s": "four"}'),
        ("updated", "", "", ""),
    ]
    stored = pq.read_table(io.BytesIO(b"".join(export(folder, EVERYTHING, "parquet"))))
    assert [one.name for one in stored.schema.field("before").type] == ["d.a", "value", "d"]
    sides = [
        (row["before"] and row["before"]["d.a"], row["after"] and row["after"]["d.a"]) for row in stored.to_pylist()
    ]
    assert sides == [(1, 1), (2, 2), (3, None), (None, 4), (None, None)]


def test_a_quote_in_the_name_of_a_field_is_part_of_it(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    table.append(tables.arrow_rows(table, [line(1, "one", "x")]))
    side = tables.side(table, tables.snapshot_of(table))
    found = tables.diff(tmp_path, None, side, key=["d.it's"])["folder"]
    assert [row.key for row in rows.read_page(found, EVERYTHING, q="one").rows] == [{"d.it's": "one"}]


def test_diffs_that_were_stored_before_have_keys_of_columns(tmp_path: Path) -> None:
    table = tables.make_table(tmp_path, SCHEMA)
    table.append(tables.arrow_rows(table, [line(1, "one", "x")]))
    folder = tables.diff(tmp_path, None, tables.side(table, tables.snapshot_of(table)), key=["value"])["folder"]
    schema = json.loads((folder / "schema.json").read_text())
    del schema["inside"]
    (folder / "schema.json").write_text(json.dumps(schema))
    assert [row.key for row in rows.read_page(folder, EVERYTHING).rows] == [{"value": "x"}]
