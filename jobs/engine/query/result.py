"""The rows of a result, stored up to a limit: columns c0, c1 … in Parquet, whatever the query calls them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.engine.errors import RefusedQueryError

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

MOST_COLUMNS = 500
_BATCH_ROWS = 2_048
_ROW_GROUP = 8_192
_NOT_IN_PARQUET = re.compile(r'\b(INTERVAL|UNION|BIT|TIME WITH TIME ZONE|VARIANT|GEOMETRY)\b|"NULL"')
"""Types of DuckDB whose values Parquet does not hold; they are stored as the text that DuckDB writes."""


@dataclass(frozen=True)
class StoredResult:
    """What was stored of a result."""

    columns: tuple[tuple[str, str], ...]
    """Names and DuckDB types."""
    rows: int
    size: int
    """Bytes, decoded."""
    is_cut: bool
    """Whether there are more rows than a result may have."""

    def as_json(self) -> dict[str, Any]:
        """Return it for a summary."""
        columns = [{"name": name, "type": type_} for name, type_ in self.columns]
        return {"columns": columns, "rows": self.rows, "bytes": self.size, "is_cut": self.is_cut}


def store_result(relation: duckdb.DuckDBPyRelation, path: Path, *, row_limit: int, byte_limit: int) -> StoredResult:
    """Run a query and store its first rows; it goes no further than what is stored needs.

    Raises:
        RefusedQueryError: it has too many columns.

    """
    columns = tuple(zip(relation.columns, map(str, relation.types), strict=True))
    if len(columns) > MOST_COLUMNS:
        raise RefusedQueryError(f"A result has at most {MOST_COLUMNS} columns; this one has {len(columns):,}.")
    values = ", ".join(
        f"#{place + 1}{'::VARCHAR' if _NOT_IN_PARQUET.search(type_) else ''} AS c{place}"
        for place, (_, type_) in enumerate(columns)
    )
    rows = size = 0
    is_cut = False
    with (
        relation.project(values).to_arrow_reader(_BATCH_ROWS) as batches,
        pq.ParquetWriter(path, batches.schema, compression="zstd") as file,
    ):
        for batch in batches:
            rest = batch.slice(0, row_limit - rows)
            rows, size = rows + rest.num_rows, size + rest.nbytes
            is_cut = rest.num_rows < batch.num_rows or size > byte_limit
            if rest.num_rows:
                file.write_table(pa.Table.from_batches([rest]), row_group_size=_ROW_GROUP)
            if is_cut:
                break
    return StoredResult(columns, rows, size, is_cut)
