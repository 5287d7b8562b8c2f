"""What uncommitted code has written in a preview: its rows, the schema that a build would give, and what differs.

The files that are read here were written by code that nobody has looked at. DuckDB and Arrow decode them in a process of its
own, in bounded memory.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.metadata import TableMetadataUtil

from jobs.engine.errors import DiffError, MemoryLimitError, RefusedQueryError
from jobs.engine.query.difference import NOT_COMPARED, ResultDifference, Stored, compare_results
from jobs.engine.query.result import store_result
from jobs.engine.read.connections import connect
from jobs.engine.read.fields import literal, quote
from jobs.engine.write.schemas import SchemaError, cast_batches, next_schema, storable_schema, wanted_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobs.engine.query.result import StoredResult
    from jobs.protocol import DescribePreviewRequest, PreviewedTable

MANY = "Of one of both sides more rows were written than a preview keeps, so rows are not compared."
VERSION_OF_NEW_TABLES = 2
NO_COMMON = "Both sides have no column of the same name and type that is compared."


def describe_outputs(request: DescribePreviewRequest) -> list[dict[str, Any]]:
    """Describe each table of a preview, in the order of the request.

    Raises:
        DiffError: what was written cannot be read, or takes more than it may.

    """
    return [_describe(request, table, number) for number, table in enumerate(request.tables)]


def _describe(request: DescribePreviewRequest, table: PreviewedTable, number: int) -> dict[str, Any]:
    folder = Path(request.folder)
    with _connect(request) as connection:
        rows = connection.sql(f"SELECT * FROM read_parquet({literal(table.after)})")
        shown = store_result(
            rows, folder / f"rows-{number}.parquet", row_limit=request.row_limit, byte_limit=request.byte_limit
        )
    described = {
        "path": table.path,
        "columns": _list_columns(shown),
        "rows": shown.rows,
        "is_cut": shown.is_cut or table.is_cut,
        **_find_schema(table),
        "difference": None,
    }
    if table.before:
        described["difference"] = _compare(request, table, folder / f"difference-{number}.parquet")
    return described


def _find_schema(table: PreviewedTable) -> dict[str, Any]:
    """Return the schema that a build of these rows would give the branch, or why there is none."""
    written = pq.read_schema(table.after)
    try:
        if not table.metadata_location:
            stored = storable_schema(written, version=VERSION_OF_NEW_TABLES)
            schema = assign_fresh_schema_ids(Schema(*wanted_fields(stored)))
        else:
            metadata = TableMetadataUtil.parse_raw(Path(table.metadata_location).read_text(encoding="utf-8"))
            stored = storable_schema(written, metadata.schema(), version=metadata.format_version)
            schema = next_schema(metadata, wanted_fields(stored), is_append=table.is_append) or metadata.schema()
        _check_values(table.after, stored)
    except SchemaError as error:
        return {"schema": None, "schema_problem": str(error)}
    return {"schema": json.loads(schema.model_dump_json()), "schema_problem": ""}


def _check_values(file: str, stored: pa.Schema) -> None:
    """Refuse values that the types of the table do not hold, as a build would."""
    rows = pq.ParquetFile(file)
    finer = [field.name for field in rows.schema_arrow if field.type != stored.field(field.name).type]
    if finer:
        types = pa.schema([stored.field(name) for name in finer])
        for _ in cast_batches(rows.iter_batches(columns=finer), types):
            pass


def _compare(request: DescribePreviewRequest, table: PreviewedTable, path: Path) -> dict[str, Any]:
    """Compare the rows of both sides in the columns that both have, those of the key first."""
    before, after = (pq.read_schema(name) for name in (table.before, table.after))
    common = [
        field.name for field in after if field.name in before.names and before.field(field.name).type == field.type
    ]
    sides = {
        "only_before": [name for name in before.names if name not in common],
        "only_after": [name for name in after.names if name not in common],
        "ignored": [name for name in common if name in table.ignore],
    }
    common = [name for name in common if name not in table.ignore]
    if table.is_cut:
        return {**_write(ResultDifference(NOT_COMPARED, MANY)), "shown": [], **sides}
    if not common:
        return {**_write(ResultDifference(NOT_COMPARED, NO_COMMON)), "shown": [], **sides}
    key = [name for name in table.key if name in common] if set(table.key) <= set(common) else []
    names = [*key, *(name for name in common if name not in key)]
    try:
        with _connect(request) as connection:
            stored = [
                _store_side(request, connection, Path(request.folder) / f".{side}.parquet", source, names)
                for side, source in (("before", table.before), ("after", table.after))
            ]
            difference = compare_results(
                connection,
                before=stored[0],
                after=stored[1],
                path=path,
                row_limit=request.row_limit,
                keys=max(1, len(key)),
            )
    except DiffError as error:
        difference = ResultDifference(NOT_COMPARED, f"The rows cannot be compared: {error}")
        return {**_write(difference), "shown": [], **sides}
    return {**_write(difference), "shown": _list_columns(stored[1].result), **sides}


def _write(difference: ResultDifference) -> dict[str, Any]:
    """Return a difference without that of the columns, which have the same names and types on both sides."""
    return {name: value for name, value in difference.as_json().items() if name != "columns"}


def _list_columns(result: StoredResult) -> list[dict[str, str]]:
    return [{"name": name, "type": type_} for name, type_ in result.columns]


def _store_side(
    request: DescribePreviewRequest,
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    source: str,
    names: Sequence[str],
) -> Stored:
    rows = connection.sql(f"SELECT {', '.join(map(quote, names))} FROM read_parquet({literal(source)})")
    return Stored(store_result(rows, path, row_limit=request.row_limit, byte_limit=request.byte_limit), path)


@contextmanager
def _connect(request: DescribePreviewRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database, and say in one sentence why rows cannot be read."""
    spill = Path(request.folder) / ".spill"
    connection = connect(memory_bytes=request.memory_bytes, threads=request.threads, spill=spill)
    try:
        yield connection
    except (MemoryError, duckdb.OutOfMemoryException) as error:
        raise MemoryLimitError("What was written does not fit into the memory that a preview may take.") from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise RefusedQueryError(f"What was written cannot be read: {error}") from error
    finally:
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)
