"""Scans planned by the server, asked for by a real Spark and compared with what it plans itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.contract.catalog.conftest import Sql
from tests.factories.tiers import further

pytestmark = [pytest.mark.contract, pytest.mark.spark, pytest.mark.timeout(240)]
FILTERS = (
    "id = 3",
    "id in (1, 2, 11)",
    "name like 'b%'",
    "name is null",
    "not (id < 4 or name = 'a2')",
    "day = date '2024-01-02'",
    "at >= timestamp '2024-01-02 05:00:00' and at < timestamp '2024-01-03 01:00:00'",
    "price > 2.5",
    "point.x between 2 and 3",
    "day is null or id = 1",
    "cast(id as string) = '3'",
)
VALUES = ", ".join(
    f"({n}L, {chr(39)}{'ab'[n % 2]}{n}{chr(39)}, {'null' if n == 4 else f'date {chr(39)}2024-01-0{1 + n % 3}{chr(39)}'},"
    f" timestamp '2024-01-0{1 + n % 3} 0{n}:00:00', {n}.25, named_struct('x', {n}L))"
    for n in range(1, 7)
)


def make(sql: Sql, table: str, partitioning: str, version: int) -> None:
    sql(
        f"create table {table} (id bigint, name string, day date, at timestamp, price decimal(9,2), point struct<x: bigint>)"
        f" {partitioning} tblproperties ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read',"
        " 'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')"
    )
    sql(f"insert into {table} values {VALUES}")
    sql(f"insert into {table} values (11L, null, date '2024-02-01', timestamp '2024-02-01 00:00:00', 11.25, null)")


@further("contract/catalog/test_catalog_spark_planning.py::test_branches_tags_time_travel_and_increments")
@pytest.mark.parametrize(
    ("version", "partitioning"),
    [(3, ""), (2, "partitioned by (day, bucket(4, id))"), (3, "partitioned by (days(at), truncate(1, name))")],
)
def test_the_same_rows_as_the_client_finds(sql: Sql, namespace: str, partitioning: str, version: int) -> None:
    table = f"{namespace}.t"
    make(sql, f"main_.{table}", partitioning, version)
    sql(f"delete from main_.{table} where id = 2")
    sql(f"update main_.{table} set price = 99.75 where name = 'b3'")
    same(sql, table, FILTERS[:2])
    sql(f"alter table main_.{table} add column extra string")
    sql(f"alter table main_.{table} add partition field extra")
    sql(
        f"insert into main_.{table} values (12L, 'b12', null, null, null, null, 'x'), (3L, 'c', null, null, null, null, null)"
    )
    same(sql, table)
    rewritten = "merge into planned.{0} t using (select 12L as id) s on t.id = s.id when matched then delete".format(
        table
    )
    sql(rewritten)
    sql(f"delete from planned.{table} where extra = 'x' or id = 5")
    same(sql, table, FILTERS[:2])


def same(sql: Sql, table: str, filters: Sequence[str] = FILTERS) -> None:
    assert sql(f"select * from planned.{table}") == sql(f"select * from main_.{table}")
    for wanted in filters:
        query = f"select * from {{}}.{table} where {wanted}"
        assert sql(query.format("planned")) == sql(query.format("main_")), wanted
    assert sql(f"select count(*), max(id) from planned.{table}") == sql(f"select count(*), max(id) from main_.{table}")
    assert len(sql(f"select * from planned.{table} limit 3")) == 3


def test_branches_tags_time_travel_and_increments(sql: Sql, session: Any, namespace: str) -> None:
    table = f"{namespace}.t"
    make(sql, f"main_.{table}", "partitioned by (day)", 2)
    # Iceberg looks the name up in the thread's active session, which no statement has to have left behind.
    session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
    loaded = session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        session._jsparkSession, f"planned.{table}"
    )
    assert loaded.getClass().getSimpleName() == "RESTTable"
    assert loaded.newScan().getClass().getSimpleName() == "RESTTableScan"
    [(first,), (second,)] = sql(f"select snapshot_id from main_.{table}.snapshots order by committed_at")
    sql(f"alter table a.{table} add column extra string")
    sql(f"alter table a.{table} drop column price")
    sql(f"insert into a.{table} values (20L, 'a20', null, null, null, 'x')")
    assert sql(f"select * from planned_a.{table}") == sql(f"select * from a.{table}")
    assert sql(f"select id from planned_a.{table} where extra = 'x'") == [(20,)]
    assert sql(f"select * from planned.{table}") == sql(f"select * from main_.{table}")
    for reader in ("planned_a", "planned"):
        other = {"planned_a": "a", "planned": "main_"}[reader]
        for what in (f"version as of {first}", f"version as of {second}"):
            assert sql(f"select * from {reader}.{table} {what}") == sql(f"select * from {other}.{table} {what}")
    sql(f"alter table a.{table} create tag v1")
    sql(f"insert into a.{table} values (21L, 'a21', null, null, null, 'y')")
    assert sql(f"select id from planned_a.{table}.tag_v1 where extra is not null") == [(20,)]
    assert sql(f"select id from planned.{table}.`branch_feature/a` where id >= 20") == [(20,), (21,)]
    reader = session.read.option("start-snapshot-id", first).option("end-snapshot-id", second)
    assert [row.id for row in reader.table(f"planned.{table}").collect()] == [11]
