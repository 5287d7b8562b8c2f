"""Counts by the row ids that Spark keeps in tables of format version 3, against the counts of the compared values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from tests.factories import engine as tables
from tests.factories.tiers import further, thin
from tests.spark.engine.conftest import Shared

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "value", StringType()))


@pytest.fixture(autouse=True)
def every_diff_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.engine.compare.diff._LARGE_BYTES", 0)


def counted(folder: Path, table: Any, before: int | None, after: int | None, **options: Any) -> tuple[Any, list[int]]:
    """What the row ids say, and what the compared values do: inserted, deleted, updated."""
    ends = (tables.side(table, snapshot) for snapshot in (before, after))
    summary = tables.diff(folder, *ends, key=["id"], **options)
    found = json.loads((summary["folder"] / "progress.json").read_text())["by_row_ids"]
    names = ("inserted", "deleted", "updated")
    return found and [found[name] for name in names], [summary[name] for name in names]


@pytest.mark.parametrize("mode", thin(["copy-on-write", "merge-on-read"], every_run=["merge-on-read"]))
def test_counts_by_row_ids_are_those_of_the_values(shared: Shared, tmp_path: Path, mode: str) -> None:
    properties = {"format-version": "3", **{f"write.{kind}.mode": mode for kind in ("merge", "update", "delete")}}
    table = shared.load(tmp_path, "t", schema=SCHEMA, properties=properties)
    name = f"tributary.{'.'.join(table.name())}"
    sql = shared.session.sql
    sql(f"INSERT INTO {name} SELECT id, concat('v', id) FROM range(0, 60, 1, 3)")
    table.refresh()
    first = tables.snapshot_of(table)
    sql(
        f"MERGE INTO {name} t USING (SELECT id FROM range(50, 64)) s ON t.id = s.id WHEN MATCHED AND t.id < 53 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET value = 'new' WHEN NOT MATCHED THEN INSERT (id, value) VALUES (s.id, 'come')"
    )
    table.refresh()
    merged = tables.snapshot_of(table)
    assert counted(tmp_path, table, first, merged) == ([4, 3, 7], [4, 3, 7])
    assert counted(tmp_path, table, merged, first) == ([3, 4, 7], [3, 4, 7])
    sql(
        f"CALL tributary.system.rewrite_data_files(table => '{'.'.join(table.name())}', options => map('rewrite-all', 'true'))"
    )
    sql(f"UPDATE {name} SET value = 'again' WHERE id IN (1, 55)")
    table.refresh()
    last = tables.snapshot_of(table)
    assert counted(tmp_path, table, merged, last) == ([0, 0, 2], [0, 0, 2])
    assert counted(tmp_path, table, first, last) == ([4, 3, 8], [4, 3, 8])
    # a change to the same value is a new version of its row, and no difference
    sql(f"UPDATE {name} SET value = 'again' WHERE id = 1")
    table.refresh()
    assert counted(tmp_path, table, last, tables.snapshot_of(table)) == ([0, 0, 1], [0, 0, 0])
    assert counted(tmp_path, table, first, last, row_filter="id > 3")[0] is None


@further("spark/engine/test_row_ids.py::test_counts_by_row_ids_are_those_of_the_values")
def test_older_tables_have_no_row_ids_to_count_by(shared: Shared, tmp_path: Path) -> None:
    table = shared.load(tmp_path, "t", schema=SCHEMA, properties={"format-version": "2"})
    for value in ("a", "b"):
        table.append(tables.arrow_rows(table, [{"id": 1, "value": value}]))
    first, last = (snapshot.snapshot_id for snapshot in table.snapshots())
    assert counted(tmp_path, table, first, last)[0] is None
