"""Tables that Spark wrote, copy-on-write and merge-on-read, versions 2 and 3, against the brute-force oracle.

The rows of each snapshot are read back through Spark itself, so nothing of the engine takes part in the expectation.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from jobs.changelog import apply_changelog, read_changelog
from jobs.protocol import SideRef
from tests.factories import engine as tables
from tests.factories.spark import QUICK, new_session
from tests.factories.tiers import further, thin
from tests.property import engine_oracle as oracle

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

COLUMNS = ["id", "part", "v", "d", "b", "s", "l", "m"]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("engine-spark")
    key = "spark.sql.catalog.c"
    catalog = {
        key: "org.apache.iceberg.spark.SparkCatalog",
        f"{key}.type": "hadoop",
        f"{key}.warehouse": f"file://{root}",
    }
    session = new_session({**QUICK, **catalog})
    session.root = root
    return session


def create(spark: Any, name: str, *, version: int, mode: str, partitioned: bool) -> str:
    table = f"c.n.{name}"
    how = "PARTITIONED BY (part)" if partitioned else ""
    spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, part STRING, v DOUBLE, d DECIMAL(9,2), b BINARY, "
        f"s STRUCT<x: DOUBLE, y: STRING>, l ARRAY<STRUCT<z: INT>>, m MAP<STRING, DOUBLE>) USING iceberg {how} "
        f"TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', "
        f"'write.merge.mode'='{mode}')"
    )
    return table


def insert(spark: Any, table: str, first: int, last: int) -> None:
    spark.sql(
        f"INSERT INTO {table} SELECT id, concat('p', id % 3), IF(id % 7 = 0, double('NaN'), id / 4), "
        "CAST(id / 10 AS DECIMAL(9,2)), encode(concat('b', id), 'UTF-8'), "
        "IF(id % 5 = 0, NULL, named_struct('x', CAST(id AS DOUBLE), 'y', IF(id % 2 = 0, '', 'odd'))), "
        "IF(id % 4 = 0, NULL, array(named_struct('z', CAST(id AS INT)))), "
        "map('k', CAST(id AS DOUBLE), 'j', IF(id % 6 = 0, NULL, 0.5D)) "
        f"FROM range({first}, {last})"
    )


def change(spark: Any, table: str) -> None:
    """Some of everything, in several commits."""
    spark.sql(f"UPDATE {table} SET v = v + 1 WHERE id % 10 = 3")
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 5")
    insert(spark, table, 200, 215)
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT id, 'p1' AS part FROM range(190, 230)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 2 = 0 THEN UPDATE SET t.s = named_struct('x', -1D, 'y', CAST(NULL AS STRING)), "
        "t.part = s.part WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id, part, v, d, b, s, l, m) "
        "VALUES (s.id, s.part, -0.0D, NULL, NULL, NULL, NULL, NULL)"
    )


def metadata_of(spark: Any, table: str) -> str:
    folder = Path(spark.root) / "n" / table.rsplit(".", 1)[1] / "metadata"
    version = (folder / "version-hint.text").read_text().strip()
    return f"file://{folder}/v{version}.metadata.json"


def snapshots(spark: Any, table: str) -> list[int]:
    rows = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect()
    return [row[0] for row in rows]


def rows_of(spark: Any, table: str, snapshot_id: int | None) -> list[dict[str, Any]]:
    if snapshot_id is None:
        return []
    rows = spark.sql(f"SELECT * FROM {table} VERSION AS OF {snapshot_id}").collect()
    return [plain(row.asDict(recursive=True)) for row in rows]


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A Spark row in the form in which Arrow reads Parquet."""
    found = dict(row)
    found["b"] = None if row["b"] is None else bytes(row["b"])
    found["m"] = None if row["m"] is None else list(row["m"].items())
    return found


def check(spark: Any, folder: Path, table: str, before: int | None, after: int | None) -> dict[str, Any]:
    location = metadata_of(spark, table)
    old, new = rows_of(spark, table, before), rows_of(spark, table, after)
    sides = SideRef(location, before, 0), SideRef(location, after, 0)
    wanted = oracle.by_key(old, new, ["id"], COLUMNS)
    keyed = tables.diff(folder, *sides, key=["id"])
    indexes = list(range(len(COLUMNS)))
    assert wanted is not None
    assert keyed["mode"] == "identifier"
    assert oracle.stored(keyed["rows"], indexes) == wanted
    net = tables.diff(folder, *sides)
    assert oracle.stored(net["rows"], indexes) == oracle.net(old, new, COLUMNS)
    assert (net["before_rows"], net["after_rows"]) == (len(old), len(new))
    return keyed


@pytest.mark.parametrize(
    ("version", "mode", "partitioned"),
    thin(
        [
            (1, "copy-on-write", False),
            (2, "copy-on-write", True),
            (2, "merge-on-read", False),
            (2, "merge-on-read", True),
            (3, "copy-on-write", False),
            (3, "merge-on-read", True),
        ],
        every_run=[(3, "merge-on-read", True)],
    ),
)
def test_diff_of_a_spark_history(spark: Any, tmp_path: Path, version: int, mode: str, partitioned: bool) -> None:
    name = f"t{version}{mode[0]}{partitioned:d}"
    table = create(spark, name, version=version, mode=mode, partitioned=partitioned)
    insert(spark, table, 0, 100)
    insert(spark, table, 100, 200)
    change(spark, table)
    found = snapshots(spark, table)
    start, end = found[1], found[-1]
    keyed = check(spark, tmp_path, table, start, end)
    assert min(keyed["inserted"], keyed["deleted"], keyed["updated"]) > 0
    check(spark, tmp_path, table, end, start)
    check(spark, tmp_path, table, None, found[-2])
    for before, after in zip(found[1:], found[2:], strict=False):
        check(spark, tmp_path, table, before, after)


@further("spark/engine/test_write_styles.py::test_the_laws_hold_of_what_several_programs_wrote")
@pytest.mark.parametrize(
    ("version", "mode"),
    [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")],
)
def test_changelog_of_a_spark_history(spark: Any, version: int, mode: str) -> None:
    table = create(spark, f"log{version}{mode[0]}", version=version, mode=mode, partitioned=True)
    insert(spark, table, 0, 100)
    insert(spark, table, 100, 200)
    change(spark, table)
    found: list[int | None] = [None, *snapshots(spark, table)]
    rows = [Counter(oracle.row_of(row, COLUMNS) for row in rows_of(spark, table, snapshot)) for snapshot in found]
    iceberg = StaticTable.from_metadata(metadata_of(spark, table))
    last = len(found) - 1
    for first in range(last):
        for keys in (None, ["id"]):
            told = read_changelog(iceberg, keys=keys, start=found[first], end=found[last]).to_pylist()
            left = rows[first].copy()
            for row in told:
                left[oracle.row_of(row, COLUMNS)] += 1 if row["_change_type"] in ("INSERT", "UPDATE_AFTER") else -1
            assert {row: count for row, count in left.items() if count} == rows[last]
            assert {row["_change_ordinal"] for row in told} <= set(range(first, last))


@pytest.mark.parametrize("keys", thin([None, ["id"]], every_run=[["id"]]))
def test_the_documented_deduplication_keeps_every_update(spark: Any, tmp_path: Path, keys: list[str] | None) -> None:
    source = create(spark, "deduplicated", version=2, mode="copy-on-write", partitioned=False)
    insert(spark, source, 0, 2000)
    start = snapshots(spark, source)[-1]
    spark.sql(f"UPDATE {source} SET v = -1 WHERE id % 2 = 0")
    spark.sql(f"DELETE FROM {source} WHERE id % 10 = 5")
    end = snapshots(spark, source)[-1]
    iceberg = StaticTable.from_metadata(metadata_of(spark, source))
    changelog_df = spark.createDataFrame(read_changelog(iceberg, keys=keys, start=start, end=end)).coalesce(1)
    window = Window.partitionBy("id").orderBy(F.col("_change_ordinal").desc())
    deduped_df = (
        changelog_df.withColumn("_row_number", F.row_number().over(window))
        .filter("_row_number = 1")
        .drop("_row_number")
    )
    output = tables.make_table(tmp_path, iceberg.scan(snapshot_id=start).to_arrow().schema)
    output.append(iceberg.scan(snapshot_id=start).to_arrow())
    apply_changelog(output, deduped_df.toArrow(), ["id"], from_empty=False)
    columns = ["id", "part", "v", "d", "b", "s", "l"]
    applied = Counter(oracle.row_of(row, columns) for row in output.scan().to_arrow().to_pylist())
    assert applied == Counter(oracle.row_of(row, columns) for row in rows_of(spark, source, end))


def test_compaction_and_an_equal_overwrite_change_nothing(spark: Any, tmp_path: Path) -> None:
    table = create(spark, "compacted", version=2, mode="merge-on-read", partitioned=False)
    insert(spark, table, 0, 100)
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 5")
    start = snapshots(spark, table)[-1]
    spark.sql("CALL c.system.rewrite_data_files(table => 'n.compacted', options => map('rewrite-all', 'true'))")
    spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")
    keyed = check(spark, tmp_path, table, start, snapshots(spark, table)[-1])
    assert keyed["stored_rows"] == 0
    assert keyed["unchanged"] == 90


def test_a_branch_without_ancestry_to_the_other_end(spark: Any, tmp_path: Path) -> None:
    table = create(spark, "branched", version=2, mode="merge-on-read", partitioned=False)
    insert(spark, table, 0, 60)
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH x")
    spark.sql(f"UPDATE {table}.branch_x SET v = 0 WHERE id = 1")
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    refs = {row[0]: row[1] for row in spark.sql(f"SELECT name, snapshot_id FROM {table}.refs").collect()}
    keyed = check(spark, tmp_path, table, refs["main"], refs["x"])
    assert (keyed["inserted"], keyed["deleted"], keyed["updated"]) == (1, 0, 1)


def test_initial_defaults_of_version_3(spark: Any, tmp_path: Path) -> None:
    table = create(spark, "defaulted", version=3, mode="copy-on-write", partitioned=False)
    insert(spark, table, 0, 10)
    start = snapshots(spark, table)[-1]
    location = metadata_of(spark, table)
    raw = json.loads(Path(location.removeprefix("file://")).read_text())
    schema = raw["schemas"][0]
    newer = {**schema, "schema-id": 1, "fields": [*schema["fields"]]}
    newer["fields"].append(
        {"id": 90, "name": "flag", "type": "string", "required": False, "initial-default": "it's old"}
    )
    raw["schemas"].append(newer)
    target = tmp_path / "evolved.metadata.json"
    target.write_text(json.dumps(raw))
    keyed = tables.diff(tmp_path, None, SideRef(f"file://{target}", start, 1), key=["id"])
    assert {row["a8"] for row in keyed["rows"]} == {"it's old"}
