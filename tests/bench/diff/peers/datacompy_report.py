"""Run by `tests.bench.diff` in a process with datacompy's own packages: compares two lists of Parquet files by key.

python datacompy_report.py '{"before": [...], "after": [...], "key": [...]}' answer.json
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import datacompy
import polars as pl


def main(question: str, answer: str) -> None:
    """Write down the seconds, and how many rows differ, came and left."""
    asked = json.loads(question)
    started, used = time.perf_counter(), time.process_time()
    before, after = (pl.read_parquet(asked[end]) for end in ("before", "after"))
    found = datacompy.PolarsCompare(before, after, join_columns=asked["key"])
    differing = found.intersect_rows.height - found.count_matching_rows()
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    counts = [differing, found.df2_unq_rows.height, found.df1_unq_rows.height]
    Path(answer).write_text(json.dumps({"seconds": seconds, "processor": processor, "counts": counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
