"""A partitioned table is made on several branches, in any order and by any client, and every reader can bind what it is shown."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform
from pyiceberg.types import LongType, NestedField, StringType

from tests.contract.catalog.conftest import Server, Sql
from tests.factories.tiers import thin

pytestmark = [pytest.mark.contract, pytest.mark.spark, pytest.mark.timeout(240)]
WAYS = {"identity": "k", "bucket": "bucket(4, k)"}
HOMES = {"a": "feature/a", "b": "b", "main_": None}


@pytest.mark.parametrize(
    ("way", "first", "second"),
    thin(
        [(way, *pair) for way in WAYS.values() for pair in (("a", "main_"), ("main_", "a"), ("a", "b"))],
        every_run=[(WAYS["identity"], "a", "main_"), (WAYS["bucket"], "a", "b")],
    ),
)
def test_a_partitioned_table_is_made_on_two_branches(
    server: Server, sql: Sql, namespace: str, way: str, first: str, second: str
) -> None:
    table = f"{namespace}.n"
    sql(f"create table {first}.{table} using iceberg partitioned by ({way}) as select 1 k, 'x' v")
    old = sql(f"select snapshot_id from {first}.{table}.snapshots")[0][0]
    sql(f"create or replace table {second}.{table} using iceberg as select 5 k, 'y' v, 2 u")
    sql(f"create or replace table {second}.{table} using iceberg partitioned by ({way}) as select 6L k, 'z' v, 3 u")
    sql(f"insert into {second}.{table} values (7, 'w', 4)")
    sql(f"insert into {first}.{table} values (2, 'y')")
    assert sql(f"select * from {first}.{table} order by k") == [(1, "x"), (2, "y")]
    assert sql(f"select * from {second}.{table} order by k") == [(6, "z", 3), (7, "w", 4)]
    assert sql(f"select * from {second}.{table} where k = 7") == [(7, "w", 4)]
    for reader in (first, second):
        assert sql(f"select * from {reader}.{table} version as of {old}") == [(1, "x")]
        assert len(sql(f"select * from {reader}.{table}.files")) == 2
        assert sql(f"select * from {reader}.{table}.partitions")
    rows = [server.pyiceberg(HOMES[name]).load_table(table).scan().to_arrow().num_rows for name in (first, second)]
    assert rows == [2, 2]
    for name in (first, second):
        read = server.pyiceberg(HOMES[name]).load_table(table).scan(snapshot_id=old).to_arrow().to_pylist()
        assert read == [{"k": 1, "v": "x"}]


@pytest.mark.parametrize("transform", [IdentityTransform(), BucketTransform(4)], ids=str)
@pytest.mark.parametrize(
    ("homes", "column"), [(("feature/a", None), "part"), (("feature/a", "b"), "part"), ((None, "feature/a"), "u")]
)
def test_pyiceberg_makes_it_on_two_branches(
    server: Server,
    sql: Sql,
    namespace: str,
    transform: Transform[int, int],
    homes: tuple[str | None, str | None],
    column: str,
) -> None:
    table = f"{namespace}.n"
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=transform, name="part"))
    schema = Schema(NestedField(1, "k", LongType()), NestedField(2, "v", StringType()))
    first = server.pyiceberg(homes[0]).create_table(table, schema, partition_spec=spec)
    first.append(pa.table({"k": [1], "v": ["x"]}))
    home = next(name for name, branch in HOMES.items() if branch == homes[1])
    sql(f"create or replace table {home}.{table} ({column} bigint, k bigint)")
    other = server.pyiceberg(homes[1]).load_table(table)
    other.append(pa.table({column: [5], "k": [6]}))
    assert server.pyiceberg(homes[0]).load_table(table).scan().to_arrow().to_pylist() == [{"k": 1, "v": "x"}]
    assert other.scan().to_arrow().to_pylist() == [{column: 5, "k": 6}]


@pytest.mark.parametrize("transform", [IdentityTransform(), BucketTransform(4)], ids=str)
@pytest.mark.parametrize("home", [None, "b"])
def test_pyiceberg_alone_gives_another_branch_columns_of_the_names_of_partition_fields(
    server: Server, namespace: str, transform: Transform[int, int], home: str | None
) -> None:
    """The table that a branch made is there, empty, on all others; PyIceberg refuses a column of a name that it is shown."""
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=transform, name="part"))
    schema = Schema(NestedField(1, "part" if transform == IdentityTransform() else "k", LongType()))
    made = server.pyiceberg("feature/a").create_table(f"{namespace}.n", schema, partition_spec=spec)
    made.append(pa.table({schema.fields[0].name: [1]}))
    other = server.pyiceberg(home).load_table(f"{namespace}.n")
    for column in ("part", "later"):
        with other.update_schema() as update:
            update.add_column(column, LongType())
        other.append(pa.table({name: [5] for name in other.schema().column_names}))
    assert other.scan().to_arrow().sort_by("later").to_pylist()[0] == {"part": 5, "later": 5}
    read = server.pyiceberg("feature/a").load_table(f"{namespace}.n")
    assert read.scan().to_arrow().to_pylist() == [{schema.fields[0].name: 1}]
    assert [item.name for item in read.spec().fields] == ["part"]


@pytest.mark.parametrize("owner", thin(["a", "main_"], every_run=["a"]))
def test_a_column_takes_the_name_of_another_branchs_partition_field(
    server: Server, sql: Sql, namespace: str, owner: str
) -> None:
    """Clients refuse such a column themselves where they are shown the name."""
    table, other = f"{namespace}.t", {"a": "main_", "main_": "a"}[owner]
    sql(f"create table main_.{table} (id bigint)")
    sql(f"insert into a.{table} values (1)")
    sql(f"alter table {owner}.{table} add partition field bucket(4, id) as shard")
    sql(f"insert into {owner}.{table} values (2)")
    sql(f"alter table {other}.{table} add column shard string")
    with server.pyiceberg(HOMES[owner]).load_table(table).update_schema() as update:
        update.add_column("note", StringType())
    with server.pyiceberg(HOMES[other]).load_table(table).update_schema() as update:
        update.add_column("shard_bucket", StringType())
    sql(f"insert into {other}.{table} values (3, 's', 'b')")
    assert ("Part 0", "bucket(4, id)", "") in sql(f"describe {owner}.{table}")
    assert sql(f"select partition.shard is null from {owner}.{table}.files where spec_id <> 0") == [(False,)]
    assert (3, "s", "b") in sql(f"select * from {other}.{table}")
    # The same field, made on the other branch too, is given its own name again.
    sql(f"alter table {other}.{table} drop column shard")
    sql(f"alter table {other}.{table} add partition field bucket(4, id)")
    spec = server.pyiceberg(HOMES[other]).load_table(table).spec()
    assert [item.name for item in spec.fields] == ["shard"]


def test_what_a_deleted_branch_leaves_behind_can_be_read(server: Server, sql: Sql, namespace: str) -> None:
    table = f"{namespace}.t"
    sql(f"create table a.{table} partitioned by (bucket(4, k)) as select 1 k")
    sql(f"create or replace table main_.{table} (k bigint, k_bucket bigint)")
    sql(f"insert into main_.{table} values (1, 2)")
    with server.pyiceberg().load_table(table).manage_snapshots() as update:
        update.remove_branch("feature/a")
    assert "foundry.branch." not in str(server.pyiceberg().load_table(table).properties)
    assert sql(f"select * from main_.{table}") == [(1, 2)]
    sql(f"alter table main_.{table} add column more string")
