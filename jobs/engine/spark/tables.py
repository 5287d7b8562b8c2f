"""The only Spark statements on Iceberg tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.table import Table

from jobs.engine.read.catalog import CATALOG
from jobs.engine.write.schemas import (
    NANOSECONDS_VERSION,
    cast_batches,
    name_as_stored,
    storable_schema,
    wanted_fields,
)
from jobs.engine.write.writer import evolve_schema

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession


def full_name(table: str) -> str:
    """Return `nyc.delays.daily` as Spark needs it."""
    return ".".join(f"`{part}`" for part in (CATALOG, *table.split(".")))


def plan_name(table: str) -> str:
    """Return `nyc.delays.daily` as Spark's plans have it."""
    return f"{CATALOG}.{table}"


def read(session: Any, table: str, *, since: int | None = None, until: int | None = None) -> Any:
    """Read a table, or the rows appended after one snapshot up to another."""
    if since is None:
        return session.read.table(full_name(table))
    if since == until:
        return session.read.table(full_name(table)).limit(0)
    reader = session.read.format("iceberg").option("start-snapshot-id", str(since))
    if until is not None:
        reader = reader.option("end-snapshot-id", str(until))
    return reader.load(full_name(table))


def write(session: SparkSession, frame: DataFrame, table: Table, *, name: str, is_append: bool) -> None:
    """Evolve the branch's schema to the frame's, then write it as one snapshot."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit; only Spark jobs
    from pyspark.sql.pandas.types import to_arrow_schema

    _ = session
    stored = storable_schema(to_arrow_schema(frame.schema))
    evolve_schema(table, wanted_fields(stored), is_append=is_append)
    names = name_as_stored(stored, table.schema()).names
    writer = (frame if names == stored.names else frame.toDF(*names)).writeTo(full_name(name))
    if is_append:
        writer.append()
    else:
        writer.overwrite(F.lit(True))


def from_arrow(session: Any, data: pa.Table) -> Any:
    """Make a Spark DataFrame of an Arrow table, with the types that Spark reads a table's columns as."""
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = [_as_text(column) if column.type == pa.uuid() else column for column in data.columns]
    table = pa.table(columns, names=data.column_names)
    if any("timestamp[ns" in str(column.type) for column in columns):
        # Spark's client would cut off what its times do not hold
        stored = storable_schema(table.schema, version=NANOSECONDS_VERSION - 1)
        table = pa.Table.from_batches(cast_batches(iter(table.to_batches()), stored), schema=stored)
    # Spark infers no schema of no rows, and takes times without zone for those with one
    return session.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))


def _as_text(uuids: pa.ChunkedArray) -> pa.Array:
    return pa.array([None if value is None else str(value) for value in uuids.to_pylist()], pa.string())
