"""What a table says of its columns stays when Spark writes its rows, whatever spelling the frame has for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from jobs.engine.spark import tables
from tests.spark.engine.conftest import Shared

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=True, doc="who"),
    NestedField(2, "größe", StringType(), doc="how tall"),
    identifier_field_ids=[1],
)


@pytest.fixture
def table(shared: Shared, tmp_path: Path) -> Any:
    return shared.load(
        tmp_path,
        "kept",
        schema=COLUMNS,
        partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part")),
        sort_order=SortOrder(SortField(source_id=1, transform=IdentityTransform()), order_id=1),
        properties={"comment": "counted by hand"},
    )


def write(shared: Shared, table: Any, data: pa.Table, *, is_append: bool) -> None:
    frame = shared.session.createDataFrame(data)
    tables.write(shared.session, frame, table, name=".".join(table.name()), is_append=is_append)
    table.refresh()


def test_writing_keeps_what_nobody_declares(shared: Shared, table: Any) -> None:
    before = table.metadata
    for is_append in (False, True, False):
        write(shared, table, pa.table({"id": [1, 2], "größe": ["a", "b"]}), is_append=is_append)
        after = table.metadata
        assert after.schema() == before.schema()
        assert after.schema().identifier_field_ids == [1]
        assert (after.spec(), after.sort_order()) == (before.spec(), before.sort_order())
        assert after.properties == before.properties
    log = pa.table({"id": [3], "größe": ["c"], "_change_type": ["INSERT"]})
    for from_empty in (False, True):
        shared.apply(table, log, ["id"], from_empty=from_empty)
        assert table.schema() == before.schema()
    assert table.scan().to_arrow().to_pylist() == [{"id": 3, "größe": "c"}]


def test_append_writes_the_columns_of_the_table(shared: Shared, table: Any) -> None:
    before = table.schema()
    for data in (pa.table({"ID": [1], "gro\u0308ße": ["a"]}), pa.table({"Größe": ["b"], "Id": [2]})):
        write(shared, table, data, is_append=True)
    assert table.schema() == before
    rows = table.scan().to_arrow().to_pylist()
    assert sorted(rows, key=str) == [{"id": 1, "größe": "a"}, {"id": 2, "größe": "b"}]


def test_replace_renames_a_column_and_keeps_its_id(shared: Shared, table: Any) -> None:
    write(shared, table, pa.table({"ID": [1], "größe": ["a"], "new": [0.5]}), is_append=False)
    schema = table.schema()
    assert [(field.field_id, field.name) for field in schema.fields][:2] == [(1, "ID"), (2, "größe")]
    assert schema.identifier_field_ids == [1]
    assert table.scan().to_arrow().to_pylist() == [{"ID": 1, "größe": "a", "new": 0.5}]


def test_spark_fills_what_it_leaves_out_by_the_write_default(shared: Shared, tmp_path: Path) -> None:
    """Appends and merges leave out a required column, as those of light transforms do."""
    key = NestedField(1, "id", LongType())
    table = shared.load(tmp_path, "defaults", schema=Schema(key), properties={"format-version": "3"})
    added = NestedField(2, "n", LongType(), required=True, initial_default=5, write_default=7)
    transaction = table.transaction()
    schema = Schema(key, added, schema_id=1)
    transaction._stage((AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate(schema_id=-1)), ())
    transaction.commit_transaction()
    write(shared, table, pa.table({"id": [1]}), is_append=True)
    log = pa.table({"id": [1, 2], "_change_type": ["UPDATE_AFTER", "INSERT"]})
    shared.apply(table, log, ["id"], from_empty=False)
    assert table.schema().fields[1].write_default == 7
    assert sorted(table.refresh().scan().to_arrow()["n"].to_pylist()) == [7, 7]
