"""Some files of a table are replaced whatever the threads do that look for them."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import visitors
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from jobs.engine.write.writer import replace_files
from tests.factories import engine as tables

SCHEMA = Schema(NestedField(1, "id", LongType()))
LOOK = visitors.visit
PARTITIONED = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id_part"))


def look_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two threads each take a manifest before either of them looks at its own."""
    both = threading.Barrier(2)

    def meet_and_look(expression: Any, visitor: Any) -> Any:
        if expression is getattr(visitor, "partition_filter", None):
            with suppress(threading.BrokenBarrierError):
                both.wait(timeout=1)
        return LOOK(expression, visitor)

    monkeypatch.setattr(visitors, "visit", meet_and_look)


@pytest.mark.parametrize("number", [1, 2])
def test_threads_that_look_at_two_manifests_find_the_files_of_each(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path)
    look_at_the_same_time(monkeypatch)
    replace_files(table, frozenset([find_file(table, number).file_path]), iter(()))
    assert table.scan().to_arrow()["id"].to_pylist() == [3 - number]


def test_pyiceberg_still_takes_one_manifest_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason for what the writer does otherwise."""
    refused = 0
    for number in (1, 2):  # threads may begin in either order
        table = make_table(tmp_path / str(number))
        look_at_the_same_time(monkeypatch)
        overwrite = table.transaction().update_snapshot().overwrite()
        overwrite.delete_data_file(find_file(table, number))
        try:
            overwrite.commit()
        except ValidationException as error:
            assert "Missing required files to delete" in str(error)
            refused += 1
    assert refused


def make_table(folder: Path) -> Table:
    """Return a table of two rows in two partitions, each with a manifest of its own."""
    folder.mkdir(exist_ok=True)
    table = tables.make_table(folder, SCHEMA, partition_spec=PARTITIONED)
    for number in (1, 2):
        table.append(tables.arrow_rows(table, [{"id": number}]))
    return table


def find_file(table: Table, number: int) -> DataFile:
    """Return the file of a row."""
    return next(file for file in tables.data_files(table) if f"id_part={number}" in file.file_path)
