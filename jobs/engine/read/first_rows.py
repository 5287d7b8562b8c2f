"""The first rows of a table, read from its files: in their order, or sorted and searched.

In the order of the files only the files of the page are read. Sorting and searching look at the first rows up to a
stated number, and say so when there are more. A sample is the first rows with all columns, as a job would read them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyiceberg.io.pyarrow as reading
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.table.metadata import TableMetadataUtil

from jobs import exact_times, nulls
from jobs.encoding import Json, encode_value
from jobs.engine.read.metadata import find_head
from jobs.protocol import RowsRequest, fold_column

exact_times.install()
nulls.install()
SCANNED_CELLS = 4_000_000
MOST_BATCH_ROWS = 8_192
BUFFER_BYTES = 256 * 1024


@dataclass(frozen=True)
class FirstRows:
    """The first rows of a table."""

    rows: pa.Table
    schema: Schema
    is_whole: bool
    """Whether the table has no others."""


def read_sample(
    metadata: Mapping[str, Any], files: FileIO, *, masked: Collection[str], row_limit: int, byte_limit: int
) -> FirstRows:
    """Return the first rows with the types that a job reads; a masked column, named by `fold_column`, is not read.

    Whatever the libraries raise over files that no writer has made comes through.
    """
    parsed = TableMetadataUtil.parse_obj(dict(metadata))
    schema = parsed.schema()
    types = schema_to_pyarrow(schema, include_field_ids=False)
    if not schema.fields or find_head(parsed) is None:
        return FirstRows(types.empty_table(), schema, is_whole=True)
    # Rows are counted by any column, where all are masked.
    seen = [name for name in types.names if fold_column(name) not in masked]
    names = seen or types.names[:1]
    scan = DataScan(table_metadata=parsed, io=files, selected_fields=tuple(names))
    tasks = _take_tasks(scan.plan_files(), row_limit + 1)
    _read_sparingly(min(row_limit + 1, MOST_BATCH_ROWS))
    reader = ArrowScan(parsed, files, scan.projection(), AlwaysTrue(), limit=row_limit + 1)
    batches: list[pa.RecordBatch] = []
    count, is_whole = 0, True
    for batch in reader.to_record_batches(tasks):
        batches.append(batch.slice(0, row_limit - count))
        count += batches[-1].num_rows
        is_whole = batches[-1].num_rows == batch.num_rows and sum(part.nbytes for part in batches) <= byte_limit
        if not is_whole:
            break
    read = pa.Table.from_batches(batches) if batches else None
    columns = [
        pa.nulls(count, field.type)
        if read is None or field.name not in seen
        else read.column(field.name).cast(field.type)
        for field in types
    ]
    shown = pa.schema([pa.field(field.name, field.type) for field in types])
    return FirstRows(pa.Table.from_arrays(columns, schema=shown), schema, is_whole)


def read_rows(request: RowsRequest, files: FileIO) -> tuple[list[list[Json]], int | None, int | None]:
    """Return the page's rows and one more, how many match, and how many were looked at where not all were.

    Whatever the libraries raise over files that no writer has made comes through.
    """
    columns = request.columns
    if not columns or request.metadata.get("current-snapshot-id") in (None, -1):
        return [], 0, None
    if not request.sort and not request.where:
        table, _ = _scan(request, columns, request.start + request.limit + 1, files)
        return _encode(table.slice(request.start)), None, None
    sort = request.sort.removeprefix("-")
    names = list(dict.fromkeys([*columns, *([sort] if sort else []), *request.searched.values()]))
    most = max(request.start + request.limit, min(request.scanned_rows, SCANNED_CELLS // len(names)))
    table, is_cut = _scan(request, names, most, files)
    places, total = _search(table, request)
    shown = table.select(columns).take(places)
    return _encode(shown), total, table.num_rows if is_cut else None


def _scan(request: RowsRequest, names: Sequence[str], rows: int, files: FileIO) -> tuple[pa.Table, bool]:
    """Return the first rows, and whether there are more; reads only as many files as hold them."""
    metadata = TableMetadataUtil.parse_obj(dict(request.metadata))
    find_head(metadata)
    scan = DataScan(table_metadata=metadata, io=files, selected_fields=tuple(names))
    tasks = _take_tasks(scan.plan_files(), rows + 1)
    _read_sparingly(min(rows + 1, MOST_BATCH_ROWS))
    reader = ArrowScan(metadata, files, scan.projection(), AlwaysTrue(), limit=rows + 1)
    table = reader.to_table(tasks).select(list(names))
    return table.slice(0, rows), table.num_rows > rows


def _read_sparingly(batch_rows: int) -> None:
    """Have PyIceberg decode few rows at a time in this process, which is for one page.

    By itself it has Arrow decode whole row groups of all columns, several in advance, however few rows are wanted.
    """
    formats = reading._get_file_format

    def file_format(kind: FileFormat, **options: Any) -> Any:
        # dictionaries are asked for where delete files are read, which have to be read whole
        is_streamed = kind is FileFormat.PARQUET and "dictionary_columns" not in options
        return SimpleNamespace(make_fragment=_Streamed) if is_streamed else formats(kind, **options)

    def scanner(fragment: Any, *, columns: Sequence[str] | None = None, **options: Any) -> Any:
        if not isinstance(fragment, _Streamed):
            return ds.Scanner.from_fragment(fragment=fragment, columns=columns, **options)
        return SimpleNamespace(to_batches=lambda: fragment.to_batches(batch_rows, columns))

    reading.ds = SimpleNamespace(**{**vars(ds), "Scanner": SimpleNamespace(from_fragment=scanner)})
    reading._get_file_format = file_format


class _Streamed:
    """A Parquet file, of which no more is decoded at a time than a batch."""

    def __init__(self, file: Any) -> None:
        self._parquet = pq.ParquetFile(
            file, buffer_size=BUFFER_BYTES, pre_buffer=False, coerce_int96_timestamp_unit=exact_times.INT96_UNIT
        )
        self.physical_schema = self._parquet.schema_arrow

    def to_batches(self, rows: int, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        yield from self._parquet.iter_batches(batch_size=rows, columns=columns, use_threads=False)


def _take_tasks(tasks: Any, rows: int) -> list[FileScanTask]:
    """Return the first files that certainly hold that many rows; of a file with deletes nobody knows."""
    taken: list[FileScanTask] = []
    held = 0
    for task in tasks:
        if held >= rows:
            break
        taken.append(task)
        held += 0 if task.delete_files else task.file.record_count
    return taken


def _search(table: pa.Table, request: RowsRequest) -> tuple[pa.Array, int]:
    """Return the places of the page's rows, in order and one more, and how many rows match."""
    aliases = {alias.strip('"'): name for alias, name in request.searched.items()}
    if sort := request.sort.removeprefix("-"):
        aliases["sort"] = sort
    # By aliases, as two columns may differ in small and capital letters alone, which DuckDB takes for one.
    seen = pa.table(
        {"place": pa.array(range(table.num_rows), pa.int64())}
        | {alias: table.column(name) for alias, name in aliases.items()}
    )
    direction = "DESC" if request.sort.startswith("-") else "ASC"
    order = f"sort {direction} NULLS LAST, place" if sort else "place"
    with duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "512MB"}) as engine:
        engine.execute("SET enable_external_access = false")
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("seen", seen)
        matches = engine.execute(
            f"SELECT place, count(*) OVER () AS matching FROM seen WHERE {request.where or 'true'} "
            f"ORDER BY {order} LIMIT {request.limit + 1} OFFSET {request.start}",
            list(request.parameters),
        ).fetchall()
    places = pa.array([place for place, _ in matches], pa.int64())
    return places, matches[0][1] if matches else 0


def _encode(table: pa.Table) -> list[list[Json]]:
    columns = [[encode_value(value) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]
