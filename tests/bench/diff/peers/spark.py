"""Spark as a peer: Iceberg's own `create_changelog_view`, and a full outer join of both snapshots.

It also writes tables of format version 3, whose rows keep their ids when it changes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.protocol import SideRef
from tests.bench.diff.cases import INSERTED, Case, make_rows, pick
from tests.factories.spark import new_session

if TYPE_CHECKING:
    import numpy as np

CATALOG = "bench"


class SparkPeers:
    """One warm Spark in this process, which finds the tables as those of a folder."""

    def __init__(self, root: Path) -> None:
        self.warehouse = root / "spark"
        key = f"spark.sql.catalog.{CATALOG}"
        catalog = {
            key: "org.apache.iceberg.spark.SparkCatalog",
            f"{key}.type": "hadoop",
            f"{key}.warehouse": f"file://{self.warehouse}",
        }
        self.session = new_session({**catalog, "spark.sql.shuffle.partitions": "8"}, memory="4g", java="")
        self.process: int = self.session.sparkContext._gateway.proc.pid
        self.tables: dict[str, str] = {}

    def table_of(self, case: Case) -> str:
        """Show a case's table to Spark: its newest metadata, where a catalog of folders looks for it."""
        if case.name not in self.tables:
            name = f"t{len(self.tables)}"
            folder = self.warehouse / "n" / name / "metadata"
            folder.mkdir(parents=True)
            content = Path(case.after.metadata_location.removeprefix("file://")).read_bytes()
            (folder / "v1.metadata.json").write_bytes(content)
            (folder / "version-hint.text").write_text("1")
            self.tables[case.name] = f"{CATALOG}.n.{name}"
        return self.tables[case.name]

    def write_version_3(self, rows: int, mode: str) -> Case:
        """A table whose scattered changes are one `MERGE`, copy-on-write or merge-on-read."""
        updated, deleted = pick(rows, clustered=False)
        inserted = int(rows * INSERTED)
        table = f"{CATALOG}.n.{mode.replace('-', '_')}"
        whole = self._show("whole", make_rows(0, rows))
        columns = ", ".join(f"{name} {kind}" for name, kind in self.session.table(whole).dtypes)
        self.session.sql(
            f"CREATE TABLE {table} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '3', "
            f"'write.merge.mode' = '{mode}', 'write.distribution-mode' = 'none')"
        )
        self.session.sql(f"INSERT INTO {table} SELECT * FROM {whole}")
        log = self._show("log", _change_log(updated, deleted, make_rows(rows, rows + inserted)))
        names = self.session.table(whole).columns
        self.session.sql(
            f"MERGE INTO {table} t USING {log} s ON t.k = s.k WHEN MATCHED AND s.op = 'delete' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET g = t.g + 1 WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join(f's.{name}' for name in names)})"
        )
        metadata = f"file://{self.warehouse}/n/{table.rpartition('.')[2]}/metadata/v3.metadata.json"
        old, new = (row[0] for row in self.session.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect())
        ends = (SideRef(metadata, old), SideRef(metadata, new))
        name = f"{mode} v3 by Spark, scattered, {rows:,}"
        self.tables[name] = table
        return Case(name, *ends, ("k",), len(updated), inserted, len(deleted), None, has_row_ids=True)

    def _show(self, name: str, rows: pa.Table) -> str:
        """Rows as a view of the session."""
        folder = self.warehouse / "given"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, folder / f"{name}.parquet")
        self.session.read.parquet(f"file://{folder}/{name}.parquet").createOrReplaceTempView(name)
        return name

    def run_procedure(self, case: Case, _folder: Path) -> None:
        """Updates by key, as Iceberg computes them; it refuses tables with delete files."""
        table = self.table_of(case)
        keys = ", ".join(f"'{name}'" for name in case.key)
        try:
            with case.timed("procedure", self.process):
                self.session.sql(
                    f"CALL {CATALOG}.system.create_changelog_view(table => '{table.partition('.')[2]}', "
                    f"changelog_view => 'changes', options => map('start-snapshot-id', '{case.before.snapshot_id}', "
                    f"'end-snapshot-id', '{case.after.snapshot_id}'), compute_updates => true, "
                    f"identifier_columns => array({keys}))"
                )
                found = self._write(self.session.table("changes"))
        except Exception as error:
            if "Delete files are currently not supported" not in str(error):
                raise
            return
        case.check("procedure", found, 2 * case.updated + case.inserted + case.deleted)

    def run_join(self, case: Case, _folder: Path) -> None:
        """Both snapshots whole, joined by key."""
        table = self.table_of(case)
        with case.timed("join", self.process):
            found = self._join(table, case)
        case.check("join", found, case.updated + case.inserted + case.deleted)

    def _join(self, table: str, case: Case) -> int:
        from pyspark.sql.functions import expr

        ends = (self.session.read.option("versionAsOf", str(e.snapshot_id)) for e in (case.before, case.after))
        before, after = (end.table(table).withColumn("here", expr("true")) for end in ends)
        names = [name for name in before.columns if name != "here"]
        on = " AND ".join(f"b.{name} <=> a.{name}" for name in case.key)
        differs = " OR ".join(["NOT b.here <=> a.here", *(f"NOT b.{name} <=> a.{name}" for name in names)])
        joined = before.alias("b").join(after.alias("a"), expr(on), "full_outer").where(expr(differs))
        return self._write(joined)

    def _write(self, rows: Any) -> int:
        """Compute every row and every column, and count the rows on the way."""
        from pyspark.sql import Observation
        from pyspark.sql.functions import count, lit

        seen = Observation()
        rows.observe(seen, count(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
        return int(seen.get["rows"])


def _change_log(updated: np.ndarray, deleted: np.ndarray, inserted: pa.Table) -> pa.Table:
    """What to do with which key; only rows to insert have values."""
    parts = [pa.table({"k": keys, "op": [op] * len(keys)}) for keys, op in ((updated, "update"), (deleted, "delete"))]
    come = inserted.append_column("op", pa.array(["insert"] * inserted.num_rows))
    return pa.concat_tables([come, *parts], promote_options="default")
