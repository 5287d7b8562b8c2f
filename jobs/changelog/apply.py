"""Applying a changelog to a table by key, as one snapshot or none, that rewrites only the files its keys stand in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.types import NestedField, StructType

from jobs.changelog import errors
from jobs.changelog.keys import Key, names_of, resolve_keys
from jobs.changelog.marks import ReadKeys, check_keys, read_marks
from jobs.changelog.plan import ORDINAL, OWN_PREFIX, TYPE
from jobs.changelog.rows import ChangelogSource, as_key_columns, connect, key_columns, key_values, listed, same_key
from jobs.engine.read.column_names import fold
from jobs.engine.read.fields import quote
from jobs.engine.read.live_files import LiveFile
from jobs.engine.read.metadata import find_head
from jobs.engine.read.paths import list_paths, walk_paths
from jobs.engine.read.row_ids import ARROW_COLUMNS, COLUMNS, ROW_ID, has_row_ids
from jobs.engine.write.schemas import SchemaError, cast_batches, next_schema, storable_schema, type_nulls, wanted_fields
from jobs.engine.write.writer import BATCH_ROWS, Written, evolve_schema, replace_files, write_table

TYPES = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")
_OWN = (TYPE, ORDINAL, "_commit_snapshot_id")
_UPSERTS = "FROM log WHERE changelog__change IN ('INSERT', 'UPDATE_AFTER')"
_OLD = f"{OWN_PREFIX}old"
"""The rows that were there, under a name that no column has: in a subquery a column of `log` would come before it."""


def apply_changelog(
    table: Table,
    changes: pa.Table,
    keys: Sequence[str],
    *,
    from_empty: bool,
    job_id: str = "",
    read: ReadKeys = (),
) -> Written | None:
    """Upsert INSERT and UPDATE_AFTER, delete DELETE; None where there was nothing to apply.

    UPDATE_BEFORE is an image, not an action. Columns of the destination that the changes lack keep their values, and get
    their default in new rows. With `from_empty` the destination starts without rows. `read` has the keys of the
    changelogs that the job has read, for changes that do not say with which they were made.
    """
    data = changes.select(list_data(changes.column_names))
    log_keys = resolve_log_keys(keys, list_paths(data.schema, _arrow_parts))
    columns = check_columns(changes.column_names, log_keys, table, from_empty=from_empty)
    check_keys(log_keys, read_marks(changes.schema), columns=data.column_names, read=read)
    _check_names(table, data.column_names)
    stored = check_types(data.schema, table, columns)
    with _refusing():
        rows = pa.Table.from_batches(cast_batches(iter(data.to_batches()), stored), schema=stored)
    with connect() as connection:
        connection.register("given", rows.append_column("changelog__change", changes[TYPE].cast(pa.string())))
        connection.execute(f"CREATE TABLE log AS SELECT *, {as_key_columns(log_keys)} FROM given")
        _check_log(connection, log_keys)
        _check_required(connection, table, {*columns} & {*stored.names})
        if not columns:
            return _write_first(connection, table, stored, from_empty=from_empty, job_id=job_id)
        return _merge(connection, table, stored, log_keys, job_id=job_id)


@contextmanager
def _refusing() -> Iterator[None]:
    """Tell what does not fit the destination as a refusal of the changelog."""
    try:
        yield
    except SchemaError as error:
        raise errors.cannot_apply(str(error)) from None


def _check_names(table: Table, names: Iterable[str]) -> None:
    reserved = {column.name for column in COLUMNS} if has_row_ids(table) else frozenset()
    if taken := sorted(reserved & {name.lower() for name in names}):
        raise errors.cannot_apply(f"column {taken[0]!r} is how tables of format version 3 tell rows apart: rename it")


def check_types(schema: pa.Schema, table: Table, columns: Sequence[str]) -> pa.Schema:
    """Refuse types that the destination cannot take; return those in which it holds the changes.

    A column of nothing but NULLs, which has no type of its own, gets that of the destination.
    """
    with _refusing():
        written = type_nulls(schema, table.schema()) if columns else schema
        stored = storable_schema(written, table.schema(), version=table.metadata.format_version)
        if columns:
            next_schema(table.metadata, wanted_fields(stored), is_append=True)
    return stored


def list_data(columns: Iterable[str]) -> list[str]:
    """List the columns of a changelog that are not its own."""
    return [name for name in columns if name not in _OWN]


def resolve_log_keys(keys: Sequence[str], paths: Mapping[str, tuple[Any, ...]]) -> tuple[Key, ...]:
    """Find the keys among the columns of a changelog and the fields of its structs."""
    try:
        return resolve_keys(keys, paths)
    except ValueError as error:
        raise errors.cannot_apply(str(error)) from None


def check_columns(columns: Sequence[str], keys: Sequence[Key], table: Table, *, from_empty: bool) -> list[str]:
    """Refuse what does not fit the destination; return the columns that it keeps."""
    if TYPE not in columns:
        raise errors.cannot_apply(f"there is no column {TYPE}: this is no changelog")
    fields = () if from_empty else table.schema().fields
    there = {tuple(field.name for field in path) for path in walk_paths(fields, _iceberg_parts)}
    names = {fold(field.name): field.name for field in fields}
    data = list_data(columns)
    for name in data:
        if names.get(fold(name), name) not in data:
            there_name = names[fold(name)]
            difference = (
                "only in case" if name.lower() == there_name.lower() else "only in how their letters are written"
            )
            raise errors.cannot_apply(
                f"columns {name!r} and, in the destination, {there_name!r} differ {difference}: "
                f"rename the column of the changelog to {there_name!r}"
            )
    for key in keys:
        if there and key.path not in there:
            raise errors.cannot_apply(f"the destination has no column {key.name!r}")
    for field in fields:
        if field.required and field.write_default is None and field.name not in data:
            raise errors.cannot_apply(
                f"column {field.name!r} of the destination is required, and missing in the changelog"
            )
    return [field.name for field in fields]


def _arrow_parts(field: pa.Field) -> Iterable[pa.Field]:
    return field.type if pa.types.is_struct(field.type) else ()


def _iceberg_parts(field: NestedField) -> Iterable[NestedField]:
    return field.field_type.fields if isinstance(field.field_type, StructType) else ()


def widen_schema(table: Table, stored: pa.Schema) -> None:
    """Give the destination the columns and types that the changelog brings."""
    with _refusing():
        evolve_schema(table, wanted_fields(stored), is_append=True)


def _write_first(
    connection: duckdb.DuckDBPyConnection, table: Table, stored: pa.Schema, *, from_empty: bool, job_id: str
) -> Written | None:
    """Write a table that holds nothing yet, or nothing that counts."""
    if not from_empty and connection.execute("SELECT count(*) FROM log").fetchall() == [(0,)]:
        return None
    reader = connection.sql(f"SELECT {listed(stored.names)} {_UPSERTS}").to_arrow_reader(BATCH_ROWS)
    return write_table(table, stored, cast_batches(iter(reader), stored), is_append=False, job_id=job_id)


def _merge(
    connection: duckdb.DuckDBPyConnection, table: Table, stored: pa.Schema, keys: Sequence[Key], *, job_id: str
) -> Written | None:
    """Rewrite the files that hold a key of the log; every other file stays as it is."""
    source = ChangelogSource(connection, table)
    affected = source.holding(source.files(_head(table)), keys, "log")
    _check_destination(connection, source.keys_of(affected, keys), keys)
    # New columns of the source belong to the destination even while no row changes.
    widen_schema(table, stored)
    if not affected and not connection.execute(f"SELECT 1 {_UPSERTS} LIMIT 1").fetchall():
        return None
    query, schema = _rows_after(connection, table, affected, keys, columns=stored.names)
    reader = connection.sql(query).to_arrow_reader(BATCH_ROWS)
    paths = frozenset(file.data.path for file in affected)
    return replace_files(table, paths, cast_batches(iter(reader), schema), job_id=job_id)


def _rows_after(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    affected: Sequence[LiveFile],
    keys: Sequence[Key],
    *,
    columns: Sequence[str],
) -> tuple[str, pa.Schema]:
    """Return the rows that come for those of the affected files: what the log leaves, and what it brings."""
    source = ChangelogSource(connection, table)
    fields, schema = table.schema().fields, storable_schema(table.schema().as_arrow())
    match = same_key(key_values(keys, f"{_OLD}."), key_columns(keys, "log."))
    untouched = f"{_OLD} WHERE NOT EXISTS (SELECT 1 FROM log WHERE {match})"
    is_tracked = bool(affected) and has_row_ids(table)
    old_rows = source.tracked_rows_of(affected) if is_tracked else source.rows_of(affected)
    names = listed(field.name for field in fields)
    if not is_tracked and all(field.name in columns for field in fields):
        return f"SELECT {names} FROM ({old_rows}) {untouched} UNION ALL SELECT {names} {_UPSERTS}", schema
    come = [
        f"log.{quote(field.name)}"
        if field.name in columns
        else source.carried(field, _OLD, is_there=f"{_OLD}.changelog__here")
        for field in fields
    ]
    if is_tracked:
        # a row that changes is the row it was, changed by this commit; a new one has no id yet
        come += [f"{_OLD}.{ROW_ID.name}", "CAST(NULL AS BIGINT)"]
        names = ", ".join([names, *(column.name for column in COLUMNS)])
        schema = pa.schema([*schema, *ARROW_COLUMNS])
    query = (
        f"SELECT {names} FROM ({old_rows}) {untouched} UNION ALL SELECT {', '.join(come)} FROM (SELECT * {_UPSERTS}) log "
        f"LEFT JOIN (SELECT *, true AS changelog__here FROM ({old_rows})) {_OLD} ON {match}"
    )
    return query, schema


def _head(table: Table) -> int | None:
    snapshot = find_head(table.metadata)
    return snapshot.snapshot_id if snapshot else None


def _check_log(connection: duckdb.DuckDBPyConnection, keys: Sequence[Key]) -> None:
    by_key = ", ".join(key_columns(keys))
    words = ", ".join(f"'{word}'" for word in TYPES)
    strange = connection.execute(
        f"SELECT changelog__change FROM log WHERE changelog__change IS NULL OR changelog__change NOT IN ({words}) LIMIT 1"
    ).fetchall()
    if strange:
        raise errors.cannot_apply(f"unknown change type {strange[0][0]!r}")
    lonely = connection.execute(
        f"SELECT 1 FROM log GROUP BY {by_key} HAVING count_if(changelog__change <> 'UPDATE_BEFORE') = 0 LIMIT 1"
    ).fetchall()
    if lonely:
        raise errors.cannot_apply(f"a key of {names_of(keys)!r} has an UPDATE_BEFORE and no UPDATE_AFTER")
    connection.execute("DELETE FROM log WHERE changelog__change = 'UPDATE_BEFORE'")
    if connection.execute(f"SELECT 1 FROM log GROUP BY {by_key} HAVING count(*) > 1 LIMIT 1").fetchall():
        raise errors.duplicate_changes(names_of(keys))


def _check_required(connection: duckdb.DuckDBPyConnection, table: Table, columns: Collection[str]) -> None:
    for field in table.schema().fields:
        if field.name in columns and field.required:
            empty = connection.execute(f"SELECT 1 {_UPSERTS} AND {listed([field.name])} IS NULL LIMIT 1").fetchall()
            if empty:
                raise errors.cannot_apply(f"column {field.name!r} of the destination is required, and NULL in a change")


def _check_destination(connection: duckdb.DuckDBPyConnection, rows: str, keys: Sequence[Key]) -> None:
    match = same_key(key_columns(keys, f"{_OLD}."), key_columns(keys, "log."))
    several = connection.execute(
        f"SELECT 1 FROM ({rows}) {_OLD} WHERE EXISTS (SELECT 1 FROM log WHERE {match}) "
        f"GROUP BY {', '.join(key_columns(keys))} HAVING count(*) > 1 LIMIT 1"
    ).fetchall()
    if several:
        raise errors.several_rows(names_of(keys))
