"""Tables of many columns; Spark compares them in a test of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tests.factories import engine as tables

if TYPE_CHECKING:
    from pathlib import Path


def test_a_thousand_columns_have_room_in_which_to_be_compared(tmp_path: Path) -> None:
    """Each column has buffers, however few rows there are."""
    rows = pa.table(
        {
            "k": pa.array(range(300)),
            **{f"c{place}": [f"{row} in {place}" for row in range(300)] for place in range(999)},
        }
    )
    table = tables.make_table(tmp_path, rows.schema)
    ends = []
    for version in (rows, rows.set_column(500, "c499", [pa.array(["changed"] * 300)])):
        table.overwrite(version)
        ends.append(tables.snapshot_of(table))
    result = tables.diff(tmp_path, *(tables.side(table, end) for end in ends), key=["k"])
    assert (result["updated"], [column["name"] for column in result["columns"] if column["changed"]]) == (300, ["c499"])
