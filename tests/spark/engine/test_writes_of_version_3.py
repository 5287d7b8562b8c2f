"""Tables of format version 3 that light transforms and Spark write in turn: rows, their ids, deletion vectors, branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from jobs.changelog import apply_changelog, read_changelog
from jobs.engine.plan.counts import count_rows
from jobs.engine.read.catalog import open_catalog
from jobs.engine.write.writer import write_table
from tests.contract.catalog.conftest import Server
from tests.factories import engine as tables
from tests.factories.tiers import thin
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

    def vectors(self) -> int:
        """How many deletion vectors are listed."""
        return int(self.sql(f"SELECT count(*) FROM {self.name}.delete_files").collect()[0][0])


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


def applied(server: Server, table: Any, *changes: tuple[int, str, str]) -> Any:
    """Changes applied to a table as a light transform applies them."""
    ids, values, kinds = zip(*changes, strict=True)
    log = pa.table({"id": ids, "value": values, "_change_type": kinds})
    loaded = load(server, table)
    apply_changelog(loaded, log, ["id"], from_empty=False)
    return loaded


@pytest.mark.parametrize("mode", thin(["merge-on-read", "copy-on-write"], every_run=["merge-on-read"]))
def test_changed_rows_keep_their_ids_and_take_vectors_with_them(
    shared: Shared, catalog_server: Server, tmp_path: Path, mode: str
) -> None:
    table = make(shared, tmp_path)
    seen = Seen(shared, table)
    write(load(catalog_server, table), 1, 2, 3)
    write(load(catalog_server, table), 4, 5, 6)
    write(load(catalog_server, table), 7, 8)
    seen.sql(f"ALTER TABLE {seen.name} SET TBLPROPERTIES ('write.merge.mode' = '{mode}')")
    seen.sql(f"DELETE FROM {seen.name} WHERE id IN (2, 5)")
    assert seen.vectors() == 2
    before, start = seen.rows(), load(catalog_server, table).current_snapshot()
    end = applied(
        catalog_server, table, (1, "new", "UPDATE_AFTER"), (3, "", "DELETE"), (9, "nine", "INSERT"), (2, "", "DELETE")
    )
    after = seen.rows()
    assert len(list(end.metadata.snapshots)) == 5
    # the row that changed is the row it was; one that stays in a rewritten file, and those of other files, are as before
    assert after.pop(1) == (before.pop(1)[0], 5)
    assert after.pop(9)[0] >= 8
    del before[3]
    assert after == before
    assert seen.vectors() == 1
    snapshot = end.current_snapshot()
    assert (snapshot.summary["total-delete-files"], snapshot.summary["total-position-deletes"]) == ("1", "1")
    found = read_changelog(end, keys=["id"], start=start.snapshot_id, end=snapshot.snapshot_id).to_pylist()
    assert sorted((row["id"], row["value"], row["_change_type"]) for row in found) == [
        (1, "light 1", "UPDATE_BEFORE"),
        (1, "new", "UPDATE_AFTER"),
        (3, "light 3", "DELETE"),
        (9, "nine", "INSERT"),
    ]
    ends = (tables.side(end, start.snapshot_id), tables.side(end, snapshot.snapshot_id))
    told = tables.diff(tmp_path / "diff", *ends, key=["id"])
    assert [told[count] for count in ("inserted", "deleted", "updated")] == [1, 1, 1]
    # Spark goes on from there, and so does the next light transform
    last = seen.rows()
    seen.sql(
        f"MERGE INTO {seen.name} t USING (SELECT * FROM VALUES (1L, 'spark'), (4L, 'spark'), (10L, 'ten') AS s(id, value)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.value = s.value WHEN NOT MATCHED THEN INSERT *"
    )
    merged = seen.rows()
    assert (merged[1], merged[4]) == ((last[1][0], 6), (last[4][0], 6))
    assert {number: merged[number] for number in (6, 7, 8, 9)} == {number: last[number] for number in (6, 7, 8, 9)}
    applied(catalog_server, table, (1, "again", "UPDATE_AFTER"), (10, "", "DELETE"), (7, "seven", "UPDATE_AFTER"))
    final = seen.rows()
    assert (final[1], final[7]) == ((last[1][0], 7), (last[7][0], 7))
    assert {n: final[n] for n in (4, 6, 8, 9)} == {n: merged[n] for n in (4, 6, 8, 9)}
    assert 10 not in final
    values = seen.sql(f"SELECT id, value FROM {seen.name} WHERE id IN (1, 7) ORDER BY id").collect()
    assert [tuple(row) for row in values] == [(1, "again"), (7, "seven")]


def test_changes_to_a_partitioned_table_that_was_of_version_2(
    shared: Shared, catalog_server: Server, tmp_path: Path
) -> None:
    table = make(shared, tmp_path, version=2)
    seen = Seen(shared, table)
    seen.sql(f"ALTER TABLE {seen.name} ADD PARTITION FIELD bucket(2, id)")
    write(load(catalog_server, table), 1, 2, 3, 4, 5, 6)
    seen.sql(f"DELETE FROM {seen.name} WHERE id = 2")
    seen.sql(f"ALTER TABLE {seen.name} SET TBLPROPERTIES ('format-version' = '3')")
    end = applied(catalog_server, table, (1, "new", "UPDATE_AFTER"), (20, "come", "INSERT"))
    found = seen.rows()
    assert sorted(found) == [1, 3, 4, 5, 6, 20]
    assert all(number is not None for row in found.values() for number in row)
    assert end.metadata.next_row_id > max(row for row, _ in found.values())
    # from now on they stay
    applied(catalog_server, table, (1, "", "DELETE"), (3, "new", "UPDATE_AFTER"), (4, "new", "UPDATE_AFTER"))
    later = seen.rows()
    assert {number: row[0] for number, row in later.items()} == {n: row[0] for n, row in found.items() if n != 1}
    assert {n: later[n] for n in (5, 6, 20)} == {n: found[n] for n in (5, 6, 20)}


def test_a_column_with_the_name_of_the_ids_is_refused(shared: Shared, catalog_server: Server, tmp_path: Path) -> None:
    table = make(shared, tmp_path)
    write(load(catalog_server, table), 1)
    log = pa.table({"id": [1], "value": ["new"], "_Row_Id": [4], "_change_type": ["INSERT"]})
    with pytest.raises(
        Exception, match="apply_changelog failed: column '_row_id' is how tables of format version 3 tell"
    ):
        apply_changelog(load(catalog_server, table), log, ["id"], from_empty=False)
