"""Row diffs that are joined part by part find what one join finds, whatever the keys and however files overlap."""

from __future__ import annotations

import datetime as dt
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from jobs.engine.compare import compared_rows
from jobs.engine.plan.components import FileGroup, Room, split_by_key
from jobs.engine.plan.planner import plan_diff
from jobs.engine.read.live_files import LiveFile
from jobs.engine.write.artifact import ProgressReporter
from tests.factories import engine as tables
from tests.property import engine_oracle as oracle

if TYPE_CHECKING:
    from collections.abc import Iterable

KEYS: dict[str, tuple[IcebergType, list[Any]]] = {
    "long": (LongType(), [-(2**40), -1, 0, 1, 2, 127, 128, 2**40]),
    "date": (DateType(), [dt.date(1969, 12, 30 + n % 2) if n < 2 else dt.date(1970, 1, n) for n in range(8)]),
    "timestamp": (TimestampType(), [dt.datetime(1969, 12, 31, 23, 59, 59, n) for n in range(8)]),
    "decimal": (DecimalType(9, 2), [Decimal(n).scaleb(-2) for n in (-129, -128, -1, 0, 1, 127, 128, 300)]),
    # two begin with the same sixteen characters, to which bounds are cut
    "string": (StringType(), ["", "a", "b", "z" * 16, "z" * 17, "z" * 16 + "é", "é", "𝄞"]),
    "binary": (BinaryType(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff" * 16, b"\xff" * 17, b"a", b"b"]),
}


@st.composite
def rewrites(draw: st.DrawFn) -> tuple[str, list[tuple[list[Any], list[Any]]]]:
    """A kind of key, and per file the places of its keys at both ends: spans that often do not meet."""
    kind = draw(st.sampled_from(sorted(KEYS)))
    files = []
    for _ in range(draw(st.integers(1, 4))):
        low = draw(st.integers(0, 7))
        span = st.integers(low, min(7, low + draw(st.integers(0, 2))))
        some = st.lists(st.tuples(st.one_of(span, span, st.none()), st.integers(0, 1)), max_size=3)
        files.append((draw(some), draw(some)))
    return kind, files


@pytest.mark.parametrize("examples", [15, pytest.param(500, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_a_diff_in_parts_is_the_whole_diff(examples: int) -> None:
    settings(max_examples=examples)(given(rewrites())(check_diff))()


def check_diff(made: tuple[str, list[tuple[list[Any], list[Any]]]]) -> None:
    kind, files = made
    type_, pool = KEYS[kind]
    schema = Schema(NestedField(1, "k", type_, required=False), NestedField(2, "v", LongType(), required=False))
    ends: list[list[dict[str, Any]]] = [[], []]
    with tempfile.TemporaryDirectory() as folder:
        table = tables.make_table(Path(folder), schema)
        refs = []
        for end in (0, 1):
            contents = [[{"k": None if n is None else pool[n], "v": v} for n, v in both[end]] for both in files]
            ends[end] = [row for rows in contents for row in rows]
            come = [
                file for rows in contents if rows for file in tables.write_files(table, tables.arrow_rows(table, rows))
            ]
            gone = tables.data_files(table) if table.current_snapshot() else []
            tables.replace(table, gone, come)
            refs.append(tables.snapshot_of(table))
        both_ends = [tables.side(table, snapshot) for snapshot in refs]
        with patch.multiple(compared_rows, _USUAL_PART=10**12, _LARGEST_PART=10**12):
            found = tables.diff(Path(folder), *both_ends, key=["k"])
        wanted = oracle.by_key(*ends, ("k",), ["k", "v"])
        assert found["mode"] == ("net" if wanted is None else "identifier")
        assert oracle.stored(found["rows"], [0, 1]) == (oracle.net(*ends, ["k", "v"]) if wanted is None else wanted)
        check_parts(both_ends)


def check_parts(ends: list[Any]) -> None:
    """Every file is in one part, and no value of the key in two."""
    plan = plan_diff(before=ends[0], after=ends[1], key=["k"])
    whole = FileGroup(plan.left, plan.came)
    if not plan.left or not plan.came:
        return
    parts = split_by_key(whole, plan.pairs[:1], size=count_files, room=Room(0, 0, 2))
    assert sorted(file.data.path for part in parts for file in part.left) == sorted(f.data.path for f in plan.left)
    assert sorted(file.data.path for part in parts for file in part.came) == sorted(f.data.path for f in plan.came)
    keys = [{key for file in (*part.left, *part.came) for key in keys_of(file)} for part in parts]
    assert sum(map(len, keys)) == len(set().union(*keys))


def count_files(part: FileGroup) -> int:
    return len(part.left + part.came)


def keys_of(file: LiveFile) -> list[Any]:
    found: list[Any] = pq.read_table(file.data.path.removeprefix("file://")).column("k").to_pylist()
    return found


def rewritten(folder: Path, *files: Iterable[int]) -> tuple[list[Any], FileGroup]:
    """The ends of a table whose files were all written again with other values, and the plan's files."""
    schema = Schema(NestedField(1, "k", LongType(), required=False), NestedField(2, "v", LongType(), required=False))
    table = tables.make_table(folder, schema)
    refs = []
    for value in (0, 1):
        gone = tables.data_files(table) if table.current_snapshot() else []
        contents = [tables.arrow_rows(table, [{"k": key, "v": value} for key in keys]) for keys in files]
        tables.replace(table, gone, [file for content in contents for file in tables.write_files(table, content)])
        refs.append(tables.snapshot_of(table))
    ends = [tables.side(table, snapshot) for snapshot in refs]
    plan = plan_diff(before=ends[0], after=ends[1], key=["k"])
    return ends, FileGroup(plan.left, plan.came)


def sizes(ends: list[Any], whole: FileGroup, room: Room) -> list[tuple[int, int]]:
    """How many files of each end are in each part."""
    keys = plan_diff(before=ends[0], after=ends[1], key=["k"]).pairs[:1]
    parts = split_by_key(whole, keys, size=count_files, room=room)
    return [(len(part.left), len(part.came)) for part in parts]


def test_files_in_the_order_of_the_key_fall_into_parts(tmp_path: Path) -> None:
    ends, whole = rewritten(tmp_path, *(range(10 * n, 10 * n + 10) for n in range(6)))
    found = {
        room: sizes(ends, whole, Room(*room)) for room in [(0, 0, 2), (4, 4, 2), (5, 9, 1), (0, 7, 3), (12, 12, 2)]
    }
    assert found == {
        (0, 0, 2): [(1, 1)] * 6,
        (4, 4, 2): [(2, 2)] * 3,
        (5, 9, 1): [(2, 2)] * 3,
        (0, 7, 3): [(3, 3)] * 2,
        (12, 12, 2): [(6, 6)],
    }
    told: list[Any] = []
    with (
        patch.multiple(compared_rows, _USUAL_PART=10**12, _LARGEST_PART=10**12),
        patch.object(ProgressReporter, "enter", lambda _, __, **known: told.append(known.get("files_done"))),
    ):
        assert tables.diff(tmp_path, *ends, key=["k"])["updated"] == 60
    assert [done for done in told if done is not None] == [0, 2, 4, 6, 8, 10]


def test_a_file_that_spans_others_keeps_them_together(tmp_path: Path) -> None:
    assert sizes(*rewritten(tmp_path, [0, 50], [1, 2], [50, 60], [61]), Room(0, 0, 2)) == [(3, 3), (1, 1)]
