"""What a real, unmodified Spark sees. One session, three catalogs over one server: no header, branch feature/a, branch b."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.catalog.conftest import Sql

pytestmark = [pytest.mark.contract, pytest.mark.spark, pytest.mark.timeout(240)]


def columns(sql: Sql, table: str) -> list[str]:
    return [row[0] for row in sql(f"show columns in {table}")]


def fingerprint(sql: Sql, table: str) -> tuple[Any, ...]:
    """Schema, partitioning, head, log and rows, as one reader sees them."""
    return (
        [row for row in sql(f"describe {table}")],
        sql(f"select snapshot_id, made_current_at from {table}.history order by made_current_at"),
        sql(f"select * from {table}"),
    )


def test_creating_on_a_branch(sql: Sql, namespace: str) -> None:
    """The first worked example, with CTAS, partitioned, so that files carry a spec id."""
    table = f"{namespace}.scores"
    sql(f"create table a.{table} partitioned by (k) as select * from values (1, 0.9d), (2, 0.7d) as t(k, score)")
    assert sql(f"select * from a.{table}") == [(1, 0.9), (2, 0.7)]
    assert sql(f"select * from a.{table} where k = 2") == [(2, 0.7)]
    assert columns(sql, f"main_.{table}") == []
    assert sql(f"select * from main_.{table}") == sql(f"select * from b.{table}") == []
    sql(f"create or replace table b.{table} as select 'x' as name")
    assert sql(f"select * from b.{table}") == [("x",)]
    assert sql(f"select * from a.{table}") == [(1, 0.9), (2, 0.7)]
    assert columns(sql, f"main_.{table}") == []
    assert (
        sql(f"show tables in main_.{namespace}")
        == sql(f"show tables in a.{namespace}")
        == [(namespace, "scores", False)]
    )


def test_evolving_on_a_branch(sql: Sql, namespace: str) -> None:
    """The second worked example, and every other way a branch may go its own."""
    table = f"{namespace}.t"
    sql(f"create table main_.{table} (id bigint, name string, point struct<x: int, y: int>)")
    sql(f"insert into main_.{table} values (1, 'x', named_struct('x', 1, 'y', 2)), (2, 'y', null)")
    before = fingerprint(sql, f"main_.{table}")
    assert sql(f"select id from a.{table}") == [(1,), (2,)]
    sql(f"alter table a.{table} add columns (score double, point.z int)")
    sql(f"alter table a.{table} drop column name")
    sql(f"alter table a.{table} rename column id to key")
    sql(f"alter table a.{table} alter column score first")
    sql(f"alter table a.{table} add partition field bucket(4, key)")
    sql(f"alter table a.{table} write ordered by score")
    sql(f"insert into a.{table} values (0.5, 3, named_struct('x', 7, 'y', 8, 'z', 9))")
    sql(f"alter table a.{table} add column newest string")
    sql(f"alter table a.{table} drop column newest")
    assert columns(sql, f"a.{table}") == ["score", "key", "point"]
    assert sql(f"select score, key, point.z from a.{table} order by key") == [
        (None, 1, None),
        (None, 2, None),
        (0.5, 3, 9),
    ]
    sql(f"merge into a.{table} t using (select 3L as key) s on t.key = s.key when matched then update set score = 1.5d")
    sql(f"update a.{table} set score = 2.5d where key = 1")
    sql(f"delete from a.{table} where key = 2")
    assert sql(f"select score, key from a.{table} order by key") == [(2.5, 1), (1.5, 3)]
    assert fingerprint(sql, f"main_.{table}") == before
    assert sql(f"select id from b.{table}") == [(1,), (2,)]
    sql(f"insert overwrite a.{table} values (9.0d, 9, null)")
    assert sql(f"select score, key from a.{table}") == [(9.0, 9)]
    sql(f"create or replace table a.{table} (only string)")
    assert sql(f"select * from a.{table}") == []
    sql(f"insert into a.{table} values ('one')")
    assert fingerprint(sql, f"main_.{table}") == before
    sql(f"insert into main_.{table} values (3, 'z', null)")
    assert sql(f"select * from a.{table}") == [("one",)]


def test_a_type_change_that_readers_of_one_branch_must_not_see_in_another(sql: Sql, namespace: str) -> None:
    table = f"{namespace}.t"
    sql(f"create table main_.{table} (id bigint, v int)")
    sql(f"insert into main_.{table} values (1, 1)")
    sql(f"create or replace table a.{table} as select 'c1' as id, 2L as v")
    sql(f"insert into b.{table} values (5, 5)")
    for reader in ("a", "b"):
        assert sql(f"select * from {reader}.{table}.`branch_feature/a`") == [("c1", 2)]
        assert sql(f"select * from {reader}.{table}.branch_b") == [(1, 1), (5, 5)]
        assert sql(f"select * from {reader}.{table}.branch_master") == [(1, 1)]
    assert sql(f"select * from a.{table}.branch_main") == [("c1", 2)]
    assert sql(f"select * from b.{table}.branch_main") == [(1, 1), (5, 5)]
    sql(f"insert into b.{table}.`branch_feature/a` values ('c2', 3L)")
    assert sql(f"select * from a.{table}") == [("c1", 2), ("c2", 3)]
    assert sql(f"select * from b.{table}") == [(1, 1), (5, 5)]
    sql(f"create table main_.{namespace}.inner_ as select 1 as one")
    assert sql(f"select * from main_.{table}.branch_b") == [(1, 1), (5, 5)]


def test_time_travel_tags_and_metadata_tables(sql: Sql, namespace: str) -> None:
    table = f"{namespace}.t"
    sql(f"create table main_.{table} (id bigint)")
    sql(f"insert into main_.{table} values (1)")
    [(first, at)] = sql(f"select snapshot_id, committed_at from main_.{table}.snapshots")
    sql(f"alter table a.{table} add column extra string")
    sql(f"insert into a.{table} values (2, 'x')")
    assert sql(f"select * from a.{table} version as of {first}") == [(1,)]
    assert sql(f"select * from a.{table} timestamp as of '{at}'") == [(1,)]
    assert [row[0] for row in sql(f"select snapshot_id from a.{table}.history order by made_current_at")][0] == first
    assert len(sql(f"select * from a.{table}.history")) == 2
    assert len(sql(f"select * from main_.{table}.history")) == 1
    assert {row[0] for row in sql(f"select name from a.{table}.refs")} == {"main", "master", "feature/a"}
    assert {row[0] for row in sql(f"select name from main_.{table}.refs")} == {"main", "feature/a"}
    assert len(sql(f"select * from a.{table}.files")) == 2
    sql(f"alter table a.{table} create tag v1")
    sql(f"insert into a.{table} values (3, 'y')")
    assert len(sql(f"select * from a.{table} version as of 'v1'")) == 2
    assert sql(f"select * from a.{table}.tag_v1") == [(1, None), (2, "x")]
    sql(f"alter table a.{table} create branch c")
    assert sql(f"select * from b.{table}.branch_c") == [(1, None), (2, "x"), (3, "y")]
    assert sql(f"select * from main_.{table}.branch_c") == [(1,), (2,), (3,)]
    sql(f"alter table a.{table} drop branch c")


def test_refused_from_a_branch_with_what_to_do_instead(sql: Sql, refused: Callable[..., None], namespace: str) -> None:
    table = f"{namespace}.t"
    sql(f"create table main_.{table} (id bigint)")
    refused(f"drop table a.{table}", "dropTable cannot be called from branch feature/a", "delete the branch")
    refused(f"alter table a.{table} rename to {namespace}.u", "renameTable cannot be called")
    refused(f"drop namespace a.{namespace}", "dropNamespace cannot be called", "without the X-PLTR-Branch header")
    refused(f"alter namespace a.{namespace} set properties (x = '1')", "cannot be called from branch")
    refused(f"alter table a.{table} set tblproperties ('format-version' = '3')", "run maintenance on master")
    refused(
        f"alter table main_.{table} set tblproperties ('foundry.branch.b.schema-id' = '0')", "belongs to the catalog"
    )
    refused(f"alter table main_.{table} set location 'file:///tmp/x'", "location")
    refused(f"create table main_.{namespace}.x (id bigint) location 'file:///tmp/x'", "location")
    assert sql(f"select * from main_.{table}") == []


def test_maintenance_on_main_breaks_no_branch(sql: Sql, refused: Callable[..., None], namespace: str) -> None:
    table = f"{namespace}.t"
    sql(f"create table main_.{table} (id bigint)")
    for number in (1, 2, 3):
        sql(f"insert into main_.{table} values ({number})")
    sql(f"alter table a.{table} add column extra string")
    sql(f"alter table a.{table} add partition field extra")
    sql(f"insert into a.{table} values (4, 'x')")
    sql(f"alter table b.{table} add column unused string")
    expire = f"call main_.system.expire_snapshots(table => '{table}', retain_last => 1, older_than => timestamp '2999-01-01 00:00:00'"
    refused(expire + ", clean_expired_metadata => true)", "uses it")
    sql(expire + ")")
    sql(f"call main_.system.rewrite_data_files(table => '{table}', options => map('min-input-files', '2'))")
    sql(f"call main_.system.rewrite_manifests('{table}')")
    sql(
        f"call main_.system.remove_orphan_files(table => '{table}', dry_run => false, older_than => timestamp '2020-01-01 00:00:00')"
    )
    assert sql(f"select * from main_.{table}") == [(1,), (2,), (3,)]
    assert sql(f"select * from a.{table} order by id") == [(1, None), (2, None), (3, None), (4, "x")]
    assert sql(f"select * from b.{table} order by id") == [(1, None), (2, None), (3, None)]


def test_cherry_pick_and_fast_forward_move_only_snapshots(sql: Sql, namespace: str) -> None:
    table = f"{namespace}.t"
    sql(f"create table main_.{table} (id bigint)")
    sql(f"insert into main_.{table} values (1)")
    sql(f"alter table a.{table} add column extra string")
    sql(f"insert into a.{table} values (2, 'x')")
    sql(f"call main_.system.fast_forward('{table}', 'main', 'feature/a')")
    assert columns(sql, f"main_.{table}") == ["id"]
    assert sql(f"select * from main_.{table}") == [(1,), (2,)]
    sql(f"insert into b.{table} select 3")
    [(head,)] = sql(f"select snapshot_id from b.{table}.refs where name = 'b'")
    sql(f"call main_.system.cherrypick_snapshot('{table}', {head})")
    assert sql(f"select * from main_.{table}") == [(1,), (2,), (3,)]
    assert sql(f"select * from a.{table} order by id") == [(1, None), (2, "x")]


def test_dataframes_write_to_the_branch(session: Any, sql: Sql, namespace: str) -> None:
    table = f"{namespace}.frame"
    frame = session.createDataFrame([(1, "x"), (2, "y")], "id bigint, name string")
    frame.writeTo(f"a.{table}").create()
    frame.writeTo(f"a.{table}").append()
    frame.writeTo(f"a.{table}").overwritePartitions()
    assert session.table(f"a.{table}").count() == 2
    assert session.read.option("branch", "feature/a").table(f"main_.{table}").columns == []
    sql(f"drop table main_.{table} purge")
    assert sql(f"show tables in main_.{namespace}") == []


def test_views(sql: Sql, refused: Callable[..., None], namespace: str) -> None:
    sql(f"create table main_.{namespace}.t as select 1 as one")
    sql(f"create view main_.{namespace}.v as select one, one + 1 as two from main_.{namespace}.t")
    assert sql(f"select * from main_.{namespace}.v") == sql(f"select * from a.{namespace}.v") == [(1, 2)]
    sql(f"create or replace view main_.{namespace}.v as select 3 as three")
    assert sql(f"select * from main_.{namespace}.v") == [(3,)]
    assert [row[1] for row in sql(f"show views in main_.{namespace}")] == ["v"]
    refused(f"create view a.{namespace}.w as select 1 as one", "createView cannot be called from branch")
    refused(f"drop view a.{namespace}.v", "dropView cannot be called from branch")
    sql(f"alter view main_.{namespace}.v rename to main_.{namespace}.w")
    sql(f"drop view main_.{namespace}.w")
    assert sql(f"show views in main_.{namespace}") == []
