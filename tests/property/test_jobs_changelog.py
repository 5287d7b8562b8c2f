"""Laws of changelogs over random histories of small tables."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.changelog import apply_changelog, read_changelog
from jobs.engine.write.writer import write_table
from tests.factories.forks import in_child
from tests.fakes.jobs_catalog import MemoryCatalog

pytestmark = pytest.mark.slow
SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.float64())])
VALUES = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")])
KEYS = st.sampled_from([None, 1, 2, 3])
KEYED = st.dictionaries(KEYS, VALUES, max_size=4).map(lambda rows: sorted(rows.items(), key=str))
LOOSE = st.lists(st.tuples(KEYS, VALUES), max_size=5)
SIZE = settings(max_examples=10, suppress_health_check=list(HealthCheck), database=None)
Rows = list[tuple[Any, Any]]


def canonical(rows: Any) -> Counter[tuple[str, ...]]:
    """Rows as a bag; -0.0 is 0.0 and NaN is NaN."""
    return Counter(tuple(str(0.0 if value == 0 else value) for value in row) for row in rows)


class History:
    """A table with one snapshot for each version."""

    def __init__(self, versions: list[Rows]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.versions = versions
        self.table = self.make("t")
        self.snapshots = [self.write(self.table, rows) for rows in versions]

    def make(self, name: str) -> Any:
        return MemoryCatalog(self.folder / name).load_table(f"x.{name}")

    @staticmethod
    def write(table: Any, rows: Rows) -> int:
        data = pa.table({"id": [row[0] for row in rows], "value": [row[1] for row in rows]}, schema=SCHEMA)
        return write_table(table, SCHEMA, data.to_batches(), is_append=False).snapshot_id

    def changes(self, first: int | None, last: int, **more: Any) -> list[tuple[Any, ...]]:
        start = None if first is None else self.snapshots[first]
        found = read_changelog(self.table, start=start, end=self.snapshots[last], **more)
        return [(*row.values(),) for row in found.to_pylist()]


def retract(rows: Any, changes: list[tuple[Any, ...]]) -> Counter[tuple[str, ...]]:
    """Take away what left and what stood before, add what came and what stands now."""
    bag = canonical(rows)
    bag.subtract(canonical(change[:2] for change in changes if change[2] in ("DELETE", "UPDATE_BEFORE")))
    bag.update(canonical(change[:2] for change in changes if change[2] in ("INSERT", "UPDATE_AFTER")))
    assert all(count >= 0 for count in bag.values())
    return +bag


def test_net_changes_turn_the_start_into_the_end() -> None:
    @SIZE
    @given(st.lists(LOOSE, min_size=2, max_size=4))
    def law(versions: list[Rows]) -> None:
        history = History(versions)
        for first in range(len(versions) - 1):
            changes = history.changes(first, len(versions) - 1, keys=None)
            assert retract(versions[first], changes) == canonical(versions[-1])
        assert retract([], history.changes(None, len(versions) - 1, keys=None)) == canonical(versions[-1])

    in_child(law)


def test_changes_by_key_turn_the_start_into_the_end() -> None:
    @SIZE
    @given(st.lists(KEYED, min_size=2, max_size=4))
    def law(versions: list[Rows]) -> None:
        history = History(versions)
        changes = history.changes(0, len(versions) - 1, keys=["id"])
        assert retract(versions[0], changes) == canonical(versions[-1])
        assert all(one[2] != "UPDATE_AFTER" or two[2] == "UPDATE_BEFORE" for one, two in zip(changes, changes[1:]))
        # the same rows leave and come as in the net changes, under other names
        net = history.changes(0, len(versions) - 1, keys=None)
        assert canonical(change[:2] for change in changes) == canonical(change[:2] for change in net)

    in_child(law)


def test_applying_leads_where_the_source_went_and_twice_is_once() -> None:
    @SIZE
    @given(st.lists(KEYED, min_size=2, max_size=4), st.sampled_from(["first", "latest"]))
    def law(versions: list[Rows], images: str) -> None:
        history = History(versions)
        log = read_changelog(
            history.table, keys=["id"], start=history.snapshots[0], end=history.snapshots[-1], images=images
        )
        other = history.make("o")
        history.write(other, versions[0])
        for _ in range(2):
            apply_changelog(other, log, ["id"], from_empty=False)
            rows = other.scan().to_arrow().to_pylist()
            assert canonical((*row.values(),) for row in rows) == canonical(versions[-1])

    in_child(law)


def test_adjacent_ranges_compose() -> None:
    @SIZE
    @given(st.lists(KEYED, min_size=3, max_size=4))
    def law(versions: list[Rows]) -> None:
        history = History(versions)
        rows: Any = versions[0]
        for step in range(len(versions) - 1):
            bag = retract(rows, history.changes(step, step + 1, keys=["id"]))
            assert bag == canonical(versions[step + 1])
            rows = versions[step + 1]
        assert bag == retract(versions[0], history.changes(0, len(versions) - 1, keys=["id"]))

    in_child(law)
