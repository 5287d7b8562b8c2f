"""Stored rows are found by what they hold, whoever wrote their file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.engine.read.stored_rows import StoredRows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("where", ["v <> 1.0", "v > 1.0", "isnan(v)"])
def test_nan_is_found_in_a_file_whose_bounds_leave_it_out(tmp_path: Path, where: str) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": [0, 1], "v": [1.0, math.nan]}), path)
    bounds = pq.ParquetFile(path).metadata.row_group(0).column(1).statistics
    assert (bounds.min, bounds.max) == (1.0, 1.0)
    assert [row["n"] for row in StoredRows().select(path, columns=["n"], where=where)] == [1]
