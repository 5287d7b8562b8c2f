"""Laws of changelogs over tables with delete files of every kind, against rows that the test itself keeps."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField

from jobs.changelog import apply_changelog, read_changelog
from tests.factories import engine as tables
from tests.factories.tiers import thin
from tests.property.engine_oracle import canon

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.table import Table

pytestmark = pytest.mark.slow
SIZE = settings(max_examples=4, suppress_health_check=list(HealthCheck), database=None)
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "value", DoubleType()))
VALUES = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), float("inf")])
ROWS = st.lists(st.tuples(st.sampled_from([None, 1, 2, 3]), VALUES), min_size=1, max_size=4)
KINDS = {
    "appends": ["append"],
    "positions": ["append", "equal", "position"],
    "vectors": ["append", "equal", "vector"],
}
Row = tuple[Any, Any]


class History:
    """A table written by appends and by delete files, and the rows of each of its snapshots."""

    def __init__(self, style: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        # PyIceberg writes no version 3; the vectors are as that version has them
        version = "1" if style == "appends" else "2"
        self.table = tables.make_table(self.folder, SCHEMA, properties={"format-version": version})
        self.files: dict[str, list[Row | None]] = {}
        self.snapshots: list[int | None] = [None]
        self.versions: list[list[Row]] = [[]]

    def append(self, rows: Sequence[Row]) -> None:
        self.table.append(tables.arrow_rows(self.table, [{"id": key, "value": value} for key, value in rows]))
        (path,) = {file.file_path for file in tables.data_files(self.table)} - self.files.keys()
        self.files[path] = list(rows)
        self.note()

    def delete(self, kind: str, keys: Iterable[Any]) -> None:
        """Delete the rows of some keys, wherever they are."""
        gone = set(keys)
        positions = {
            path: {place for place, row in enumerate(rows) if row is None or row[0] in gone}
            for path, rows in self.files.items()
        }
        touched = {path: found for path, found in positions.items() if any(self.files[path][place] for place in found)}
        if not touched:
            return
        if kind == "equal":
            self.table = tables.delete_equal(self.table, ["id"], [{"id": key} for key in gone])
        else:
            write = tables.delete_vectors if kind == "vector" else tables.delete_positions
            self.table = write(self.table, touched)
        for path, found in touched.items():
            self.files[path] = [None if place in found else row for place, row in enumerate(self.files[path])]
        self.note()

    def note(self) -> None:
        self.snapshots.append(tables.snapshot_of(self.table))
        self.versions.append([row for rows in self.files.values() for row in rows if row is not None])


def bag(rows: Iterable[Row]) -> Counter[Any]:
    return Counter(tuple(canon(value) for value in row) for row in rows)


def retract(rows: Iterable[Row], changes: Sequence[tuple[Any, ...]]) -> Counter[Any]:
    """Take away what left and what stood before, add what came and what stands now."""
    left = bag(rows)
    left.subtract(bag(change[:2] for change in changes if change[2] in ("DELETE", "UPDATE_BEFORE")))
    left.update(bag(change[:2] for change in changes if change[2] in ("INSERT", "UPDATE_AFTER")))
    assert min(left.values(), default=0) >= 0
    return +left


def told(table: Table, first: int | None, last: int, **more: Any) -> list[tuple[Any, ...]]:
    return [(*row.values(),) for row in read_changelog(table, start=first, end=last, **more).to_pylist()]


STEPS = st.lists(st.tuples(st.integers(0, 2), ROWS), min_size=1, max_size=5)


def write_history(style: str, steps: Sequence[tuple[int, Sequence[Row]]]) -> History:
    history = History(style)
    history.append([(1, 0.0), (2, 1.5), (None, None)])
    for choice, rows in steps:
        kind = KINDS[style][choice % len(KINDS[style])]
        if kind == "append":
            history.append(rows)
        else:
            history.delete(kind, {key for key, _ in rows})
    return history


@pytest.mark.parametrize("style", ["appends", "positions", "vectors"])
def test_the_changes_of_any_range_turn_its_start_into_its_end(style: str) -> None:
    @SIZE
    @given(STEPS)
    def law(steps: list[tuple[int, list[Row]]]) -> None:
        history = write_history(style, steps)
        last = len(history.snapshots) - 1
        end = history.snapshots[last]
        assert end is not None
        for first in range(last):
            changes = told(history.table, history.snapshots[first], end, keys=None)
            assert retract(history.versions[first], changes) == bag(history.versions[last])
            ordinals = {change[3] for change in changes}
            # V0 is the first snapshot, whatever the range
            assert ordinals <= set(range(first, last))

    law()


@pytest.mark.parametrize("style", ["positions", "vectors"])
def test_by_key_the_same_rows_change_and_doubled_keys_are_refused(style: str) -> None:
    @SIZE
    @given(STEPS)
    def law(steps: list[tuple[int, list[Row]]]) -> None:
        history = write_history(style, steps)
        last = len(history.snapshots) - 1
        start, end = history.snapshots[1], history.snapshots[last]
        assert end is not None
        states = [history.versions[1], *history.versions[2:]]
        touched = {
            row[0] for old, new in zip(states, states[1:]) for row in (bag(old) - bag(new)) + (bag(new) - bag(old))
        }
        doubled = any(
            count > 1 and key in touched
            for rows in (states[0], states[-1])
            for key, count in Counter(canon(row[0]) for row in rows).items()
        )
        if doubled:
            with pytest.raises(ValueError, match="Duplicate rows found for identifier columns"):
                told(history.table, start, end, keys=["id"])
            return
        changes = told(history.table, start, end, keys=["id"])
        assert retract(states[0], changes) == bag(states[-1])
        net = told(history.table, start, end, keys=None)
        assert bag(change[:2] for change in changes) == bag(change[:2] for change in net)

    law()


@pytest.mark.parametrize(
    "style",
    thin(["plain", "partitioned", "positions", "equality", "vectors"], every_run=["plain", "positions", "vectors"]),
)
def test_applying_keeps_to_the_keys_whatever_the_destination_is(style: str) -> None:
    keyed = st.dictionaries(st.sampled_from([None, 1, 2, 3, 4, 5]), VALUES, min_size=1)

    @SIZE
    @given(keyed, keyed, st.sets(st.sampled_from([None, 1, 2, 3])))
    def law(old: dict[Any, Any], new: dict[Any, Any], gone: set[Any]) -> None:
        spec = (
            PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id_part")) if style == "partitioned" else None
        )
        options: dict[str, Any] = {"partition_spec": spec} if spec else {}
        table = tables.make_table(Path(tempfile.mkdtemp()), SCHEMA, **options)
        table.append(tables.arrow_rows(table, [{"id": 99, "value": 9.0}]))
        table.append(tables.arrow_rows(table, [{"id": key, "value": value} for key, value in old.items()]))
        if style == "equality":
            table = tables.delete_equal(table, ["id"], [{"id": 1}])
            old = {key: value for key, value in old.items() if key != 1}
        elif style in {"positions", "vectors"}:
            write = tables.delete_vectors if style == "vectors" else tables.delete_positions
            (path,) = (file.file_path for file in tables.data_files(table) if 99 not in ids_of(file.file_path))
            table = write(table, {path: [0]})
            old = dict(list(old.items())[1:])
        base = source(old)
        base.overwrite(tables.arrow_rows(base, [{"id": k, "value": v} for k, v in new.items() if k not in gone]))
        log = read_changelog(
            base, keys=["id"], start=base.metadata.snapshots[0].snapshot_id, end=tables.snapshot_of(base)
        )
        expected = bag([*((k, v) for k, v in new.items() if k not in gone), (99, 9.0)])
        for _ in range(2):
            before = len(table.metadata.snapshots)
            applied = apply_changelog(table, log, ["id"], from_empty=False)
            assert len(table.metadata.snapshots) - before == (applied is not None)
            end = tables.snapshot_of(table)
            assert end is not None
            assert retract([], told(table, None, end, keys=None)) == expected

    law()


def ids_of(path: str) -> set[Any]:
    return set(pq.read_table(path.removeprefix("file://"), columns=["id"])["id"].to_pylist())


def source(rows: dict[Any, Any]) -> Table:
    """A table of its own that holds these rows in its first snapshot."""
    table = tables.make_table(Path(tempfile.mkdtemp()), SCHEMA)
    table.append(tables.arrow_rows(table, [{"id": key, "value": value} for key, value in rows.items()]))
    return table
