"""Branch isolation under a real Spark: what a branch writes, travels to and lists, and what maintenance on main leaves alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.contract.catalog.conftest import Rows, Server, Sql
from tests.factories.tiers import further

pytestmark = [pytest.mark.contract, pytest.mark.spark, pytest.mark.timeout(240)]
WEEK_S = 7 * 24 * 3600
# Of the metadata tables what is a branch's own. Their partition columns are those of all specs of the table, as in standard
# Iceberg, and so are their columns with statistics.
LISTS = {
    "history": "*",
    "files": "file_path, record_count, spec_id",
    "partitions": "record_count, file_count, last_updated_snapshot_id",
    "manifests": "path, partition_spec_id, added_snapshot_id",
    "entries": "status, snapshot_id, sequence_number",
}


def everything(sql: Sql, table: str) -> dict[str, Rows]:
    """All that a reader can tell of a table's own state."""
    found = {name: sql(f"select {columns} from {table}.{name}") for name, columns in LISTS.items()}
    return found | {"rows": sql(f"select * from {table}"), "columns": sql(f"describe {table}")}


@pytest.fixture
def dynamic(session: Any) -> Iterator[None]:
    """Overwrites replace the partitions that they write."""
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    yield
    session.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_every_kind_of_write_on_a_branch_leaves_main_as_it_was(sql: Sql, namespace: str, dynamic: None) -> None:
    table = f"{namespace}.t"
    mode = ", ".join(f"'write.{kind}.mode' = 'merge-on-read'" for kind in ("delete", "update", "merge"))
    sql(f"create table main_.{table} (id bigint, day string) partitioned by (day) tblproperties ({mode})")
    sql(f"insert into main_.{table} values (1, 'mon'), (2, 'tue'), (3, 'wed')")
    before = everything(sql, f"main_.{table}")
    sql(f"alter table a.{table} add column note string")
    sql(f"insert overwrite a.{table} values (20, 'tue', 'new')")
    assert sql(f"select * from a.{table} order by id") == [(1, "mon", None), (3, "wed", None), (20, "tue", "new")]
    sql(
        f"merge into a.{table} t using (select * from values (1L, 'x'), (9L, 'y') as s(id, note)) s on t.id = s.id "
        "when matched then update set note = s.note when not matched then insert (id, day, note) values (s.id, 'sun', s.note)"
    )
    sql(f"delete from a.{table} where id = 3")
    sql(f"update a.{table} set note = 'z' where id = 20")
    expected = [(1, "mon", "x"), (9, "sun", "y"), (20, "tue", "z")]
    assert sql(f"select * from a.{table} order by id") == expected
    sql(f"alter table a.{table} replace partition field day with bucket(2, id)")
    sql(f"alter table a.{table} write ordered by id desc")
    sql(f"insert into a.{table} values (30, 'sat', null)")
    sql(f"call a.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
    assert sql(f"select * from a.{table} order by id") == [*expected, (30, "sat", None)]
    assert everything(sql, f"main_.{table}") == before
    assert everything(sql, f"b.{table}")["rows"] == before["rows"]
    sql(f"insert into main_.{table} values (4, 'thu')")
    assert len(sql(f"select * from main_.{table}")) == 4


def test_a_branch_travels_its_own_history(sql: Sql, namespace: str) -> None:
    table = f"{namespace}.t"
    sql(f"create table main_.{table} (id bigint)")
    sql(f"insert into main_.{table} values (1)")
    sql(f"alter table a.{table} add column extra string")
    sql(f"insert into a.{table} values (2, 'x')")
    time.sleep(0.01)
    sql(f"insert into main_.{table} values (9)")
    sql(f"insert into a.{table} values (3, 'y')")
    log = sql(f"select snapshot_id, made_current_at from a.{table}.history order by made_current_at")
    [main_head] = [row[0] for row in sql(f"select snapshot_id from main_.{table}.refs where name = 'main'")]
    assert len(log) == 3
    assert main_head not in {row[0] for row in log}
    second, at = log[1]
    for travel in (f"version as of {second}", f"timestamp as of '{at}'"):
        assert sql(f"select * from a.{table} {travel}") == [(1, None), (2, "x")]
    assert sql(f"select * from a.{table} version as of {main_head}") == [(1,), (9,)]
    assert sql(f"select snapshot_id from a.{table}.refs where name = 'main'") == [(log[2][0],)]
    assert sql(f"select snapshot_id from a.{table}.refs where name = 'master'") == [(main_head,)]
    assert sum(row[0] for row in sql(f"select record_count from a.{table}.files")) == 3
    assert sum(row[0] for row in sql(f"select record_count from main_.{table}.files")) == 2
    # Without the header snapshots have their own schemas and branches have main's, as in standard Iceberg.
    assert sql(f"select * from main_.{table} version as of {second}") == [(1, None), (2, "x")]
    assert sql(f"select * from main_.{table}.`branch_feature/a` order by id") == [(1,), (2,), (3,)]
    sql(f"alter table main_.{table} create tag kept as of version {second}")
    for reader in ("a", "b", "main_"):
        assert len(sql(f"select * from {reader}.{table} version as of 'kept'")) == 2


@further("contract/catalog/test_catalog_spark.py::test_maintenance_on_main_breaks_no_branch")
def test_maintenance_that_really_removes_breaks_no_branch(server: Server, sql: Sql, namespace: str) -> None:
    table = f"{namespace}.t"
    sql(f"create table main_.{table} (id bigint)")
    for number in (1, 2, 3):
        sql(f"insert into main_.{table} values ({number})")
    sql(f"alter table a.{table} add column extra string")
    sql(f"insert into a.{table} values (4, 'x')")
    sql(f"insert into b.{table} values (5)")
    rows = {reader: sql(f"select * from {reader}.{table}") for reader in ("main_", "a", "b")}
    sql(f"call main_.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
    sql(f"call main_.system.rewrite_manifests('{table}')")
    assert len(sql(f"select * from main_.{table}.files")) == 1
    snapshots = len(sql(f"select * from main_.{table}.snapshots"))
    sql(
        f"call main_.system.expire_snapshots(table => '{table}', retain_last => 1, older_than => timestamp '2999-01-01')"
    )
    assert len(sql(f"select * from main_.{table}.snapshots")) < snapshots
    location = Path(urlsplit(server.pyiceberg().load_table(table).location()).path)
    orphan = location / "data" / "orphan.parquet"
    orphan.write_bytes(b"nobody's")
    # Orphans are only looked for among files older than three days.
    long_ago = time.time() - WEEK_S
    for path in location.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    found = sql(f"call main_.system.remove_orphan_files(table => '{table}')")
    assert str(orphan) in str(found)
    assert not orphan.exists()
    assert {reader: sql(f"select * from {reader}.{table}") for reader in rows} == rows
    sql(f"insert into a.{table} values (6, 'y')")
    assert len(sql(f"select * from a.{table}")) == 5


@pytest.mark.parametrize(
    "values",
    [["a", "a"], ["a", "b"], [""], ["a,b"], ["x" * 300], ["a b"], ["../a"], ["a\t"], ["b\xf6"], ["_job/1"], ["a.lock"]],
    ids=["twice", "two", "empty", "list", "long", "space", "dots", "tab", "latin", "internal", "lock"],
)
def test_a_header_that_is_no_branch_never_shows_another_one(server: Server, namespace: str, values: list[str]) -> None:
    server.pyiceberg().create_namespace_if_not_exists(namespace)
    parts = urlsplit(server.uri)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=20)
    connection.putrequest("GET", f"{parts.path}/v1/namespaces")
    connection.putheader("Authorization", f"Bearer {server.token}")
    for value in values:
        connection.putheader("X-PLTR-Branch", value.encode("latin-1"))
    connection.endheaders()
    answer = connection.getresponse()
    expected = (200,) if values in (["a\t"], ["_job/1"]) else (400,)
    assert answer.status in expected, answer.read()
    connection.close()
