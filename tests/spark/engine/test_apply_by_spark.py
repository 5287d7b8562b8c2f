"""The cases of applying again, as a MERGE of Spark on the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from jobs.changelog import apply_changelog
from tests.spark.engine.conftest import Shared
from tests.unit.jobs import test_changelog as cases
from tests.unit.jobs.test_changelog import (  # noqa: F401 - collected here again
    test_applying_follows_the_source,
    test_changes_are_applied_by_key,
    test_columns_that_the_changelog_lacks_keep_their_values,
    test_nothing_to_apply_makes_no_snapshot,
    test_what_cannot_be_applied,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def _by_spark(monkeypatch: pytest.MonkeyPatch, shared: Shared) -> None:
    class Tables:
        def __init__(self, folder: Path) -> None:
            self.folder = folder

        def load_table(self, name: str) -> Any:
            return shared.load(self.folder, name)

    monkeypatch.setattr(cases, "MemoryCatalog", Tables)
    monkeypatch.setattr(cases, "apply_changelog", shared.apply)
    # a context of Spark does not survive a fork
    monkeypatch.setattr(cases, "in_child", lambda function: function())


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_partitioned_destination_that_is_merged_on_read_and_has_wider_types(
    shared: Shared, tmp_path: Path, version: str
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
    table = shared.load(
        tmp_path,
        "wide",
        schema=schema,
        partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part")),
        properties={"format-version": version, "write.merge.mode": "merge-on-read"},
    )
    rows = pa.table({"id": pa.array([1, 2, None, 4]), "part": ["a", "b", None, "d"]})
    shared.apply(table, rows.append_column("_change_type", pa.array(["INSERT"] * 4)), ["id"], from_empty=False)
    assert table.metadata.format_version == int(version)
    log = pa.table(
        {
            "id": pa.array([1, 2, None, 5, 9], pa.int32()),
            "part": ["b", "b", "n", None, "x"],
            "more": [1.5, None, float("nan"), -0.0, 0.0],
            "_change_type": ["UPDATE_AFTER", "DELETE", "UPDATE_AFTER", "INSERT", "DELETE"],
            "_change_ordinal": pa.array([1, 1, 1, 1, 1], pa.int32()),
        }
    )
    for told in (5, 5):
        before = len(table.metadata.snapshots)
        assert shared.apply(table, log, ["id"], from_empty=False) == told
        assert len(table.metadata.snapshots) == before + 1
        found = shared.session.table(f"tributary.{'.'.join(table.name())}").collect()
        expected = [(1, "b", 1.5), (None, "n", float("nan")), (4, "d", None), (5, None, -0.0)]
        assert sorted(map(str, (tuple(row) for row in found))) == sorted(map(str, expected))
    assert table.schema().find_type("id") == LongType()


@pytest.mark.parametrize("is_by_spark", [False, True], ids=["light", "spark"])
@pytest.mark.parametrize("version", ["2", "3"])
def test_a_destination_with_more_columns(shared: Shared, tmp_path: Path, version: str, *, is_by_spark: bool) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "value", StringType()))
    table = shared.load(tmp_path, "more", schema=schema, properties={"format-version": version})
    default = "new" if version == "3" else None
    with table.update_schema() as update:
        update.add_column("kind", StringType(), default_value=default)
        update.move_after("kind", "id")
    apply = shared.apply if is_by_spark else apply_changelog
    rows = {"id": [1, 2, 3, 4], "kind": ["x", "y", None, "z"], "value": ["a", "b", "c", "d"]}
    apply(table, changes(rows, ["INSERT"] * 4), ["id"], from_empty=False)
    log = changes({"id": [1, 2, 3, 5], "value": ["A", "B", "C", "E"]}, ["UPDATE_AFTER", "DELETE", "INSERT", "INSERT"])
    for _ in range(2):
        apply(table, log, ["id"], from_empty=False)
        found = shared.session.table(f"tributary.{'.'.join(table.name())}").collect()
        assert sorted(tuple(row) for row in found) == [(1, "x", "A"), (3, None, "C"), (4, "z", "d"), (5, default, "E")]
    snapshots = len(table.metadata.snapshots)
    with pytest.raises(Exception, match="'id' of the destination is required, and missing in the changelog"):
        apply(table, changes({"value": ["A"]}, ["INSERT"]), ["value"], from_empty=False)
    assert len(table.refresh().metadata.snapshots) == snapshots


def changes(rows: dict[str, list[Any]], kinds: list[str]) -> pa.Table:
    columns = {name: pa.array(values, pa.int64() if name == "id" else pa.string()) for name, values in rows.items()}
    return pa.table({**columns, "_change_type": kinds})
