"""Rows that both sides of a pull request have changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from tests.factories import engine as tables
from webapp.accounts.rules.sight import EVERYTHING
from webapp.pulls.pages.three_ways import read_three_ways_view
from webapp.pulls.queries import three_ways
from webapp.pulls.queries.three_ways import read_three_ways
from webapp.pulls.rules import states
from webapp.pulls.serializers import ThreeWaysSerializer

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "amount", LongType(), required=False),
    NestedField(3, "note", StringType(), required=False),
    NestedField(4, "same", StringType(), required=False),
)
ROW: Any = SimpleNamespace(pull=SimpleNamespace(source="feature", target="master"))
BASE = {1: (10, "a"), 2: (20, "b"), 3: (30, "c"), 4: (40, "d"), 5: (50, "e")}
SOURCE = {1: (11, "a"), 2: (21, "b"), 4: (44, "d"), 5: (55, "e"), 6: (60, "f")}
TARGET = {1: (12, "a"), 2: (20, "m"), 3: (33, "c"), 4: (44, "d"), 5: (50, "e"), 6: (61, "f")}


def show(folder: Path | None) -> Any:
    return SimpleNamespace(folder=folder, comparison="begun", before="a transaction")


@pytest.fixture
def both(readers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored diffs of both sides with what they began with."""
    table = tables.make_table(tmp_path, SCHEMA)
    snapshots = []
    for rows in (BASE, SOURCE, TARGET):
        lines = [{"id": key, "amount": amount, "note": note, "same": "s"} for key, (amount, note) in rows.items()]
        table.overwrite(tables.arrow_rows(table, lines))
        snapshots.append(tables.side(table, tables.snapshot_of(table)))
    base, source, target = snapshots
    folders = {
        states.THIS_BRANCH: tables.diff(tmp_path, base, source, key=["id"])["folder"],
        states.TARGET_SINCE: tables.diff(tmp_path, base, target, key=["id"])["folder"],
    }
    monkeypatch.setattr(three_ways, "find_shown", lambda _row, name: show(folders[name]))


@pytest.mark.usefixtures("both")
def test_rows_of_both_say_who_changed_what_and_where_they_conflict() -> None:
    first = read_three_ways(ROW, EVERYTHING, most=3)
    assert first is not None
    rest = read_three_ways(ROW, EVERYTHING, after=first.after or 0, most=3)
    assert rest is not None
    assert (first.key, first.columns, rest.after) == (("id",), ("amount", "note", "same"), None)
    sides = {
        row.key["id"]: {value.name: str(value.side) for value in row.values if value.side != "nobody"}
        for row in (*first.rows, *rest.rows)
    }
    assert sides == {
        1: {"amount": "conflict"},
        2: {"amount": "source", "note": "target"},
        3: {"amount": "conflict", "note": "source", "same": "source"},
        4: {"amount": "alike"},
        6: {"amount": "conflict", "note": "alike", "same": "alike"},
    }
    written = ThreeWaysSerializer(first).data
    assert [row["conflicts"] for row in written["rows"]] == [["amount"], [], ["amount"]]
    assert [row["source"] and row["source"]["amount"] for row in written["rows"]] == [11, 21, None]
    assert written["next"] == first.after


@pytest.mark.usefixtures("both")
def test_the_page_has_three_lines_for_each() -> None:
    view = read_three_ways_view(ROW, EVERYTHING, url="/data?show=both", parameters={})
    assert (view.problem, view.conflicts, len(view.groups)) == ("", 3, 5)
    removed = view.groups[2]
    assert [(line.name, line.word) for line in removed.lines] == [
        ("before", ""),
        ("feature", "removed"),
        ("master", ""),
    ]
    assert [(line.cells[0].value, line.cells[0].css) for line in removed.lines] == [
        (30, "same"),
        (None, "conflict"),
        (33, "conflict"),
    ]


def test_where_the_target_has_not_moved_no_row_is_changed_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {states.THIS_BRANCH: show(None), states.TARGET_SINCE: SimpleNamespace(comparison=None)}
    monkeypatch.setattr(three_ways, "find_shown", lambda _row, name: shown[name])
    view = read_three_ways_view(ROW, EVERYTHING, url="/data?show=both", parameters={})
    assert (view.problem, view.groups) == ("", [])


def test_where_a_comparison_is_not_ready_nobody_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(three_ways, "find_shown", lambda _row, _name: show(None))
    assert read_three_ways(ROW, EVERYTHING) is None
    assert "takes a key" in read_three_ways_view(ROW, EVERYTHING, url="/data?show=both", parameters={}).problem
