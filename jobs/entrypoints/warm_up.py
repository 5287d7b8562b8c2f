"""Runs what jobs run on a Spark server that is starting, so that the first job finds it warm.

`python -m jobs.entrypoints.warm_up <mark>`: waits for the server, meanwhile importing its client; the file <mark> appears
when it is done. The server's address comes in `SPARK_REMOTE` or in the file that `SPARK_REMOTE_FILE` names, since a token is
part of it and anybody may read a command line. The tables are made in the server's private folder for temporary files and
dropped again.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jobs.engine.spark.session import close_session, connect

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

CATALOG = "warm_up"
WAREHOUSE = "file:///tmp/tributary-warm-up"
IMPORTED_AHEAD = ("pyspark.sql.connect.session", "pyspark.sql.connect.functions", "pandas", "pyarrow")
PROBE_SECONDS = 0.1


def main(arguments: list[str]) -> int:
    """Query, write and read, then leave the mark."""
    [mark] = arguments
    remote = os.environ.pop("SPARK_REMOTE", "") or Path(os.environ["SPARK_REMOTE_FILE"]).read_text(encoding="utf-8")
    for name in IMPORTED_AHEAD:
        importlib.import_module(name)
    wait_for_server(remote)
    session = connect(remote, job_id="warm-up", session_id=None)
    try:
        warm(session)
    finally:
        close_session(session)
    Path(mark).touch()
    return 0


def wait_for_server(remote: str) -> None:
    """Return when somebody listens; whoever started this ends it when nobody ever will."""
    address = urlsplit(remote)
    while True:
        try:
            socket.create_connection((address.hostname or "localhost", address.port or 15002), timeout=1).close()
        except OSError:
            time.sleep(PROBE_SECONDS)
        else:
            return


def warm(session: SparkSession) -> None:
    """Load the classes and compile the paths of a small transform: scan, join, aggregate, sort, overwrite."""
    from pyspark.sql.connect import functions as F  # noqa: N812 - Spark's own habit

    for key, value in (("", "org.apache.iceberg.spark.SparkCatalog"), (".type", "hadoop"), (".warehouse", WAREHOUSE)):
        session.conf.set(f"spark.sql.catalog.{CATALOG}{key}", value)
    table = f"{CATALOG}.db.rows"
    rows = session.range(2000).select("id", (F.col("id") % 7).cast("string").alias("name"), F.rand().alias("value"))
    session.sql(f"DROP TABLE IF EXISTS {table} PURGE").collect()
    rows.writeTo(table).using("iceberg").create()
    for _ in range(2):
        read = session.read.table(table).where("id > 1")
        summed = read.groupBy("name").agg(F.count("*").alias("rows"), F.avg("value").alias("mean"))
        joined = rows.join(summed, on="name", how="left").select("id", "name", "value").orderBy("id")
        joined.writeTo(table).overwrite(F.lit(True))
        session.sql(f"SELECT name, count(*) AS copies FROM {table} GROUP BY name HAVING count(*) > 1").collect()
    session.sql(f"DROP TABLE {table} PURGE").collect()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
