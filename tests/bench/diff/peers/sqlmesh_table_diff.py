"""Run by `tests.bench.diff` in a process with SQLMesh's own packages: `table_diff` over DuckDB.

python sqlmesh_table_diff.py '{"before": [...], "after": [...], "key": [...], "folder": "..."}' answer.json
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from sqlglot import exp
from sqlmesh import Context
from sqlmesh.core.config import Config, DuckDBConnectionConfig, GatewayConfig, ModelDefaultsConfig


def main(question: str, answer: str) -> None:
    """Write down the seconds, and how many rows differ, came and left."""
    asked = json.loads(question)
    started, used = time.perf_counter(), time.process_time()
    connection = DuckDBConnectionConfig(connector_config={"threads": 2, "memory_limit": "4GB"})
    config = Config(
        gateways={"": GatewayConfig(connection=connection)}, model_defaults=ModelDefaultsConfig(dialect="duckdb")
    )
    context = Context(paths=asked["folder"], config=config)
    for end in ("before", "after"):
        context.engine_adapter.execute(f"CREATE VIEW {end} AS SELECT * FROM read_parquet({asked[end]!r})")
    on = exp.and_(*(exp.column(name, "s").eq(exp.column(name, "t")) for name in asked["key"]))
    found = context.table_diff(source="before", target="after", on=on, show=False)[0].row_diff()
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    counts = [found.partial_match_count, found.t_only_count, found.s_only_count]
    Path(answer).write_text(json.dumps({"seconds": seconds, "processor": processor, "counts": counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
