"""Run by `tests.bench.diff` in a process with Recce's own packages: `value_diff` over dbt's adapter of DuckDB.

python recce_value_diff.py '{"before": [...], "after": [...], "key": [...], "folder": "..."}' answer.json

Recce compares a model of a dbt project in two environments; the smallest such project is made first, and not measured.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from dbt.cli.main import dbtRunner
from recce.core import load_context
from recce.tasks.valuediff import ValueDiffTask

PROJECT = "name: bench\nprofile: bench\nversion: '1.0'\nmodels: {+materialized: view}\n"
OUTPUT = "{type: duckdb, path: %s/bench.duckdb, schema: %s, threads: 2, settings: {threads: 2, memory_limit: 4GB}}"
TARGETS = {"before": "target-base", "after": "target"}


def main(question: str, answer: str) -> None:
    """Write down the seconds, and how many rows differ, came and left."""
    asked = json.loads(question)
    folder = Path(asked["folder"])
    if not (folder / "dbt_project.yml").exists():
        make_project(folder, asked)
    started, used = time.perf_counter(), time.process_time()
    load_context(project_dir=str(folder), profiles_dir=str(folder), target="after", duckdb_external_access=True)
    found = ValueDiffTask({"model": "compared", "primary_key": asked["key"]}).execute()
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    common = found.summary.total - found.summary.added - found.summary.removed
    # the changes are all in one column, so its rows that do not match are the rows that differ
    differing = common - min(int(matched) for _column, matched, _share in found.data.data)
    counts = [differing, found.summary.added, found.summary.removed]
    Path(answer).write_text(json.dumps({"seconds": seconds, "processor": processor, "counts": counts}))


def make_project(folder: Path, asked: dict[str, Any]) -> None:
    """One model, which is a view of one end's files in either environment, and dbt's artifacts about both."""
    outputs = ", ".join(f"{end}: {OUTPUT % (folder, end)}" for end in TARGETS)
    (folder / "profiles.yml").write_text(f"bench: {{target: after, outputs: {{{outputs}}}}}\n")
    (folder / "dbt_project.yml").write_text(PROJECT)
    (folder / "models").mkdir()
    for end, target in TARGETS.items():
        (folder / "models" / "compared.sql").write_text(f"SELECT * FROM read_parquet({asked[end]!r})")
        where = ["--project-dir", folder, "--profiles-dir", folder, "--target", end, "--target-path", folder / target]
        for command in (["run"], ["docs", "generate"]):
            made = dbtRunner().invoke([*command, *map(str, where), "--quiet"])
            if not made.success:
                raise SystemExit(f"dbt {command[0]} of {end} failed: {made.exception or made.result}")


if __name__ == "__main__":
    main(*sys.argv[1:])
