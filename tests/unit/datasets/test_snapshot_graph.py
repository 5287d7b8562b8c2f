"""The graph of snapshots, what snapshots say, and which properties are shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.datasets.rules import snapshot_graph, summaries
from webapp.datasets.rules.properties import list_properties
from webapp.datasets.rules.snapshot_graph import ABOVE, BELOW, JOIN, LOST, PASS, arrange


def snap(number: int, parent: int | None = None, *, at: int | None = None, **summary: str) -> dict[str, Any]:
    """Return a snapshot; commits are numbered in their order."""
    return {
        "snapshot-id": number,
        "parent-snapshot-id": parent,
        "sequence-number": number,
        "timestamp-ms": number if at is None else at,
        "summary": summary,
    }


def kinds(node: snapshot_graph.SnapshotNode) -> list[tuple[str, int]]:
    """Return what is drawn in a row, by lane."""
    return sorted((stroke.kind, (stroke.x - snapshot_graph.MARGIN) // snapshot_graph.STEP) for stroke in node.strokes)


def test_branch_is_a_lane_that_ends_where_it_began() -> None:
    graph = arrange([snap(1), snap(2, 1), snap(3, 1), snap(4, 2)], {"master": 4, "feature": 3})

    rows = graph.draw(0, 10)

    assert [(row.snapshot["snapshot-id"], row.line.owner, row.line.lane) for row in rows] == [
        (4, "master", 0),
        (3, "feature", 1),
        (2, "master", 0),
        (1, "master", 0),
    ]
    assert [kinds(row) for row in rows] == [
        [(BELOW, 0)],
        [(BELOW, 1), (PASS, 0)],
        [(ABOVE, 0), (BELOW, 0), (PASS, 1)],
        [(ABOVE, 0), (JOIN, 1)],
    ]
    assert rows[1].grew_from == "master"
    assert [row.grew_from for row in rows if row is not rows[1]] == [None] * 3


def test_lines_share_lanes_but_never_the_first_branch_s() -> None:
    snapshots = [snap(1), snap(2, 1), snap(3, 1), snap(4, 3), snap(5, 3)]

    graph = arrange(snapshots, {"master": 3, "a": 2, "b": 5, "tag": 4})

    assert {line.owner: line.lane for line in graph.lines} == {"master": 0, "a": 1, "b": 1, "tag": 2}


def test_snapshots_that_nothing_reaches_and_expired_parents_are_said() -> None:
    graph = arrange([snap(5, 4), snap(6, 5), snap(7, 5)], {"master": 6})

    abandoned, head, cut = graph.draw(0, 3)

    assert (abandoned.line.owner, abandoned.line.tone, abandoned.grew_from) == ("", "none", "master")
    assert not head.is_cut
    assert cut.is_cut
    assert (LOST, 0) in kinds(cut)


def test_pages_are_cut_from_one_drawing() -> None:
    snapshots = [snap(1), *(snap(number, number - 1) for number in range(2, 30)), snap(30, 3)]
    graph = arrange(snapshots, {"master": 29, "old": 30})

    rows = graph.draw(0, 30)

    assert [*graph.draw(0, 10), *graph.draw(10, 30)] == rows
    assert (PASS, 1) in kinds(rows[15])


def test_one_branch_alone_keeps_its_lines() -> None:
    whole = arrange([snap(1), snap(2, 1), snap(3, 1), snap(4, 3), snap(5, 2)], {"master": 5, "a": 3, "b": 4})
    line = [snap(4, 3), snap(3, 1), snap(1)]

    heads = snapshot_graph.find_line_heads(whole, line)

    assert list(heads.items()) == [("master", 1), ("a", 3), ("b", 4)]
    assert [(row.line.owner, row.line.lane) for row in arrange(line, heads).draw(0, 3)] == [
        ("b", 1),
        ("a", 2),
        ("master", 0),
    ]


def test_many_branches_stay_narrow() -> None:
    snapshots = [snap(1), *(snap(number, 1) for number in range(2, 200))]
    graph = arrange(snapshots, {"master": 1, **{f"b{number}": number for number in range(2, 200)}})

    rows = graph.draw(100, 150)

    assert snapshot_graph.graph_width(rows) == 2 * snapshot_graph.MARGIN + snapshot_graph.STEP * (
        snapshot_graph.MOST_LANES - 1
    )
    assert max(len(row.strokes) for row in rows) <= snapshot_graph.MOST_LANES + 1
    assert {row.line.tone for row in rows} == {"many"}


def test_clocks_and_damaged_histories_do_not_turn_the_graph_over() -> None:
    late = arrange([snap(1, at=900), {**snap(2, 1, at=100), "sequence-number": 0}], {"master": 2})
    assert [row.snapshot["snapshot-id"] for row in late.draw(0, 2)] == [2, 1]

    circle = arrange([snap(1, 2), snap(2, 1)], {"master": 2})
    assert len(circle.draw(0, 2)) == 2
    assert arrange([], {}).draw(0, 50) == []


@given(st.lists(st.integers(0, 30), max_size=30), st.data())
def test_every_line_is_whole(parents: list[int], data: st.DataObject) -> None:
    """Whatever the history: each row has its dot, what leaves a row below enters the next one above, in the same lane."""
    snapshots = [
        snap(number, (parent % number) or None, at=data.draw(st.integers(0, 99)))
        for number, parent in enumerate(parents, 1)
    ]
    ids = [snapshot["snapshot-id"] for snapshot in snapshots]
    heads = data.draw(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(ids))) if ids else {}

    rows = arrange(snapshots, heads).draw(0, len(snapshots))

    assert sorted(row.snapshot["snapshot-id"] for row in rows) == ids
    for above, below in zip(rows, rows[1:], strict=False):
        leaving = {stroke.x for stroke in above.strokes if stroke.kind in (PASS, BELOW)}
        entering = {stroke.x for stroke in below.strokes if stroke.kind in (PASS, ABOVE, JOIN)}
        assert leaving == entering
    assert all(stroke.kind not in (BELOW, PASS) for row in rows[-1:] for stroke in row.strokes)
    places = {row.snapshot["snapshot-id"]: place for place, row in enumerate(rows)}
    for row in rows:
        parent = row.snapshot["parent-snapshot-id"]
        assert parent is None or places[parent] > places[row.snapshot["snapshot-id"]]


def test_change_counts_rows_marked_as_deleted_once() -> None:
    counted = {"added-records": "5", "deleted-records": "2", "added-position-deletes": "7"}
    more = {"removed-position-deletes": "4", "added-delete-files": "1", "total-records": "40"}

    change = summaries.describe_change({**snap(1), "summary": {**counted, **more}})

    assert (change.rows_added, change.rows_removed, change.delete_files) == (5, 5, 1)
    assert (change.rows, change.files, change.bytes) == (40, None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("s3.secret-access-key", "x"),
        ("s3.session-token", "x"),
        ("adls.account-key", "x"),
        ("db.Password", "x"),
        ("source", "jdbc:postgresql://bob:pw@host/db"),
        ("note", "AKIAABCDEFGHIJKLMNOP"),
        ("signed", "https://store/x?X-Amz-Signature=1"),
        ("bearer", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"),
    ],
)
def test_secrets_are_hidden(name: str, value: str) -> None:
    [shown] = list_properties({name: value}, without="foundry.")

    assert (shown.is_hidden, shown.value) == (True, "")


def test_other_properties_are_shown() -> None:
    found = list_properties({"owner": "x@y", "write.format.default": "parquet", "foundry.a": "1"}, without="foundry.")

    assert [(one.name, one.value) for one in found] == [("owner", "x@y"), ("write.format.default", "parquet")]
