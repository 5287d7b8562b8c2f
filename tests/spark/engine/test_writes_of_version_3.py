"""Tables of format version 3 that light transforms and Spark write in turn: rows, their ids, deletion vectors, branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from jobs.changelog import apply_changelog
from jobs.engine.catalog import open_catalog
from jobs.engine.counts import count_rows
from jobs.engine.writer import write_table
from tests.contract.catalog.conftest import Server
from tests.spark.engine.conftest import Shared

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "value", StringType()))


def load(server: Server, table: Any, branch: str = "main") -> Any:
    """The table as a job on some branch loads it."""
    return open_catalog(uri=server.uri, token=server.token, branch=branch).load_table(table.name())


def write(table: Any, *ids: int, is_append: bool = True) -> None:
    data = pa.table({"id": list(ids), "value": [f"light {number}" for number in ids]})
    write_table(table, data.schema, data.to_batches(max_chunksize=2), is_append=is_append)


class Seen:
    """What Spark makes of a table."""

    def __init__(self, shared: Shared, table: Any) -> None:
        self.name = f"tributary.{'.'.join(table.name())}"
        self.sql = shared.session.sql

    def rows(self) -> dict[int, tuple[int, int]]:
        """Id → row id and the snapshot that last changed it."""
        found = self.sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM {self.name}").collect()
        assert len({row[1] for row in found}) == len(found), found
        return {row[0]: (row[1], row[2]) for row in found}


def make(shared: Shared, folder: Path, version: int = 3) -> Any:
    properties = {"format-version": str(version), "write.delete.mode": "merge-on-read"}
    return shared.load(folder, "t", schema=SCHEMA, properties=properties)


def test_light_and_spark_writes_in_turn_give_each_row_an_id_of_its_own(
    shared: Shared, catalog_server: Server, tmp_path: Path
) -> None:
    table = make(shared, tmp_path)
    seen = Seen(shared, table)
    write(load(catalog_server, table), 1, 2, 3)
    assert seen.rows() == {1: (0, 1), 2: (1, 1), 3: (2, 1)}
    seen.sql(f"INSERT INTO {seen.name} VALUES (4, 'spark'), (5, 'spark')")
    before = seen.rows()
    write(load(catalog_server, table), 6, 7)
    after = seen.rows()
    assert {number: after[number] for number in before} == before
    assert (after[6][1], after[7][1]) == (3, 3)
    # the deletion vectors of Spark's own deletes stay in force, and the ids of the rows that are left
    seen.sql(f"DELETE FROM {seen.name} WHERE id IN (2, 6)")
    write(load(catalog_server, table), 8)
    last = seen.rows()
    assert {number: last[number] for number in (1, 3, 4, 5, 7)} == {n: after[n] for n in (1, 3, 4, 5, 7)}
    assert sorted(last) == [1, 3, 4, 5, 7, 8]
    assert count_rows(load(catalog_server, table)) == 6
    # a rewrite by Spark keeps what it was told
    seen.sql(
        f"CALL tributary.system.rewrite_data_files(table => '{'.'.join(table.name())}', options => map('rewrite-all', 'true'))"
    )
    assert seen.rows() == last
    write(load(catalog_server, table), 20, 21, is_append=False)
    replaced = seen.rows()
    assert sorted(replaced) == [20, 21]
    assert min(row for row, _ in replaced.values()) > max(row for row, _ in last.values())
    metadata = load(catalog_server, table).metadata
    assert metadata.next_row_id > max(row for row, _ in replaced.values())


def test_rows_from_before_the_table_had_ids_get_them(shared: Shared, catalog_server: Server, tmp_path: Path) -> None:
    table = make(shared, tmp_path, version=2)
    seen = Seen(shared, table)
    write(load(catalog_server, table), 1, 2)
    seen.sql(f"DELETE FROM {seen.name} WHERE id = 1")
    seen.sql(f"ALTER TABLE {seen.name} SET TBLPROPERTIES ('format-version' = '3')")
    write(load(catalog_server, table), 3)
    found = seen.rows()
    assert sorted(found) == [2, 3]
    assert load(catalog_server, table).metadata.next_row_id >= 3


def test_branches_take_row_ids_of_their_own(shared: Shared, catalog_server: Server, tmp_path: Path) -> None:
    table = make(shared, tmp_path)
    write(load(catalog_server, table), 1)
    stale = load(catalog_server, table, "b")
    write(load(catalog_server, table, "a"), 2, 3)
    # another branch took ids since: the commit is made again with others
    write(stale, 4)
    metadata = load(catalog_server, table).metadata
    first = {snapshot.snapshot_id: (snapshot.first_row_id, snapshot.added_rows) for snapshot in metadata.snapshots}
    spans = sorted((start, start + (added or 0)) for start, added in first.values() if start is not None)
    assert all(one[1] <= other[0] for one, other in zip(spans, spans[1:]))
    assert metadata.next_row_id == 4
    assert sorted(Seen(shared, table).rows()) == [1]


def test_changing_some_rows_is_left_to_spark(shared: Shared, catalog_server: Server, tmp_path: Path) -> None:
    table = make(shared, tmp_path)
    log = pa.table({"id": [1], "value": ["new"], "_change_type": ["INSERT"]})
    apply_changelog(load(catalog_server, table), log, ["id"], from_empty=True)
    loaded = load(catalog_server, table)
    told = "version 3, whose rows keep their ids: apply changes with Spark .@transform.spark.using., or write the output whole"
    with pytest.raises(Exception, match=f"apply_changelog failed: the table has format {told}"):
        apply_changelog(loaded, log, ["id"], from_empty=False)
    # which does it
    shared.apply(table.refresh(), log.set_column(1, "value", pa.array(["newer"])), ["id"], from_empty=False)
    rows = Seen(shared, table)
    assert [tuple(row) for row in rows.sql(f"SELECT id, value, _row_id FROM {rows.name}").collect()] == [
        (1, "newer", 0)
    ]
