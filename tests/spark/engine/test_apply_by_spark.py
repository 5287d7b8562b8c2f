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
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.window import Window

from jobs.changelog import apply_changelog
from jobs.changelog.keys import Key
from jobs.changelog.marks import make_marks
from jobs.changelog.merge import merge_changelog
from jobs.changelog.spark import mark_frame
from jobs.engine.spark import tables
from tests.factories.tiers import further, thin
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


@further("spark/engine/test_apply_by_spark.py::test_a_destination_with_more_columns")
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
@pytest.mark.parametrize("version", thin(["2", "3"], every_run=["3"]))
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


def test_a_dataframe_remembers_the_keys_it_was_made_with(shared: Shared, tmp_path: Path) -> None:
    """Through filters, new columns, windows and new names; another key would leave the row of the old value."""
    table = shared.load(tmp_path, "keys")
    shared.apply(table, changes({"id": [1], "value": ["old"]}, ["INSERT"]), ["id"], from_empty=False)
    log = tables.from_arrow(
        shared.session, changes({"id": [1, 1], "value": ["old", "new"]}, ["UPDATE_BEFORE", "UPDATE_AFTER"])
    )
    newest = Window.partitionBy("id").orderBy(F.col("_change_type"))
    marked = (
        mark_frame(log, make_marks([Key("id", ("id",))]))
        .withColumn("place", F.row_number().over(newest))
        .where("place = 1")
        .drop("place")
        .localCheckpoint()
    )
    name = ".".join(table.name())

    for keys in (["value"], ["id", "value"]):
        with pytest.raises(Exception, match=r"the changelog was made with identifier columns \['id'\], not"):
            merge_changelog(shared.session, table, marked, keys, name=name, from_empty=False)
    with pytest.raises(Exception, match=r"made with identifier columns \['id'\], not \['value'\]"):
        merge_changelog(
            shared.session, table, marked.withColumnRenamed("id", "key"), ["value"], name=name, from_empty=True
        )
    with pytest.raises(Exception, match="the changelog that this job has read was made with identifier columns"):
        merge_changelog(shared.session, table, log, ["value"], name=name, from_empty=False, read=[[Key("id", ("id",))]])
    assert merge_changelog(shared.session, table, marked, ["id"], name=name, from_empty=False) == 1
    rows = shared.session.table(f"tributary.{name}").collect()
    assert [tuple(row) for row in rows] == [(1, "new")]


def changes(rows: dict[str, list[Any]], kinds: list[str]) -> pa.Table:
    columns = {name: pa.array(values, pa.int64() if name == "id" else pa.string()) for name, values in rows.items()}
    return pa.table({**columns, "_change_type": kinds})
