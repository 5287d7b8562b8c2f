"""Applying a changelog that is a Spark DataFrame: what `apply` does, as one MERGE that the rows never leave Spark for."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from jobs.changelog import errors
from jobs.changelog.apply import TYPES, check_columns, check_types, list_data, resolve_log_keys, widen_schema
from jobs.changelog.keys import names_of
from jobs.changelog.marks import check_keys
from jobs.changelog.plan import TYPE
from jobs.changelog.spark import read_frame_marks
from jobs.engine.read.paths import list_paths
from jobs.engine.spark import tables
from jobs.engine.spark.reader import quote, same_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.table import Table
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

    from jobs.changelog.keys import Key
    from jobs.changelog.marks import ReadKeys

_CHANGE = "changelog__change"
_UPSERTS = ("INSERT", "UPDATE_AFTER")


@dataclass(frozen=True)
class _Log:
    """The changes that are actions, and what they are about."""

    rows: DataFrame
    changes: int
    upserts: int


def merge_changelog(
    session: SparkSession,
    table: Table,
    changes: DataFrame,
    keys: Sequence[str],
    *,
    name: str,
    from_empty: bool,
    read: ReadKeys = (),
) -> int | None:
    """Upsert INSERT and UPDATE_AFTER, delete DELETE, as one snapshot of the table called `name`.

    Returns the number of changes; None where there was nothing to apply. With `from_empty` the destination starts
    without rows. The changes are computed once, and kept by Spark. `read` is as in `apply_changelog`.
    """
    data = list_data(changes.columns)
    log_keys = resolve_log_keys(keys, list_paths((changes.schema[column] for column in data), _spark_parts))
    stored_names = check_columns(changes.columns, log_keys, table, from_empty=from_empty)
    check_keys(log_keys, read_frame_marks(changes), columns=data, read=read)
    stored = check_types(to_arrow_schema(StructType([changes.schema[column] for column in data])), table, stored_names)
    columns = [F.col(quote(column)).alias(column) for column in data]
    kept_by_spark = changes.select(*columns, F.col(TYPE).cast("string").alias(_CHANGE)).localCheckpoint()
    _check_keys(kept_by_spark, log_keys)
    log = _check_log(kept_by_spark, log_keys)
    if not stored_names:
        if not from_empty and not log.changes:
            return None
        upserts = log.rows.where(F.col(_CHANGE).isin(*_UPSERTS)).drop(_CHANGE)
        tables.write(session, upserts, table, name=name, is_append=False)
        return log.changes
    is_there = _check_destination(session.table(tables.full_name(name)), log, log_keys)
    # New columns of the source belong to the destination even while no row changes.
    widen_schema(table, stored)
    if not is_there and not log.upserts:
        return None
    _merge(session, log, log_keys, data=data, name=name)
    return log.changes


def _check_keys(rows: DataFrame, keys: Sequence[Key]) -> None:
    """Refuse keys by which Spark cannot match rows: to it no two maps are equal."""
    for key, field in zip(keys, rows.select(*_values(keys, "k")).schema.fields, strict=True):
        if _holds_map(field.dataType):
            raise errors.cannot_apply(f"Spark matches no rows by {key.name!r}, which holds a map; choose other columns")


def _holds_map(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _holds_map(kind.elementType)
    return isinstance(kind, MapType) or any(_holds_map(part.dataType) for part in getattr(kind, "fields", ()))


def _check_log(rows: DataFrame, keys: Sequence[Key]) -> _Log:
    strange = rows.where(F.col(_CHANGE).isNull() | ~F.col(_CHANGE).isin(*TYPES)).select(_CHANGE).head(1)
    if strange:
        raise errors.cannot_apply(f"unknown change type {strange[0][0]!r}")
    acts = F.count_if(F.col(_CHANGE) != "UPDATE_BEFORE").alias("acts")
    upserts = F.count_if(F.col(_CHANGE).isin(*_UPSERTS)).alias("upserts")
    by_key = rows.groupBy(*_values(keys, "k")).agg(acts, upserts, F.count(F.lit(1)).alias("changes"))
    totals = by_key.agg(F.min("acts"), F.max("acts"), F.sum("changes"), F.sum("upserts")).collect()[0]
    # of no rows at all there is neither a least nor a most
    least, most, changes, puts = (1, 0, 0, 0) if totals[0] is None else totals
    if least == 0:
        raise errors.cannot_apply(f"a key of {names_of(keys)!r} has an UPDATE_BEFORE and no UPDATE_AFTER")
    if most > 1:
        raise errors.duplicate_changes(names_of(keys))
    return _Log(rows.where(f"{_CHANGE} <> 'UPDATE_BEFORE'"), changes, puts)


def _check_destination(destination: DataFrame, log: _Log, keys: Sequence[Key]) -> bool:
    """Refuse a key of the log that has several rows; whether any key has one."""
    there = destination.select(*_values(keys, "k"))
    log_keys = log.rows.select(*_values(keys, "w"))
    matches = there.join(log_keys, same_key("k", "w", len(keys)), "left_semi")
    counted = matches.groupBy(*matches.columns).count()
    most = counted.agg(F.max("count")).collect()[0][0] or 0
    if most > 1:
        raise errors.several_rows(names_of(keys))
    return bool(most)


def _merge(session: SparkSession, log: _Log, keys: Sequence[Key], *, data: Sequence[str], name: str) -> None:
    view = f"changes_{uuid.uuid4().hex}"
    log.rows.createOrReplaceTempView(view)
    match = " AND ".join(f"t.{_quoted(key)} <=> s.{_quoted(key)}" for key in keys)
    updates = ", ".join(f"t.{quote(column)} = s.{quote(column)}" for column in data)
    columns = ", ".join(quote(column) for column in data)
    values = ", ".join(f"s.{quote(column)}" for column in data)
    try:
        session.sql(
            f"MERGE INTO {tables.full_name(name)} t USING {view} s ON {match} "
            f"WHEN MATCHED AND s.{_CHANGE} = 'DELETE' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {updates} "
            f"WHEN NOT MATCHED AND s.{_CHANGE} <> 'DELETE' THEN INSERT ({columns}) VALUES ({values})"
        ).collect()
    finally:
        session.catalog.dropTempView(view)


def _values(keys: Sequence[Key], letter: str) -> list[Column]:
    return [F.col(_quoted(key)).alias(f"{letter}{place}") for place, key in enumerate(keys)]


def _quoted(key: Key) -> str:
    return ".".join(quote(name) for name in key.path)


def _spark_parts(field: StructField) -> Iterable[StructField]:
    return field.dataType.fields if isinstance(field.dataType, StructType) else ()
