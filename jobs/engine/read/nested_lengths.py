"""How long the texts and blobs inside lists and maps of a Parquet file are.

DuckDB copies each of them into its list, which is what shall be found out beforehand. Arrow reads references to the dictionary
in which a file keeps what repeats, at any depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST_ROWS = 256
_BATCH_ROWS = 8192


def add_nested_lengths(file: Any, *, enough: float) -> int:
    """Add up the bytes of all texts and blobs in lists and maps of a file that is open for reading.

    Where even the most that they can be is no more than `enough`, that is the answer; and nothing is added up beyond it.
    """
    schema = pq.ParquetFile(file).schema
    repeated = [schema.column(place) for place in range(len(schema)) if schema.column(place).max_repetition_level]
    texts = [column.path for column in repeated if column.physical_type == "BYTE_ARRAY"]
    fixed = {column.path: column.length for column in repeated if column.physical_type == "FIXED_LEN_BYTE_ARRAY"}
    parquet = pq.ParquetFile(file, read_dictionary=texts)
    chunks = list(_list_chunks(parquet))
    total: int = sum(chunk.num_values * fixed.get(chunk.path_in_schema, 0) for _, chunk in chunks)
    chosen = [(group, chunk) for group, chunk in chunks if chunk.path_in_schema in texts]
    most = sum(_find_most(parquet, group, chunk) for group, chunk in chosen)
    if total + most <= enough:
        return total + int(most)
    for group, chunk in chosen:
        for place in _read_leaves(parquet, group, chunk, _BATCH_ROWS):
            if total > enough:
                return total
            lengths = pc.binary_length(place.dictionary).cast(pa.int64())
            total += pc.sum(pc.take(lengths, place.indices)).as_py() or 0
    return total


def _list_chunks(parquet: pq.ParquetFile) -> Iterator[tuple[int, pq.ColumnChunkMetaData]]:
    for group in range(parquet.num_row_groups):
        about = parquet.metadata.row_group(group)
        for place in range(about.num_columns):
            yield group, about.column(place)


def _find_most(parquet: pq.ParquetFile, group: int, chunk: pq.ColumnChunkMetaData) -> float:
    """Find the most that a column's texts can take: those in its dictionary as long as its longest, others as stored."""
    first = next(_read_leaves(parquet, group, chunk, _FIRST_ROWS), None)
    if first is None:
        return 0
    longest = pc.max(pc.binary_length(first.dictionary)).as_py()
    if longest is None:  # nothing but nulls so far: its dictionary has not been looked at
        return float("inf")
    most: int = chunk.num_values * longest + chunk.total_uncompressed_size
    return most


def _read_leaves(
    parquet: pq.ParquetFile, group: int, chunk: pq.ColumnChunkMetaData, rows: int
) -> Iterator[pa.DictionaryArray]:
    """Yield what stands innermost in one column, in batches of so many rows of the table."""
    for batch in parquet.iter_batches(batch_size=rows, row_groups=[group], columns=[chunk.path_in_schema]):
        array = batch.column(0)
        while not pa.types.is_dictionary(array.type):
            array = array.field(0) if pa.types.is_struct(array.type) else array.values
        yield array
